package advisor

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Constants are the figures that the built-in rules go by, all overridable (Options.Constants). A source that is a line
// of the requirements (R2.10) is a figure given with the rule and not measured by anybody here; other sources say more.
// Percentages are changes: -30 is 30 % less.
type Constants struct {
	HighImpactPercent   float64 `json:"high_impact_percent" source:"R2.6" unit:"%" doc:"gain above which a suggestion is of high impact"`
	MediumImpactPercent float64 `json:"medium_impact_percent" source:"R2.6" unit:"%" doc:"gain from which on it is of medium impact"`
	ConstrainedBytes    uint64  `json:"constrained_bytes" source:"R2.42" unit:"bytes" doc:"memory up to which a host is short of it"`
	ConstrainedShare    float64 `json:"constrained_share" source:"our choice" unit:"share of the limit" doc:"peak use from which on a host is short of memory"`
	AccuracyDrop        float64 `json:"accuracy_drop" source:"R2.44" unit:"absolute" doc:"difference of accuracy that a change may not reach"`

	SequenceLength   int     `json:"sequence_length" source:"R2.10" unit:"tokens" doc:"context above which attention dominates"`
	AttentionLatency float64 `json:"attention_latency_percent" source:"R2.10" unit:"%" doc:"of sparse or linear attention"`
	AttentionMemory  float64 `json:"attention_memory_percent" source:"R2.10" unit:"%" doc:"of sparse or linear attention"`

	FragmentationRatio  float64 `json:"fragmentation_ratio" source:"R2.11" unit:"peak / current" doc:"memory above which buffers are not reused"`
	FragmentationMemory float64 `json:"fragmentation_memory_percent" source:"R2.11" unit:"%" doc:"of pools"`

	QuantizationWeights uint64  `json:"quantization_weights" source:"R2.12" unit:"weights" doc:"size above which a model should be quantised"`
	QuantizationMemory  float64 `json:"quantization_memory_percent" source:"R2.12" unit:"%" doc:"of quantising"`
	QuantizationSpeed   float64 `json:"quantization_speed_ratio" source:"R2.12" unit:"ratio" doc:"of quantising"`

	ThreadingCores   int     `json:"threading_cores" source:"R2.13" unit:"cores" doc:"usable cores above which one thread is too few"`
	ThreadingLatency float64 `json:"threading_latency_percent" source:"R2.13" unit:"%" doc:"of threads"`

	FusionOperations   int     `json:"fusion_operations" source:"R2.20, our choice" unit:"operations" doc:"operations of a pass above which many is many"`
	FusionShare        float64 `json:"fusion_share" source:"R2.20, our choice" unit:"share" doc:"of them that are small, above which they should be fused"`
	FusionMicroseconds float64 `json:"fusion_microseconds" source:"R2.20, our choice: ten times the fan-out and barrier of a warm pool" unit:"µs" doc:"time below which a profiled operation is small"`
	FusionWeights      uint64  `json:"fusion_weights" source:"R2.20, our choice: half the L2 cache of a server core at one byte a weight" unit:"weights" doc:"weights below which an operation of a graph is small"`
	FusionLatency      float64 `json:"fusion_latency_percent" source:"R2.14" unit:"%" doc:"of fused kernels"`

	CacheLow  float64 `json:"kv_cache_low_ratio" source:"R2.15" unit:"ratio" doc:"least speed-up of generation by a KV cache"`
	CacheHigh float64 `json:"kv_cache_high_ratio" source:"R2.15" unit:"ratio" doc:"greatest speed-up of generation by a KV cache"`

	BatchThroughput float64 `json:"batch_throughput_ratio" source:"R2.16" unit:"ratio" doc:"of more than one sequence at once on a GPU"`

	PrecisionCapability float64 `json:"precision_capability" source:"R2.17" unit:"compute capability" doc:"from which on mixed precision pays"`
	PrecisionSpeed      float64 `json:"precision_speed_ratio" source:"R2.17" unit:"ratio" doc:"of mixed precision"`
	PrecisionMemory     float64 `json:"precision_memory_percent" source:"R2.17" unit:"%" doc:"of mixed precision"`

	FlashCapability float64 `json:"flash_capability" source:"R2.20: Dao (2023), FlashAttention-2, runs on Ampere and later" unit:"compute capability" doc:"from which on flash attention runs"`
	FlashLow        float64 `json:"flash_low_ratio" source:"R2.18" unit:"ratio" doc:"least speed-up of attention"`
	FlashHigh       float64 `json:"flash_high_ratio" source:"R2.18" unit:"ratio" doc:"greatest speed-up of attention"`

	CheckpointShare   float64 `json:"checkpoint_share" source:"R2.20, our choice" unit:"share of the limit" doc:"peak memory from which on checkpointing pays"`
	CheckpointMemory  float64 `json:"checkpoint_memory_percent" source:"R2.19" unit:"%" doc:"of gradient checkpointing"`
	CheckpointLatency float64 `json:"checkpoint_latency_percent" source:"R2.19" unit:"%" doc:"that it costs"`

	QuotaLow   float64 `json:"quota_low_ratio" source:"measured, 2 threads under a quota of 1: 0.77 with workers that park, 0.97 with workers that spin (of single runs)" unit:"ratio" doc:"least speed-up of no more threads than the quota"`
	Quota      float64 `json:"quota_ratio" source:"llmmanorg/llmman#322: 16 threads under a quota of 2" unit:"ratio" doc:"usual speed-up, where threads wait by spinning"`
	QuotaHigh  float64 `json:"quota_high_ratio" source:"ollama/ollama#17916: 8 threads under a quota of 4, 0.27 and 12.07 tokens/s" unit:"ratio" doc:"greatest speed-up reported"`
	Parked     float64 `json:"parked_ratio" source:"measured with this program's own workers, which park, 2 threads under a quota of 1: 0.83 (0.77-0.92), and 1.12 (0.99-1.47) with short samples" unit:"ratio" doc:"usual speed-up, where threads park"`
	ParkedHigh float64 `json:"parked_high_ratio" source:"the upper ends of the intervals of both" unit:"ratio" doc:"greatest speed-up, where threads park"`

	CrowdLow  float64 `json:"crowd_low_ratio" source:"our choice: workers that park lose little" unit:"ratio" doc:"least speed-up of no more threads than CPUs"`
	Crowd     float64 `json:"crowd_ratio" source:"measured with workers that spin, 4 threads on 2 CPUs: 21 without a quota, 22 with a quota of 1" unit:"ratio" doc:"usual speed-up, where threads wait by spinning"`
	CrowdHigh float64 `json:"crowd_high_ratio" source:"measured likewise with matmuls of 20 µs: 300; ollama/ollama#17916 reports 45" unit:"ratio" doc:"greatest speed-up seen"`

	SMTLow  float64 `json:"smt_low_ratio" source:"ggml-org/llama.cpp PR 20020: on POWER8 the second thread gains 22 %" unit:"ratio" doc:"least speed-up of one thread a core"`
	SMT     float64 `json:"smt_ratio" source:"our choice: a core's ports are full with one thread" unit:"ratio" doc:"usual speed-up"`
	SMTHigh float64 `json:"smt_high_ratio" source:"ggml-org/llama.cpp PR 19260: 2.5 and 9 tokens/s" unit:"ratio" doc:"greatest speed-up reported"`

	LayoutCacheShare float64 `json:"layout_cache_share" source:"our choice" unit:"share of the L3" doc:"ternary weights up to which they stay in the cache"`
	LayoutLow        float64 `json:"layout_low_ratio" source:"README: t5 and t5f beside i2s from memory, 1.15 to 1.33" unit:"ratio" doc:"least speed-up of decoding in a dense layout"`
	LayoutHigh       float64 `json:"layout_high_ratio" source:"README: t5 and t5f beside i2s from memory, 1.15 to 1.33" unit:"ratio" doc:"greatest speed-up of decoding in a dense layout"`

	BatchFactor float64 `json:"batch_factor" source:"our choice: the next but one step of the batches that are tried" unit:"ratio" doc:"distance from the learned batch from which on it is far"`

	RemoteShare float64 `json:"remote_share" source:"our choice" unit:"share of the memory" doc:"on other nodes above which placement is wrong"`
	RemoteLow   float64 `json:"remote_low_ratio" source:"our choice" unit:"ratio" doc:"least speed-up of local memory"`
	RemoteHigh  float64 `json:"remote_high_ratio" source:"our choice: a link between sockets has about half the bandwidth of local memory" unit:"ratio" doc:"greatest speed-up of local memory"`

	HugePagesHigh float64 `json:"huge_pages_high_ratio" source:"our choice" unit:"ratio" doc:"greatest speed-up of huge pages for a read of memory in order"`
	GovernorHigh  float64 `json:"governor_high_ratio" source:"our choice: the span between base and turbo clock of a server" unit:"ratio" doc:"greatest speed-up of another governor"`

	ThrottledShare float64 `json:"throttled_share" source:"our choice" unit:"share of the periods" doc:"in which the quota ran out, above which a service stumbles"`

	GPUIdle     float64 `json:"gpu_idle_share" source:"our choice" unit:"utilisation" doc:"below which a GPU is idle"`
	GPUHeadroom float64 `json:"gpu_headroom_ratio" source:"R0.25" unit:"ratio" doc:"free memory for each byte that the model needs"`
}

