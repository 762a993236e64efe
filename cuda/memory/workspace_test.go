package memory

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bitnet-autotune/bitnet-autotune/probe/gpu"
)

// idle is a device of which nothing is taken.
func idle(total uint64) gpu.Memory { return gpu.Memory{TotalBytes: total, FreeBytes: total} }

func TestReserves(t *testing.T) {
	c := Defaults
	t.Run("R1.2 a tenth of the total is kept free, never below 0", func(t *testing.T) {
		for _, test := range []struct{ total, free, want uint64 }{
			{10 * gib, 10 * gib, 9 * gib},
			{10 * gib, 5 * gib, 4 * gib},
			{10 * gib, gib, 0},
			{10 * gib, 0, 0},
			{1 << 63, 1 << 63, 1<<63 - 1<<63/10},
		} {
			if got := c.Available(gpu.Memory{TotalBytes: test.total, FreeBytes: test.free}); got != test.want {
				t.Errorf("available of %d free of %d: %d, want %d", test.free, test.total, got, test.want)
			}
		}
	})
	t.Run("R4.4 500 MiB, 100 MiB and a tenth, at most 2 GiB; usable never below 0", func(t *testing.T) {
		for _, test := range []struct{ total, reserved, usable uint64 }{
			{2 * gib, 600*mib + 2*gib/10, 2*gib - 600*mib - 2*gib/10},
			{8 * gib, 600*mib + 8*gib/10, 8*gib - 600*mib - 8*gib/10},
			{14480 * mib, 2 * gib, 14480*mib - 2*gib}, // 14.14 GiB: the cap binds from here on
			{14470 * mib, 2047 * mib, 12423 * mib},
			{80 * gib, 2 * gib, 78 * gib},
			{500 * mib, 650 * mib, 0},
			{0, 600 * mib, 0},
		} {
			if got := c.Reserved(test.total); got != test.reserved {
				t.Errorf("reserved of %d: %d, want %d", test.total, got, test.reserved)
			}
			if got := c.Usable(test.total); got != test.usable {
				t.Errorf("usable of %d: %d, want %d", test.total, got, test.usable)
			}
		}
	})
}

