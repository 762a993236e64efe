package memory

import (
	"fmt"
	"reflect"
	"time"
)

const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
)

// Constants are the figures that the sizes and limits here rest on. The requirements give most of them as placeholders:
// they are defaults, to be overridden whole or one by one through Options, and shown with their source.
type Constants struct {
	ReserveShare   float64       `json:"reserve_share" source:"R1.2" unit:"share of total" doc:"left free on the device at any moment"`
	RecordLifetime time.Duration `json:"record_lifetime" source:"R1.5, our choice" unit:"ns" doc:"how long a memory record is used again: at 200 ms a query of 10 µs costs nothing, and a neighbour who allocates is seen before the next batch or two"`

	DequantBytesI2S   uint64  `json:"dequant_bytes_i2s" source:"R1.11" unit:"bytes per weight" doc:"dequantised weights of I2_S"`
	DequantBytesTL1   uint64  `json:"dequant_bytes_tl1" source:"R1.11" unit:"bytes per weight" doc:"dequantised weights of TL1"`
	DequantBytesTL2   uint64  `json:"dequant_bytes_tl2" source:"R1.11" unit:"bytes per weight" doc:"dequantised weights of TL2, whose tables are larger"`
	ResultBytes       uint64  `json:"result_bytes" source:"R1.11" unit:"bytes per output" doc:"intermediate result of a sample, any type"`
	UsableShare       float64 `json:"usable_share" source:"R1.14" unit:"share of available" doc:"what weights and batches of a workspace may take"`
	WorkspaceShare    float64 `json:"workspace_share" source:"R1.19" unit:"share of available" doc:"what a workspace may take in the end"`
	MinWorkspaceBytes uint64  `json:"min_workspace_bytes" source:"R1.20, our choice" unit:"bytes" doc:"the least workspace: half a page of the driver, enough for one sample of any matmul of the presets"`
	MaxWorkspaceBytes uint64  `json:"max_workspace_bytes" source:"R1.20, our choice" unit:"bytes" doc:"the largest workspace: the 128256 x 4096 head of an 8B model as TL2 with batch 512 takes 2.4e9"`
	MaxBatch          int     `json:"max_batch" source:"R1.20, our choice" unit:"samples" doc:"the largest batch that a class may have"`
	CPUBatch          int     `json:"cpu_batch" source:"R1.18" unit:"samples" doc:"batch of a device without CUDA"`

	SmallCardBytes  uint64 `json:"small_card_bytes" source:"R1.17" unit:"bytes" doc:"a card below this is of the smallest class"`
	MediumCardBytes uint64 `json:"medium_card_bytes" source:"R1.17" unit:"bytes" doc:"a card below this is of the second class"`
	LargeCardBytes  uint64 `json:"large_card_bytes" source:"R1.17" unit:"bytes" doc:"a card below this is of the third class, any other of the largest"`
	SmallCardBatch  int    `json:"small_card_batch" source:"R1.17" unit:"samples" doc:"largest batch of the smallest class"`
	MediumCardBatch int    `json:"medium_card_batch" source:"R1.17" unit:"samples" doc:"largest batch of the second class"`
	LargeCardBatch  int    `json:"large_card_batch" source:"R1.17" unit:"samples" doc:"largest batch of the third class"`
	HugeCardBatch   int    `json:"huge_card_batch" source:"R1.17" unit:"samples" doc:"largest batch of the largest class"`

	DriverBytes     uint64  `json:"driver_bytes" source:"R4.4" unit:"bytes" doc:"reserved for the driver"`
	ContextBytes    uint64  `json:"context_bytes" source:"R4.4" unit:"bytes" doc:"reserved for the context"`
	BudgetShare     float64 `json:"budget_share" source:"R4.4" unit:"share of total" doc:"reserved besides"`
	ReserveCapBytes uint64  `json:"reserve_cap_bytes" source:"R4.4" unit:"bytes" doc:"no more is reserved than this; it binds from 14.1 GiB on"`

	SmallFromBytes     uint64  `json:"small_from_bytes" source:"R4.11" unit:"bytes" doc:"the smallest block of a pool"`
	SmallUpToBytes     uint64  `json:"small_up_to_bytes" source:"R4.11" unit:"bytes" doc:"the largest size of the small pool"`
	MediumUpToBytes    uint64  `json:"medium_up_to_bytes" source:"R4.11" unit:"bytes" doc:"the largest size of the medium pool"`
	SmallBlocks        int     `json:"small_blocks" source:"R4.11" unit:"blocks" doc:"descriptions of blocks that the small pool begins with; memory is taken on first use"`
	MediumBlocks       int     `json:"medium_blocks" source:"R4.11" unit:"blocks" doc:"the same of the medium pool"`
	LargeBlocks        int     `json:"large_blocks" source:"R4.11" unit:"blocks" doc:"the same of the large pool"`
	SmallSegmentBytes  uint64  `json:"small_segment_bytes" source:"simulated churn" unit:"bytes" doc:"what the small pool takes at a time"`
	MediumSegmentBytes uint64  `json:"medium_segment_bytes" source:"simulated churn" unit:"bytes" doc:"what the medium pool takes at a time where the device has no virtual memory functions; with larger segments more is stuck"`
	LargeWaste         float64 `json:"large_waste" source:"our choice" unit:"share of the block" doc:"a cached large block is used again if no more of it is wasted"`
	IdleShare          float64 `json:"idle_share" source:"simulated churn" unit:"share of the peak" doc:"beyond what was allocated at most, the medium pool takes only so much more before it moves its free pages together: 0.03 to 0.05 keep efficiency above 0.95, and of those the larger ones need fewer calls of the driver"`
	AlignmentBytes     uint64  `json:"alignment_bytes" source:"R4.20" unit:"bytes" doc:"alignment where none is asked for"`

	FragmentationWarning float64       `json:"fragmentation_warning" source:"R4.33" unit:"share" doc:"stuck or wasted memory beyond this is warned of"`
	TrimLevel            float64       `json:"trim_level" source:"our choice" unit:"share of total" doc:"taken by all processes, from which on idle segments and cached large blocks are given back"`
	ShrinkLevel          float64       `json:"shrink_level" source:"our choice" unit:"share of total" doc:"from which on all free memory is given back and workspaces shrink"`
	RefuseLevel          float64       `json:"refuse_level" source:"our choice" unit:"share of total" doc:"from which on nothing is taken from the driver"`
	Hysteresis           float64       `json:"hysteresis" source:"our choice" unit:"share of total" doc:"how far below its threshold a level ends"`
	GrowthHold           time.Duration `json:"growth_hold" source:"R1.43, our choice" unit:"ns" doc:"how long a workspace keeps its size after it shrank or grew"`
	GrowthFactor         int           `json:"growth_factor" source:"R1.43, our choice" unit:"times" doc:"a workspace grows to at most so many times its batch in a step"`
	QueryDeadline        time.Duration `json:"query_deadline" source:"R1.5, our choice" unit:"ns" doc:"a query that takes longer is given up, and the record before it is called stale: 10 µs are usual, 8 ms were reported, and a loaded host may keep a thread waiting for long"`
}