// Defaults are the figures where nobody set others.
var Defaults = Constants{
	HighImpactPercent: 30, MediumImpactPercent: 10, ConstrainedBytes: 8 << 30, ConstrainedShare: 0.8, AccuracyDrop: 0.01,
	SequenceLength: 512, AttentionLatency: -30, AttentionMemory: -40,
	FragmentationRatio: 2, FragmentationMemory: -30,
	QuantizationWeights: 100e6, QuantizationMemory: -75, QuantizationSpeed: 1.4,
	ThreadingCores: 4, ThreadingLatency: -50,
	FusionOperations: 200, FusionShare: 0.5, FusionMicroseconds: 15, FusionWeights: 1 << 19, FusionLatency: -20,
	CacheLow: 3, CacheHigh: 5,
	BatchThroughput:     3,
	PrecisionCapability: 8, PrecisionSpeed: 2, PrecisionMemory: -50,
	FlashCapability: 8, FlashLow: 2, FlashHigh: 4,
	CheckpointShare: 0.8, CheckpointMemory: -50, CheckpointLatency: 20,
	QuotaLow: 0.75, Quota: 4.1, QuotaHigh: 45, Parked: 1, ParkedHigh: 1.5,
	CrowdLow: 1, Crowd: 20, CrowdHigh: 400,
	SMTLow: 0.82, SMT: 1.1, SMTHigh: 3.6,
	LayoutCacheShare: 0.5, LayoutLow: 1.15, LayoutHigh: 1.33,
	BatchFactor: 2,
	RemoteShare: 0.3, RemoteLow: 1.1, RemoteHigh: 2,
	HugePagesHigh: 1.1, GovernorHigh: 1.5,
	ThrottledShare: 0.05,
	GPUIdle:        0.1, GPUHeadroom: 1.11,
}

