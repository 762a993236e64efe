package placement_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model/modeltest"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/device"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/placement"
)

// presetSubject is a preset as a subject.
func presetSubject(t *testing.T, name string) placement.Subject {
	t.Helper()
	m, ok := model.Preset(name)
	if !ok {
		t.Fatalf("no preset %s", name)
	}
	return placement.Subject{Name: m.Name, Architecture: m.Architecture, Model: m}
}

// R3.2: families by architecture.
func TestClassifyByArchitecture(t *testing.T) {
	for architecture, want := range map[string]string{
		"bert": model.Embedding, "nomic-bert": model.Embedding,
		"gpt2": model.TextGeneration, "t5": model.TextGeneration, "llama": model.TextGeneration, "falcon": model.TextGeneration,
		"qwen3": model.TextGeneration, "gemma3": model.TextGeneration,
		"bitnet": model.TextGeneration, "bitnet-25": model.TextGeneration, "bitnet-b1.58": model.TextGeneration, "bitnet-of-2027": model.TextGeneration,
		"vit": model.Vision, "clip": model.Vision, "whisper": model.Audio, "llava": model.Multimodal, "qwen2vl": model.Multimodal,
	} {
		t.Run(architecture, func(t *testing.T) {
			got := placement.Classify(placement.Subject{Name: "x", Architecture: architecture, Tensors: []string{"token_embd.weight"}})
			if got.Family != want || got.Confidence != placement.Sure || len(got.Warnings) > 0 {
				t.Errorf("%+v, want %s, sure, without warnings", got, want)
			}
		})
	}
}

// R3.2: families by tensors, where the architecture says nothing or less.
func TestClassifyByTensors(t *testing.T) {
	for name, test := range map[string]struct {
		subject    placement.Subject
		want       string
		confidence placement.Confidence
	}{
		"unknown architecture with encoder.conv1": {placement.Subject{Architecture: "asr9", Tensors: []string{"x", "encoder.conv1.weight"}}, model.Audio, placement.Fair},
		"unknown architecture with token_types":   {placement.Subject{Architecture: "new", Tensors: []string{"token_types.weight"}}, model.Embedding, placement.Fair},
		"unknown architecture with v.blk":         {placement.Subject{Architecture: "new", Tensors: []string{"v.blk.0.attn_q.weight"}}, model.Vision, placement.Fair},
		"clip with a projector into text":         {placement.Subject{Architecture: "clip", Tensors: []string{"v.blk.0.attn_q.weight", "mm.0.weight"}}, model.Multimodal, placement.Fair},
		"clip alone":                              {placement.Subject{Architecture: "clip", Tensors: []string{"v.blk.0.attn_q.weight"}}, model.Vision, placement.Sure},
		"bloom has token_embd_norm":               {placement.Subject{Architecture: "bloom", Tensors: []string{"token_embd_norm.weight"}}, model.TextGeneration, placement.Sure},
		"nothing known":                           {placement.Subject{Name: "llama", Architecture: "new", Tensors: []string{"x"}}, model.Unknown, placement.Nothing},
	} {
		t.Run(name, func(t *testing.T) {
			got := placement.Classify(test.subject)
			if got.Family != test.want || got.Confidence != test.confidence {
				t.Errorf("%s with confidence %s, want %s with %s: %+v", got.Family, got.Confidence, test.want, test.confidence, got)
			}
		})
	}
}

// R3.2: a name alone is a weak sign and says so; one that says nothing is of unknown family, with a warning.
func TestClassifyByName(t *testing.T) {
	for name, want := range map[string]string{
		"bert-base-uncased": model.Embedding, "distilbert-base": model.Embedding, "BAAI/bge-small-en": model.Embedding, "intfloat/e5-large": model.Embedding,
		"gpt2": model.TextGeneration, "google/flan-t5-xl": model.TextGeneration, "meta/Llama-3-8B": model.TextGeneration, "codellama": model.TextGeneration,
		"1bitLLM/bitnet_b1_58-3B": model.TextGeneration, "phi3-mini": model.TextGeneration,
		"google/vit-base-patch16-224": model.Vision, "openai/clip-vit-large": model.Vision, "facebook/dinov2": model.Vision,
		"openai/whisper-large-v3": model.Audio, "facebook/wav2vec2-base": model.Audio,
		"llava-hf/llava-1.5-7b": model.Multimodal, "Qwen2-VL-7B": model.Multimodal,
		"vitamin": model.Unknown, "option": model.Unknown, "e55": model.Unknown, "": model.Unknown, "résumé": model.Unknown,
	} {
		t.Run(name, func(t *testing.T) {
			got := placement.Classify(placement.Subject{Name: name})
			wantConfidence := placement.Weak
			if want == model.Unknown {
				wantConfidence = placement.Nothing
			}
			if got.Family != want || got.Confidence != wantConfidence || len(got.Warnings) == 0 {
				t.Errorf("%+v, want %s with confidence %s and a warning", got, want, wantConfidence)
			}
		})
	}
}

func TestClassifyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.gguf")
	want, _ := model.Preset("bitnet-embedding-0.6b") // qwen3 with a pooling type
	if err := modeltest.WriteSparse(path, want, "i2_s"); err != nil {
		t.Fatal(err)
	}
	f, err := model.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, err := placement.SubjectOf(f)
	if err != nil {
		t.Fatal(err)
	}
	got := placement.Classify(s)
	if got.Family != model.Embedding || got.Confidence != placement.Sure || !slices.Contains(got.Evidence, "architecture qwen3 with a pooling type") {
		t.Errorf("%+v, want embedding by the pooling type", got)
	}
	info, err := os.Stat(path)
	if err != nil || s.FileBytes == 0 || s.FileBytes > uint64(info.Size()) {
		t.Errorf("%d bytes of tensors in a file of %v, %v", s.FileBytes, info.Size(), err)
	}
}

// R3.1: one call, from a name to family, hardware, template and requirements.
func TestDescribe(t *testing.T) {
	d := placement.DefaultRules.Describe(presetSubject(t, "bitnet-b1.58-2b-4t"), device.Use{}, twoCards(), placement.DefaultMatrix())
	if d.Family != model.TextGeneration || d.Template.Name != "generate" || d.Resources.MinimumBytes == 0 {
		t.Errorf("%+v", d)
	}
	if diff := cmp.Diff([]placement.Kind{placement.CUDA, placement.CPU}, d.Hardware); diff != "" {
		t.Errorf("hardware (-want +got):\n%s", diff)
	}
	unknown := placement.DefaultRules.Describe(placement.Subject{Name: "zzz"}, device.Use{}, twoCards(), placement.DefaultMatrix())
	if diff := cmp.Diff([]placement.Kind{placement.CPU}, unknown.Hardware); diff != "" || unknown.Resources.MinimumBytes != 0 {
		t.Errorf("unknown model: %+v, hardware (-want +got):\n%s", unknown.Resources, diff)
	}
}

// R3.4: every family has a named preset of knobs.
func TestTemplates(t *testing.T) {
	seen := map[string]bool{}
	for _, family := range append(slices.Clone(placement.Families), model.Unknown) {
		got := placement.TemplateOf(family)
		if got.Name == "" || seen[got.Name] || got.Batch < 1 || got.Why == "" || !slices.Contains([]string{"decode", "prefill", "mixed"}, got.Objective) {
			t.Errorf("%s: %+v, want a name of its own, a batch, an objective of tune and a reason", family, got)
		}
		seen[got.Name] = true
	}
}

// R3.5: requirements follow family, size and quantization; what is unknown stays unknown.
func TestResources(t *testing.T) {
	c := placement.DefaultRules
	small, large := presetSubject(t, "falcon3-1b-1.58"), presetSubject(t, "falcon3-10b-1.58")
	a, b := c.Resources(small, model.TextGeneration, device.Use{}), c.Resources(large, model.TextGeneration, device.Use{})
	if a.MinimumBytes == 0 || a.MinimumBytes >= b.MinimumBytes || a.DiskBytes >= b.DiskBytes || a.RecommendedBytes != 2*a.MinimumBytes {
		t.Errorf("1B %+v, 10B %+v: want less for less, and twice the minimum recommended", a, b)
	}
	if tl2 := c.Resources(large, model.TextGeneration, device.Use{Layout: "tl2"}); tl2.MinimumBytes >= b.MinimumBytes {
		t.Errorf("tl2 takes %d, i2s %d: want less", tl2.MinimumBytes, b.MinimumBytes)
	}
	embedding := c.Resources(presetSubject(t, "bitnet-embedding-0.6b"), model.Embedding, device.Use{})
	if embedding.Batch != placement.TemplateOf(model.Embedding).Batch || embedding.Context != device.Defaults.EmbeddingContext {
		t.Errorf("%+v, want the template's batch and the context of embeddings", embedding)
	}
	if many := c.Resources(small, model.TextGeneration, device.Use{Batch: 64}); many.RecommendedBytes <= a.RecommendedBytes || many.MinimumBytes != a.MinimumBytes {
		t.Errorf("batch 64: %+v, want more recommended and the same minimum", many)
	}
	for name, want := range map[string]uint64{"llama-2-7b": 14e9, "bitnet-b1.58-0.7B": 175e6, "bge-270m": 540e6, "whisper-large-v3": 0, "gpt2": 0, "b5": 0} {
		if got := c.Resources(placement.Subject{Name: name}, model.TextGeneration, device.Use{}); got.MinimumBytes != want || got.Reason == "" || got.Basis != device.Estimate {
			t.Errorf("%s: %+v, want %d bytes by the name", name, got, want)
		}
	}
	file := c.Resources(placement.Subject{Name: "x-7b", FileBytes: 123}, model.Vision, device.Use{})
	if file.MinimumBytes != 123 || !strings.Contains(file.Reason, "file") {
		t.Errorf("%+v, want the size of the file", file)
	}
}