func TestWorkspace(t *testing.T) {
	ffn := Demand{InputFeatures: 6912, OutputFeatures: 2560}
	t.Run("R1.10 R1.11 R1.12 sizes by quantization type", func(t *testing.T) {
		for _, test := range []struct {
			quantization Quantization
			fixed        uint64
		}{{I2S, 6912 * 2560 * 2}, {TL1, 6912 * 2560 * 2}, {TL2, 6912 * 2560 * 4}} {
			d := ffn
			d.Quantization = test.quantization
			got, err := Defaults.Workspace(d, 3, idle(24*gib))
			if err != nil {
				t.Fatal(err)
			}
			want := Workspace{
				Device: 3, Bytes: test.fixed + 512*2560*4, Batch: 512, FixedBytes: test.fixed, SampleBytes: 2560 * 4,
				WantedBytes: test.fixed + 512*2560*4, AvailableBytes: 24*gib - 24*gib/10, Limit: "class", Basis: "estimate",
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", test.quantization, diff)
			}
		}
	})
	t.Run("R1.12 overflow and what makes no sense are errors", func(t *testing.T) {
		for name, d := range map[string]Demand{
			"features overflow":   {InputFeatures: 1 << 33, OutputFeatures: 1 << 33, Quantization: I2S},
			"bytes overflow":      {InputFeatures: 1 << 32, OutputFeatures: 1 << 31, Quantization: TL2},
			"sample overflows":    {InputFeatures: 1, OutputFeatures: 1 << 62, Quantization: I2S},
			"no input":            {OutputFeatures: 1, Quantization: I2S},
			"no output":           {InputFeatures: 1, Quantization: I2S},
			"unknown type":        {InputFeatures: 1, OutputFeatures: 1, Quantization: "q4_0"},
			"no type":             {InputFeatures: 1, OutputFeatures: 1},
			"stated need too big": {Stated: &Need{FixedBytes: math.MaxUint64, SampleBytes: math.MaxUint64}},
		} {
			if w, err := Defaults.Workspace(d, 0, idle(80*gib)); err == nil {
				t.Errorf("%s: %+v and no error", name, w)
			}
		}
	})
	t.Run("R1.13 a stated need replaces the table, also a need of nothing", func(t *testing.T) {
		d := Demand{InputFeatures: 6912, OutputFeatures: 2560, Quantization: TL2, Stated: &Need{FixedBytes: 4096, SampleBytes: 100}}
		got, err := Defaults.Workspace(d, 0, idle(24*gib))
		if err != nil || got.Bytes != 4096+512*100 || got.Batch != 512 {
			t.Errorf("stated 4096 + 100 each: %+v, %v", got, err)
		}
		d.Stated = &Need{}
		if got, err = Defaults.Workspace(d, 0, idle(24*gib)); err != nil || got.Bytes != 0 || got.Batch != 512 {
			t.Errorf("stated nothing: %+v, %v", got, err)
		}
	})
	t.Run("R1.14 R1.16 the batch fills what is left of 80 % of what is available", func(t *testing.T) {
		// 1000 MiB free of 1000 MiB: 900 are available, 720 usable, 540 the cap of a workspace.
		d := Demand{Stated: &Need{FixedBytes: 320 * mib, SampleBytes: 10 * mib}}
		c := Defaults
		c.WorkspaceShare = 1
		got, err := c.Workspace(d, 0, idle(1000*mib))
		if err != nil || got.Batch != 40 || got.Bytes != 720*mib || got.Limit != "memory" {
			t.Errorf("%+v, %v; want batch 40 in 720 MiB, limited by memory", got, err)
		}
		d.MaxBatch = 7
		if got, err = c.Workspace(d, 0, idle(1000*mib)); err != nil || got.Batch != 7 || got.Limit != "request" {
			t.Errorf("asked for at most 7: %+v, %v", got, err)
		}
	})
	t.Run("R1.17 R1.51 class borders", func(t *testing.T) {
		d := Demand{InputFeatures: 64, OutputFeatures: 64, Quantization: I2S}
		for _, test := range []struct {
			total uint64
			batch int
		}{
			{2 * gib, 64}, {4*gib - 1, 64}, {4 * gib, 128}, {8*gib - 1, 128}, {8 * gib, 256}, {16 * gib, 256},
			{24*gib - 1, 256}, {24 * gib, 512}, {48 * gib, 512}, {80 * gib, 512}, {141 * gib, 512},
		} {
			got, err := Defaults.Workspace(d, 0, idle(test.total))
			if err != nil || got.Batch != test.batch {
				t.Errorf("%d bytes: %+v, %v; want batch %d", test.total, got, err, test.batch)
			}
		}
	})
	t.Run("R1.18 without CUDA the batch is 64 and no GPU is asked", func(t *testing.T) {
		if got := Defaults.WithoutCUDA(ffn); got.Batch != 64 || got.Bytes != 0 || got.Limit != "no cuda" {
			t.Errorf("%+v", got)
		}
		if got := Defaults.WithoutCUDA(Demand{MaxBatch: 8}); got.Batch != 8 {
			t.Errorf("asked for at most 8: %+v", got)
		}
	})
	t.Run("R1.19 R1.21 the cap cuts the batch with the workspace", func(t *testing.T) {
		// 540 MiB is the cap: 220 remain for the batch.
		d := Demand{Stated: &Need{FixedBytes: 320 * mib, SampleBytes: 10 * mib}}
		got, err := Defaults.Workspace(d, 0, idle(1000*mib))
		if err != nil || got.Batch != 22 || got.Bytes != 540*mib || got.WantedBytes != 720*mib || got.Limit != "cap" {
			t.Errorf("%+v, %v; want batch 22 in 540 MiB", got, err)
		}
		c := Defaults
		c.MaxWorkspaceBytes = 400 * mib
		if got, err = c.Workspace(d, 0, idle(1000*mib)); err != nil || got.Batch != 8 || got.Bytes != 400*mib {
			t.Errorf("at most 400 MiB: %+v, %v; want batch 8", got, err)
		}
	})
	t.Run("R1.20 the maximum batch does not undercut the classes", func(t *testing.T) {
		c := Defaults
		if c.MaxBatch < c.HugeCardBatch || c.MinWorkspaceBytes > c.MaxWorkspaceBytes {
			t.Errorf("%+v", c)
		}
		head := Demand{InputFeatures: 4096, OutputFeatures: 128256, Quantization: TL2}
		if w, err := c.Workspace(head, 0, idle(80*gib)); err != nil || w.Batch != 512 {
			t.Errorf("the head of an 8B model: %+v, %v; want it whole", w, err)
		}
	})
}

