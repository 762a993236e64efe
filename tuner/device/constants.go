package device

import (
	"fmt"
	"reflect"
	"slices"
)

const mib = 1 << 20

// Constants are the figures that the rules here rest on. The requirements give most of them as placeholders: they are
// defaults, to be overridden through Options, and shown with their source.
type Constants struct {
	Context          int    `json:"context" source:"R0.8, our choice" unit:"tokens" doc:"kept in the cache of a sequence where the caller does not say: the training length of BitNet b1.58 2B4T"`
	EmbeddingContext int    `json:"embedding_context" source:"R0.8, our choice" unit:"tokens" doc:"the same for an embedding model, which sees a passage at once"`
	CacheValueBytes  uint64 `json:"cache_value_bytes" source:"R0.8, our choice" unit:"bytes" doc:"of a key or value in the cache: f16, as engines of llama.cpp's family keep it"`
	FlightTokens     int    `json:"flight_tokens" source:"R0.8, our choice" unit:"tokens" doc:"of a prompt that a layer works on at once: llama.cpp's n_ubatch"`

	GPUModelBytes    uint64  `json:"gpu_model_bytes" source:"R0.11" unit:"bytes" doc:"a model this large is judged faster on a GPU"`
	GPUOperations    uint64  `json:"gpu_operations" source:"R0.11" unit:"operations per token" doc:"a model of more is judged faster on a GPU; every language model is"`
	FewCores         int     `json:"few_cores" source:"R0.11" unit:"cores" doc:"on a host of no more, any model is judged faster on a GPU"`
	HybridModelBytes uint64  `json:"hybrid_model_bytes" source:"R0.12" unit:"bytes" doc:"a model above this is shared between GPU and CPU where it does not fit the GPU"`
	GPUThreads       int     `json:"gpu_threads" source:"R0.20" unit:"threads" doc:"that feed a GPU"`
	MostLoad         float64 `json:"most_load" source:"R0.21" unit:"share of the CPUs" doc:"utilisation above this counts as this, so that some cores stay eligible"`
	QuietCores       float64 `json:"quiet_cores" source:"R0.21, our choice" unit:"cores" doc:"load that keeps fewer cores busy takes none: rounded down, any load average takes one of two cores from an idle host"`
	NodeBandwidth    uint64  `json:"node_bandwidth" source:"R0.22, our choice" unit:"bytes per second" doc:"of the memory of a NUMA node where it was not measured: two channels of DDR4-3200"`
	AutoDivisor      int     `json:"auto_divisor" source:"R0.24" unit:"cores per thread" doc:"threads of the strategy auto"`
	FractionHeadroom float64 `json:"fraction_headroom" source:"R0.25" unit:"share of the fraction" doc:"the memory fraction of a GPU is what is required over this"`
	LeastFraction    float64 `json:"least_fraction" source:"R0.25" unit:"share of total" doc:"the least memory fraction of a GPU"`
	MostFraction     float64 `json:"most_fraction" source:"R0.25" unit:"share of total" doc:"the largest memory fraction of a GPU"`
	Batches          []int   `json:"batches" source:"R0.26" unit:"sequences" doc:"candidates for a model that prefers none"`
	EmbeddingBatches []int   `json:"embedding_batches" source:"R0.26, our choice" unit:"sequences" doc:"preferred by embedding models, which keep no cache: passages come in crowds"`
	BatchMemory      float64 `json:"batch_memory" source:"R0.27" unit:"share of available" doc:"working memory of a batch stays below this"`
	FixedThreads     int     `json:"fixed_threads" source:"R0.34" unit:"threads" doc:"of the fixed configuration, whatever the host is"`
	FixedBatch       int     `json:"fixed_batch" source:"R0.34" unit:"sequences" doc:"of the fixed configuration"`
}

// Defaults are the constants where none are given.
var Defaults = Constants{
	Context:          4096,
	EmbeddingContext: 512,
	CacheValueBytes:  2,
	FlightTokens:     512,

	GPUModelBytes:    1024 * mib,
	GPUOperations:    1000,
	FewCores:         8,
	HybridModelBytes: 4096 * mib,
	GPUThreads:       2,
	MostLoad:         0.8,
	QuietCores:       1,
	NodeBandwidth:    51_200_000_000,
	AutoDivisor:      2,
	FractionHeadroom: 0.9,
	LeastFraction:    0.10,
	MostFraction:     0.95,
	Batches:          []int{1, 2, 4, 8, 16},
	EmbeddingBatches: []int{1, 4, 16, 64},
	BatchMemory:      0.8,
	FixedThreads:     4,
	FixedBatch:       1,
}

// Validate names the first constant that cannot be meant.
func (c Constants) Validate() error {
	v := reflect.ValueOf(c)
	for i := range v.NumField() {
		name, unit, field := v.Type().Field(i).Tag.Get("json"), v.Type().Field(i).Tag.Get("unit"), v.Field(i)
		switch {
		case field.CanFloat() && unit == "cores" && !(field.Float() >= 0):
			return fmt.Errorf("device: constant %s is %v: want at least 0", name, field.Float())
		case field.CanFloat() && unit != "cores" && !(field.Float() > 0 && field.Float() <= 1):
			return fmt.Errorf("device: constant %s is %v: want a share above 0 and up to 1", name, field.Float())
		case field.CanInt() && field.Int() <= 0, field.CanUint() && field.Uint() == 0:
			return fmt.Errorf("device: constant %s is %v: want more than 0", name, field.Interface())
		}
	}
	for _, list := range [][]int{c.Batches, c.EmbeddingBatches} {
		if len(list) == 0 || slices.Min(list) < 1 {
			return fmt.Errorf("device: constants batches, embedding_batches: %v: want batches of at least 1", list)
		}
	}
	if c.LeastFraction > c.MostFraction {
		return fmt.Errorf("device: constants least_fraction, most_fraction are %v, %v: want them in ascending order", c.LeastFraction, c.MostFraction)
	}
	return nil
}
