package device

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
)

// R0.5, R0.8: BitNet b1.58 2B4T, by hand. Weights: 2,084,044,800 of them, a quarter of a byte each, and 32 bytes for each
// of 210 tensors. Embedding: 128256 x 2560 in f16, which is also the head. Cache: 2 x 30 layers x 5 heads x 128 x 4096
// tokens x 2 bytes. Activations: 512 tokens of 4 x (2 x 2560 + 2560 + 2 x 640 + 2 x 6912 + 20 x 4096) + 6912 bytes, and
// 128256 logits. Operations: 2 for each of 2,084,044,800 + 128256 x 2560 weights, 4 x 30 x 2560 x 4096 for attention.
func TestRequirementsByHand(t *testing.T) {
	got := Defaults.Require(preset(t, "bitnet-b1.58-2b-4t"), Use{})
	type values struct {
		Weights, Embedding, Head, Model, Cache, Activations, Working, Operations, BytesPerToken, Bandwidth uint64
	}
	const weights, embedding, cache = 521_011_200 + 210*32, 128256 * 2560 * 2, 2 * 30 * 5 * 128 * 4096 * 2
	const activations = 512*(4*(2*2560+2560+2*640+2*6912+20*4096)+6912) + 4*128256
	want := values{weights, embedding, 0, weights + embedding, cache, activations, cache + activations,
		2*(2_084_044_800+128256*2560) + 4*30*2560*4096, weights + embedding + cache, 0}
	if diff := cmp.Diff(want, values{got.Weights.Value, got.Embedding.Value, got.Head.Value, got.ModelBytes.Value, got.KVCache.Value,
		got.Activations.Value, got.Working.Value, got.Operations.Value, got.BytesPerToken.Value, got.Bandwidth.Value}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if want := got.ModelBytes.Value + 3*got.Working.Value; got.Required(3) != want {
		t.Errorf("Required(3) = %d, want %d", got.Required(3), want)
	}
	if got.Layout != "i2s" || got.Context != 4096 || got.Batch != 1 || got.Batches != nil || got.Defaulted != nil {
		t.Errorf("got %+v", got)
	}
	if got.LayoutBytes["tl2"] != preset(t, "bitnet-b1.58-2b-4t").Bytes()["tl2"] {
		t.Errorf("layout bytes %v", got.LayoutBytes)
	}
}

// R0.5: context and batch as they are used, a layout whose size its packer tells, and an untied head.
func TestRequirementsFollowTheUse(t *testing.T) {
	m := preset(t, "llama3-8b-1.58")
	short, long := Defaults.Require(m, Use{Context: 1024, Batch: 4}), Defaults.Require(m, Use{Context: 8192, Layout: "t5", WeightBytes: 1_400_000_000})
	if long.KVCache.Value != 8*short.KVCache.Value {
		t.Errorf("caches of %d and %d for 1024 and 8192 tokens", short.KVCache.Value, long.KVCache.Value)
	}
	if short.Batch != 4 || short.Head.Value != 128256*4096*2 {
		t.Errorf("batch %d, head %d", short.Batch, short.Head.Value)
	}
	if long.Weights.Value != 1_400_000_000 || long.Layout != "t5" || long.Defaulted != nil {
		t.Errorf("weights %+v in %s, defaulted %v", long.Weights, long.Layout, long.Defaulted)
	}
}

// R0.5: a need for bandwidth is known where a rate is, and says whether it was measured.
func TestBandwidthNeed(t *testing.T) {
	m := preset(t, "falcon-e-1b")
	guessed, timed := Defaults.Require(m, Use{TokensPerSecond: 10}), Defaults.Require(m, Use{TokensPerSecond: 10, RateMeasured: true})
	if guessed.Bandwidth.Value != 10*guessed.BytesPerToken.Value || guessed.Bandwidth.Basis != Estimate || timed.Bandwidth.Basis != Measured {
		t.Errorf("got %+v and %+v", guessed.Bandwidth, timed.Bandwidth)
	}
}

// R0.8: without a model, those of the documented default are taken, and the result says so.
func TestRequirementsOfAnUnknownModel(t *testing.T) {
	got, want := Defaults.Require(model.Model{Name: "mystery"}, Use{WeightBytes: 7, TokensPerSecond: 9}), Defaults.Require(preset(t, DefaultModel), Use{})
	if diff := cmp.Diff([]string{"model"}, got.Defaulted); diff != "" {
		t.Errorf("defaulted (-want +got):\n%s", diff)
	}
	got.Defaulted = nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// R0.5, R0.26: an embedding model keeps no cache but that of the layer at work, and has batches of its own.
func TestRequirementsOfAnEmbeddingModel(t *testing.T) {
	got := Defaults.Require(preset(t, "bitnet-embedding-0.6b"), Use{})
	if want := uint64(2 * 8 * 128 * 512 * 2); got.KVCache.Value != want || got.Context != 512 {
		t.Errorf("cache %d for %d tokens, want %d for 512", got.KVCache.Value, got.Context, want)
	}
	if diff := cmp.Diff(Defaults.EmbeddingBatches, got.Batches); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// R0.8: a number from the file's header says so, a formula does not.
func TestRequirementsSayHowTheyAreKnown(t *testing.T) {
	m := preset(t, "bitnet-b1.58-2b-4t")
	m.Source, m.FileType = "/models/2b.gguf", "i2_s"
	file, other := Defaults.Require(m, Use{}), Defaults.Require(m, Use{Layout: "tl2"})
	if file.Weights.Basis != Probe || file.ModelBytes.Basis != Probe || file.KVCache.Basis != Estimate {
		t.Errorf("weights %s, model %s, cache %s, want probe, probe, estimate", file.Weights.Basis, file.ModelBytes.Basis, file.KVCache.Basis)
	}
	if other.Weights.Basis != Estimate || other.ModelBytes.Basis != Estimate {
		t.Errorf("in another layout than the file's: weights %s, model %s, want estimates", other.Weights.Basis, other.ModelBytes.Basis)
	}
}

func TestRequirementsDoNotWrapAround(t *testing.T) {
	m := preset(t, "falcon3-10b-1.58")
	r := Defaults.Require(m, Use{Context: 1 << 62})
	if r.Working.Value != 1<<64-1 || r.Required(8) != 1<<64-1 {
		t.Errorf("working %d, required %d, want the most that there is", r.Working.Value, r.Required(8))
	}
	if d := decide(t, plain(8, 64*gib), cards(80*gib), r, Options{}); d.Strategy.Value != CPUOnly || d.Batch.Value != 1 {
		t.Errorf("%s with batch %d, want cpu_only with 1", d.Strategy.Value, d.Batch.Value)
	}
	c := Defaults
	c.CacheValueBytes = 1 << 60
	if got := c.Require(m, Use{}).KVCache.Value; got != 1<<64-1 {
		t.Errorf("a cache of %d bytes, want the most that there is", got)
	}
}
