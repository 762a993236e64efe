package tuner

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
)

// BenchReport is the kernel table of a host beside the host's own limits, all taken in this run. It marshals to the
// document that the bench verb prints. The inner keys of the limits are thread counts; a limit is the median over the
// rows that were paired with it.
type BenchReport struct {
	Host          BenchHost                     `json:"host"`
	StartedAt     time.Time                     `json:"started_at"`
	Elapsed       float64                       `json:"elapsed_seconds"`
	Interrupted   bool                          `json:"interrupted"`
	ReadBandwidth map[int]float64               `json:"read_bandwidth_bytes_per_second"` // from DRAM
	ReadFrom      map[Residency]map[int]float64 `json:"read_bandwidth_by_residency"`     // bytes per second
	Int8Peak      map[int]float64               `json:"int8_peak_ops_per_second"`        // of the best instruction
	Int8PeakOf    map[string]map[int]float64    `json:"int8_peak_by_instruction"`        // operations per second
	Rows          []Bench                       `json:"rows"`
	LeftOut       int                           `json:"left_out"` // rows of the plan that were not measured; Warnings names them
	Warnings      []string                      `json:"warnings"`
}

// BenchHost says where a table was measured.
type BenchHost struct {
	CPU         string `json:"cpu"`
	UsableCores int    `json:"usable_cores"`
	Fingerprint string `json:"fingerprint"`
}

// Bench is one kernel on one shape. Its time is for one matmul of M tokens with an N x K matrix, one of a set of
// distinct matrices that are multiplied in turn, so that the weights come from where Residency says.
type Bench struct {
	Kernel           string           `json:"kernel"`
	Layout           kernels.Layout   `json:"layout"`
	N                int              `json:"n"`
	K                int              `json:"k"`
	M                int              `json:"m"`
	Threads          int              `json:"threads"`
	Residency        Residency        `json:"residency"`
	Blocking         kernels.Blocking `json:"blocking"`
	WorkingSetBytes  uint64           `json:"working_set_bytes"` // of distinct weights
	MedianSeconds    float64          `json:"median_seconds"`
	BytesPerSecond   float64          `json:"bytes_per_second"`   // of packed weights
	OpsPerSecond     float64          `json:"ops_per_second"`     // 2 M N K per matmul
	WeightsPerSecond float64          `json:"weights_per_second"` // N K per matmul
	Limit            string           `json:"limit"`              // "read" at M = 1, else "int8 peak", with the kernel's own instruction set
	LimitLoop        string           `json:"limit_loop"`         // what that loop consists of
	LimitPerSecond   float64          `json:"limit_per_second"`   // bytes or operations, the median in the row's own pairs
	FractionOfLimit  float64          `json:"fraction_of_limit"`  // from pairs with the limit's loop, interleaved
	Low              float64          `json:"fraction_low"`       // 0 to 0: too few samples for an interval
	High             float64          `json:"fraction_high"`
	Samples          int              `json:"samples"`
	Spread           float64          `json:"spread"` // coefficient of variation of the samples
}

// The names of the limits.
const (
	limitRead = "read"
	limitPeak = "int8 peak"
)

// Intensity is how many operations the row does per byte of weights that it reads.
func (b Bench) Intensity() float64 { return b.OpsPerSecond / b.BytesPerSecond }

// fill turns a comparison with the limit, whose costs are of one matmul and of one unit of the limit, into the figures
// of the row: matrix is the bytes of a packed matrix, units those of the limit that one matmul takes, scale the bytes or
// operations of one unit. Without an interval, Low and High stay 0.
func (b *Bench) fill(c measure.Comparison, matrix uint64, units, scale float64) {
	weights := float64(b.N) * float64(b.K)
	b.MedianSeconds = c.Base.Median / 1e9
	b.WeightsPerSecond = weights / b.MedianSeconds
	b.OpsPerSecond = 2 * weights * float64(b.M) / b.MedianSeconds
	b.BytesPerSecond = float64(matrix) / b.MedianSeconds
	b.LimitPerSecond = scale / c.Cand.Median * 1e9
	b.FractionOfLimit = units / c.Ratio
	if c.High < math.MaxFloat64 {
		b.Low, b.High = units/c.High, units/c.Low
	}
	b.Samples, b.Spread = c.Base.N, c.Base.CV
}

// sortRows puts what is to be compared next to each other: all kernels on one shape from one place with one batch and
// one number of threads.
func (r *BenchReport) sortRows(shapes []shape) {
	at := func(b Bench) int { return slices.Index(shapes, shape{b.N, b.K}) }
	slices.SortStableFunc(r.Rows, func(a, b Bench) int {
		return cmp.Or(cmp.Compare(at(a), at(b)),
			cmp.Compare(slices.Index(Residencies(), a.Residency), slices.Index(Residencies(), b.Residency)),
			cmp.Compare(a.M, b.M), cmp.Compare(a.Threads, b.Threads), cmp.Compare(a.Kernel, b.Kernel))
	})
}

// summarize fills the host's limits from the rows.
func (r *BenchReport) summarize() {
	type roof struct {
		limit     string
		residency Residency // of a read
		loop      string    // of a peak; of a read, the kernel, which tells the instruction set
		threads   int
	}
	rates := map[roof][]float64{}
	for _, b := range r.Rows {
		key := roof{b.Limit, b.Residency, b.LimitLoop, b.Threads}
		if b.Limit == limitPeak {
			key.residency = ""
		} else {
			key.loop = b.Kernel
		}
		rates[key] = append(rates[key], b.LimitPerSecond)
	}
	for key, list := range rates {
		slices.Sort(list)
		rate := list[len(list)/2]
		if key.limit == limitPeak {
			raise(r.Int8PeakOf, key.loop, key.threads, rate)
			r.Int8Peak[key.threads] = max(r.Int8Peak[key.threads], rate)
			continue
		}
		raise(r.ReadFrom, key.residency, key.threads, rate)
		if key.residency == InDRAM {
			r.ReadBandwidth[key.threads] = max(r.ReadBandwidth[key.threads], rate)
		}
	}
}

// raise makes a rate at least v.
func raise[K comparable](rates map[K]map[int]float64, key K, threads int, v float64) {
	if rates[key] == nil {
		rates[key] = map[int]float64{}
	}
	rates[key][threads] = max(rates[key][threads], v)
}