func TestWorkspaceErrors(t *testing.T) {
	t.Run("R1.15 R1.30 insufficient", func(t *testing.T) {
		d := Demand{InputFeatures: 16384, OutputFeatures: 16384, Quantization: I2S} // 512 MiB
		m := gpu.Memory{TotalBytes: 2 * gib, FreeBytes: 2*gib/10 + 512*mib}
		_, err := Defaults.Workspace(d, 5, m)
		want := &InsufficientError{Device: 5, RequiredBytes: 513 * mib, AvailableBytes: 512*mib + 0, UsableBytes: share(512*mib, 0.8)}
		var got *InsufficientError
		if !errors.As(err, &got) {
			t.Fatalf("%v: want an InsufficientError", err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if !strings.HasPrefix(err.Error(), "memory: device 5 has no room") {
			t.Errorf("%q", err)
		}
	})
	t.Run("R1.19 R1.31 cut below a batch of 1", func(t *testing.T) {
		d := Demand{Stated: &Need{FixedBytes: 600 * mib, SampleBytes: 10 * mib}} // usable 720 MiB, cap 540 MiB
		_, err := Defaults.Workspace(d, 2, idle(1000*mib))
		want := &WorkspaceError{Device: 2, RequestedBytes: 720 * mib, AvailableBytes: 900 * mib, MinimumBytes: 610 * mib}
		var got *WorkspaceError
		if !errors.As(err, &got) {
			t.Fatalf("%v: want a WorkspaceError", err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("R1.32 unknown total", func(t *testing.T) {
		_, err := Defaults.Workspace(Demand{InputFeatures: 1, OutputFeatures: 1, Quantization: I2S}, 1, gpu.Memory{})
		var got *QueryError
		if !errors.As(err, &got) || got.Device != 1 {
			t.Errorf("%v: want a QueryError of device 1", err)
		}
	})
}

// R1.51 R1.53: whatever the card, its load, the type and the shape, a workspace lies between minimum and available, and
// its batch fits; otherwise the error is typed.
func TestWorkspaceIsConsistentOnEveryCard(t *testing.T) {
	sizes, failures := 0, 0
	for _, total := range []uint64{2, 4, 6, 8, 12, 16, 24, 40, 48, 80, 141} {
		for _, free := range []uint64{100, 60, 25, 12, 10, 0} {
			for _, shape := range [][2]uint64{{64, 64}, {2560, 6912}, {14336, 4096}, {4096, 128256}, {1 << 17, 1 << 17}} {
				for _, quantization := range []Quantization{I2S, TL1, TL2} {
					m := gpu.Memory{TotalBytes: total * gib, FreeBytes: total * gib * free / 100}
					d := Demand{InputFeatures: shape[0], OutputFeatures: shape[1], Quantization: quantization}
					w, err := Defaults.Workspace(d, 0, m)
					sizes++
					if err != nil {
						failures++
						var insufficient *InsufficientError
						var workspace *WorkspaceError
						if !errors.As(err, &insufficient) && !errors.As(err, &workspace) {
							t.Fatalf("%+v on %+v: %v", d, m, err)
						}
						continue
					}
					if err := consistent(w, Defaults.BatchLimit(m.TotalBytes)); err != nil {
						t.Errorf("%+v on %+v: %+v: %v", d, m, w, err)
					}
				}
			}
		}
	}
	if failures == 0 || failures > sizes*2/3 {
		t.Errorf("%d of %d failed: the grid tests too little", failures, sizes)
	}
}

func consistent(w Workspace, limit int) error {
	switch {
	case w.Bytes < Defaults.MinWorkspaceBytes || w.Bytes > Defaults.MaxWorkspaceBytes || w.Bytes > w.AvailableBytes:
		return fmt.Errorf("the workspace is out of bounds")
	case w.Batch < 1 || w.Batch > limit:
		return fmt.Errorf("the batch is not from 1 to %d", limit)
	case w.FixedBytes+uint64(w.Batch)*w.SampleBytes > w.Bytes:
		return fmt.Errorf("the batch does not fit")
	}
	return nil
}

func TestConstantsAreValidated(t *testing.T) {
	if err := Defaults.Validate(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Constants){
		"reserve_share is -0.1":                   func(c *Constants) { c.ReserveShare = -0.1 },
		"usable_share is NaN":                     func(c *Constants) { c.UsableShare = math.NaN() },
		"workspace_share is 1.5":                  func(c *Constants) { c.WorkspaceShare = 1.5 },
		"max_batch is 0":                          func(c *Constants) { c.MaxBatch = 0 },
		"min_workspace_bytes is 0":                func(c *Constants) { c.MinWorkspaceBytes = 0 },
		"huge_card_batch, max_batch are 512, 1":   func(c *Constants) { c.MaxBatch = 1 },
		"small_card_batch, medium_card_batch are": func(c *Constants) { c.SmallCardBatch = 1000 },
		"small_card_bytes, medium_card_bytes are": func(c *Constants) { c.MediumCardBytes = 1 },
	} {
		c := Defaults
		change(&c)
		if _, err := c.Workspace(Demand{InputFeatures: 1, OutputFeatures: 1, Quantization: I2S}, 0, idle(gib)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want it to say %q", err, want)
		}
	}
}