// bounds are what a figure may be, by the unit that its field names.
var bounds = map[string][2]float64{"%": {-100, 1000}, "ratio": {1e-3, 1e3}, "utilisation": {0, 1}, "absolute": {0, 1}}

// Validate names the first constant that cannot be meant: a figure beyond what its unit allows, or low, usual and high ones
// out of order.
func (k Constants) Validate() error {
	v := reflect.ValueOf(k)
	for i := range v.NumField() {
		tag, value := v.Type().Field(i).Tag, number(v.Field(i))
		limits, known := bounds[tag.Get("unit")]
		switch {
		case strings.HasPrefix(tag.Get("unit"), "share"):
			limits = [2]float64{0, 1}
		case !known:
			limits = [2]float64{0, 1e12}
		}
		if !(limits[0] <= value && value <= limits[1]) {
			return fmt.Errorf("advisor: constant %s is %v: want %v to %v (%s)", tag.Get("json"), value, limits[0], limits[1], tag.Get("unit"))
		}
	}
	for _, order := range []struct {
		names  string
		values []float64
	}{
		{"medium_impact_percent, high_impact_percent", []float64{k.MediumImpactPercent, k.HighImpactPercent}},
		{"kv_cache_low_ratio, kv_cache_high_ratio", []float64{k.CacheLow, k.CacheHigh}},
		{"flash_low_ratio, flash_high_ratio", []float64{k.FlashLow, k.FlashHigh}},
		{"quota_low_ratio, quota_ratio, quota_high_ratio", []float64{k.QuotaLow, k.Quota, k.QuotaHigh}},
		{"parked_ratio, parked_high_ratio", []float64{k.Parked, k.ParkedHigh}},
		{"crowd_low_ratio, crowd_ratio, crowd_high_ratio", []float64{k.CrowdLow, k.Crowd, k.CrowdHigh}},
		{"smt_low_ratio, smt_ratio, smt_high_ratio", []float64{k.SMTLow, k.SMT, k.SMTHigh}},
		{"layout_low_ratio, layout_high_ratio", []float64{k.LayoutLow, k.LayoutHigh}},
		{"remote_low_ratio, remote_high_ratio", []float64{k.RemoteLow, k.RemoteHigh}},
	} {
		if !slices.IsSorted(order.values) {
			return fmt.Errorf("advisor: constants %s are %v: want them in ascending order", order.names, order.values)
		}
	}
	return nil
}

// number is a constant of any kind as a number.
func number(v reflect.Value) float64 {
	switch {
	case v.CanFloat():
		return v.Float()
	case v.CanInt():
		return float64(v.Int())
	}
	return float64(v.Uint())
}

// AccuracyHolds reports whether a change left the accuracy as it was: equal where results are to be the same bit for bit,
// as with every kernel of ours, and else within AccuracyDrop.
func (k Constants) AccuracyHolds(before, after float64, exact bool) bool {
	if exact {
		return before == after
	}
	return max(before-after, after-before) < k.AccuracyDrop
}
