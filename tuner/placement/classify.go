package placement

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
)

// Confidence is how far a classification can be trusted.
type Confidence string

// The confidences, the best first.
const (
	Sure    Confidence = "high"   // a preset, or the architecture that a file names
	Fair    Confidence = "medium" // tensors alone, or tensors that contradict the architecture
	Weak    Confidence = "low"    // the name alone
	Nothing Confidence = "none"   // the family is unknown
)

// Subject is what is known of a model that is to be classified. Any part may be missing.
type Subject struct {
	Name         string
	Architecture string   // as a GGUF file names it
	Tensors      []string // names
	Model        model.Model
	FileBytes    uint64 // of all tensors
}

// SubjectOf is what a GGUF file tells.
func SubjectOf(f *model.File) (Subject, error) {
	m, err := f.Model()
	if err != nil {
		return Subject{}, err
	}
	s := Subject{Name: m.Name, Architecture: m.Architecture, Model: m}
	for _, t := range f.Tensors {
		s.Tensors = append(s.Tensors, t.Name)
		s.FileBytes += t.Bytes
	}
	return s, nil
}

// Classification is the family of a model, with why.
type Classification struct {
	Name         string     `json:"name"`
	Architecture string     `json:"architecture,omitempty"`
	Family       string     `json:"family"`
	Confidence   Confidence `json:"confidence"`
	Evidence     []string   `json:"evidence"`
	Warnings     []string   `json:"warnings"`
}

// Classify tells the family of a model: by what its architecture is called, by what tensors it has, and only where
// there is neither by its name, which the confidence tells. A model that none of them tells of is of unknown family.
func Classify(s Subject) Classification {
	c := Classification{Name: s.Name, Architecture: s.Architecture, Family: model.Unknown, Confidence: Nothing, Evidence: []string{}, Warnings: []string{}}
	byTensors, tensor := familyByTensors(s.Tensors)
	switch byArchitecture := s.family(); {
	case byArchitecture != model.Unknown && byTensors != model.Unknown && byTensors != byArchitecture && refines(byTensors, byArchitecture):
		c.Family, c.Confidence = byTensors, Fair
		c.Evidence = append(c.Evidence, fmt.Sprintf("architecture %s is %s, but tensor %q is of %s", s.Architecture, byArchitecture, tensor, byTensors))
	case byArchitecture != model.Unknown:
		c.Family, c.Confidence = byArchitecture, Sure
		c.Evidence = append(c.Evidence, s.source())
	case byTensors != model.Unknown:
		c.Family, c.Confidence = byTensors, Fair
		c.Evidence = append(c.Evidence, fmt.Sprintf("tensor %q", tensor))
		c.Warnings = append(c.Warnings, fmt.Sprintf("architecture %q is not known: the family is told by a tensor", s.Architecture))
	case s.Architecture == "" && len(s.Tensors) == 0:
		c.byName()
	}
	if c.Family == model.Unknown {
		c.Warnings = append(c.Warnings, "the family is unknown: the CPU is taken, which runs anything that is small enough; name a GGUF file for a better answer")
	}
	return c
}

// family is what the file's keys or the preset say.
func (s Subject) family() string {
	if s.Model.Family != "" && s.Model.Family != model.Unknown {
		return s.Model.Family
	}
	return model.FamilyOf(s.Architecture)
}

// source says where the family of the keys or the preset comes from.
func (s Subject) source() string {
	if s.Model.Source == "preset" {
		return "preset " + s.Model.Name
	}
	if s.family() != model.FamilyOf(s.Architecture) {
		return fmt.Sprintf("architecture %s with a pooling type", s.Architecture)
	}
	return "architecture " + s.Architecture
}

// refines reports whether tensors of one family in a file of another say more than the architecture: the projector of an
// image into a language model is filed as clip, and so is not vision alone.
func refines(tensors, architecture string) bool {
	return tensors == model.Multimodal && (architecture == model.Vision || architecture == model.TextGeneration)
}

