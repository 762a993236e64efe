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
	MaxBatch          int     `json:"max_batch" source:"R1.20, our choice" unit:"samples" doc:"the largest batch: the limit of the largest class, which it must not undercut"`
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
	for _, order := range []struct {
		names string
		low   uint64
		high  uint64
	}{
		{"min_workspace_bytes, max_workspace_bytes", c.MinWorkspaceBytes, c.MaxWorkspaceBytes},
		{"small_card_bytes, medium_card_bytes", c.SmallCardBytes, c.MediumCardBytes},
		{"medium_card_bytes, large_card_bytes", c.MediumCardBytes, c.LargeCardBytes},
	} {
		if order.low > order.high {
			return fmt.Errorf("memory: constants %s are %d, %d: want them in ascending order", order.names, order.low, order.high)
		}
	}
	return nil
}
