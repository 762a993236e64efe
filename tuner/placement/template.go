package placement

import "github.com/bitnet-autotune/bitnet-autotune/probe/model"

// Template is a named preset of knobs for a family: where to begin before anything is measured. All of it is a default
// that a caller overrides.
type Template struct {
	Name      string `json:"name"`
	Objective string `json:"objective"`         // of tune
	Batch     int    `json:"batch"`             // sequences at once
	Context   int    `json:"context,omitempty"` // tokens of a sequence; 0 = as tuner/device takes it for the family
	Why       string `json:"why"`
}

// templates are by family.
var templates = map[string]Template{
	model.TextGeneration: {Name: "generate", Objective: "decode", Batch: 1, Why: "one conversation at a time; a token reads all weights, so decoding decides"},
	model.Embedding:      {Name: "embed", Objective: "prefill", Batch: 16, Why: "whole passages at once, many of them: arithmetic decides, and there is no cache to keep"},
	model.Vision:         {Name: "see", Objective: "prefill", Batch: 8, Context: 1024, Why: "all patches of an image at once; batches of images fill the matmuls"},
	model.Audio:          {Name: "transcribe", Objective: "mixed", Batch: 1, Context: 1500, Why: "a window of audio at once, then token by token"},
	model.Multimodal:     {Name: "converse", Objective: "mixed", Batch: 1, Why: "an image makes a long prompt, the answer comes token by token"},
}

// TemplateOf returns the template of a family; for an unknown one one that risks nothing.
func TemplateOf(family string) Template {
	if t, known := templates[family]; known {
		return t
	}
	return Template{Name: "cautious", Objective: "mixed", Batch: 1, Why: "nothing is known of the family"}
}