// signs are tensors that only one family has, by the beginnings of their names; the first that is found decides.
var signs = []struct{ prefix, family string }{
	{"mm.", model.Multimodal}, {"multi_modal_projector.", model.Multimodal}, {"v.", model.Vision}, {"vit.", model.Vision}, {"vision_model.", model.Vision},
	{"encoder.conv1.", model.Audio}, {"encoder.conv2.", model.Audio}, {"a.conv1d.", model.Audio},
	{"token_types.", model.Embedding}, {"token_embd_norm.", model.Embedding}, {"cls.", model.Embedding},
	{"dec.blk.", model.TextGeneration}, {"output.", model.TextGeneration},
}

func familyByTensors(tensors []string) (family, tensor string) {
	for _, sign := range signs {
		for _, name := range tensors {
			if strings.HasPrefix(name, sign.prefix) {
				return sign.family, name
			}
		}
	}
	return model.Unknown, ""
}

// words are parts of names that hint at a family, the more telling families first: a name with "llava" has "llama" too.
var words = []struct {
	family string
	parts  []string
}{
	{model.Multimodal, []string{"llava", "vl", "vision-instruct", "minicpm-v", "moondream", "cogvlm", "chameleon", "paligemma", "idefics", "blip", "mllama"}},
	{model.Embedding, []string{"bert", "embedding", "embed", "bge", "e5", "gte", "minilm", "mpnet", "colbert"}},
	{model.Audio, []string{"whisper", "wav2vec2", "hubert", "wavtokenizer", "parakeet", "encodec"}},
	{model.Vision, []string{"vit", "deit", "clip", "siglip", "dinov2", "swin", "resnet", "convnext"}},
	{model.TextGeneration, []string{"gpt", "t5", "llama", "bitnet", "falcon", "qwen", "mistral", "mixtral", "gemma", "phi", "mamba", "rwkv", "bloom", "opt", "trilm", "deepseek", "granite", "olmo", "starcoder", "smollm"}},
}

// byName guesses by the name alone.
func (c *Classification) byName() {
	for _, w := range words {
		for _, part := range w.parts {
			if mentions(c.Name, part) {
				c.Family, c.Confidence = w.family, Weak
				c.Evidence = append(c.Evidence, fmt.Sprintf("%q in the name", part))
				c.Warnings = append(c.Warnings, "told by the name alone, which anyone may give: name a preset or a GGUF file for a surer answer")
				return
			}
		}
	}
}

// mentions reports whether a word of the name is part, perhaps with a number behind it (gpt2, phi3), or ends with it where
// part has four letters or more (distilbert, codellama).
func mentions(name, part string) bool {
	name = strings.ToLower(name)
	if strings.Contains(part, "-") {
		return strings.Contains(name, part)
	}
	return slices.ContainsFunc(strings.FieldsFunc(name, func(r rune) bool { return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9') }), func(word string) bool {
		stem := strings.TrimRight(word, "0123456789")
		return word == part || stem == part || len(part) >= 4 && strings.HasSuffix(stem, part)
	})
}

var parameterCount = regexp.MustCompile(`(?i)(?:^|[^a-z0-9.])(\d{1,4}(?:\.\d{1,3})?)\s*([bm])(?:[^a-z0-9]|$)`)

// parameters is the number of parameters that a name states (0.6b, 270m); 0 if it states none.
func parameters(name string) float64 {
	found := parameterCount.FindStringSubmatch(name)
	if found == nil {
		return 0
	}
	n, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		return 0
	}
	return n * map[string]float64{"b": 1e9, "m": 1e6}[strings.ToLower(found[2])]
}

// ternary reports whether a name claims weights of 1.58 bits.
func ternary(name string) bool {
	name = strings.ToLower(name)
	return strings.Contains(name, "1.58") || strings.Contains(name, "1_58") || strings.Contains(name, "bitnet") || strings.Contains(name, "ternary") || strings.Contains(name, "trilm")
}

// nameBytes estimates the memory of a model from its name; 0 if the name states no size.
func nameBytes(name string) uint64 {
	perWeight := 2.0 // f16
	if ternary(name) {
		perWeight = 0.25
	}
	return uint64(math.Round(parameters(name) * perWeight))
}