// Defaults are the constants where none are given.
var Defaults = Constants{
	ReserveShare:   0.10,
	RecordLifetime: 200 * time.Millisecond,

	DequantBytesI2S:   2,
	DequantBytesTL1:   2,
	DequantBytesTL2:   4,
	ResultBytes:       4,
	UsableShare:       0.80,
	WorkspaceShare:    0.60,
	MinWorkspaceBytes: 1 * mib,
	MaxWorkspaceBytes: 4 * gib,
	MaxBatch:          512,
	CPUBatch:          64,

	SmallCardBytes:  4 * gib,
	MediumCardBytes: 8 * gib,
	LargeCardBytes:  24 * gib,
	SmallCardBatch:  64,
	MediumCardBatch: 128,
	LargeCardBatch:  256,
	HugeCardBatch:   512,

	DriverBytes:     500 * mib,
	ContextBytes:    100 * mib,
	BudgetShare:     0.10,
	ReserveCapBytes: 2 * gib,

	SmallFromBytes:     1 * kib,
	SmallUpToBytes:     1 * mib,
	MediumUpToBytes:    100 * mib,
	SmallBlocks:        64,
	MediumBlocks:       16,
	LargeBlocks:        4,
	SmallSegmentBytes:  8 * mib,
	MediumSegmentBytes: 32 * mib,
	LargeWaste:         0.05,
	IdleShare:          0.045,
	AlignmentBytes:     256,

	FragmentationWarning: 0.30,
	TrimLevel:            0.80,
	ShrinkLevel:          0.90,
	RefuseLevel:          0.95,
	Hysteresis:           0.05,
	GrowthHold:           5 * time.Second,
	GrowthFactor:         2,
	QueryDeadline:        2 * time.Second,
}

// Validate names the first constant that cannot be meant: a share outside of 0 to 1, a number that is not positive, or
// limits out of order.
func (c Constants) Validate() error {
	v := reflect.ValueOf(c)
	for i := range v.NumField() {
		name, field := v.Type().Field(i).Tag.Get("json"), v.Field(i)
		switch {
		case field.CanFloat() && !(field.Float() >= 0 && field.Float() <= 1):
			return fmt.Errorf("memory: constant %s is %v: want a share from 0 to 1", name, field.Float())
		case field.CanInt() && field.Int() <= 0, field.CanUint() && field.Uint() == 0:
			return fmt.Errorf("memory: constant %s is %v: want more than 0", name, field.Interface())
		}
	}
	if !powerOfTwo(c.AlignmentBytes) || c.AlignmentBytes > page {
		return fmt.Errorf("memory: constant alignment_bytes is %d: want a power of two, at most %d", c.AlignmentBytes, page)
	}
	for _, order := range []struct {
		names     string
		low, high uint64
	}{
		{"min_workspace_bytes, max_workspace_bytes", c.MinWorkspaceBytes, c.MaxWorkspaceBytes},
		{"small_card_bytes, medium_card_bytes", c.SmallCardBytes, c.MediumCardBytes},
		{"small_from_bytes, small_up_to_bytes", c.SmallFromBytes, c.SmallUpToBytes},
		{"small_up_to_bytes, medium_up_to_bytes", c.SmallUpToBytes, c.MediumUpToBytes},
		{"small_up_to_bytes, small_segment_bytes", c.SmallUpToBytes, c.SmallSegmentBytes},
		{"medium_card_bytes, large_card_bytes", c.MediumCardBytes, c.LargeCardBytes},
		{"small_card_batch, medium_card_batch", uint64(c.SmallCardBatch), uint64(c.MediumCardBatch)},
		{"medium_card_batch, large_card_batch", uint64(c.MediumCardBatch), uint64(c.LargeCardBatch)},
		{"large_card_batch, huge_card_batch", uint64(c.LargeCardBatch), uint64(c.HugeCardBatch)},
		{"huge_card_batch, max_batch", uint64(c.HugeCardBatch), uint64(c.MaxBatch)}, // R1.20: it must not undercut the classes
	} {
		if order.low > order.high {
			return fmt.Errorf("memory: constants %s are %d, %d: want them in ascending order", order.names, order.low, order.high)
		}
	}
	return nil
}
