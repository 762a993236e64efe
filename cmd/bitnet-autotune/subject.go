package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/device"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/placement"
)

// subject is what is known of a model: a preset, a GGUF file, or a name that is neither, such as openai/whisper-small.
func subject(name string) (placement.Subject, error) {
	if m, ok := model.Preset(name); ok {
		return placement.Subject{Name: m.Name, Architecture: m.Architecture, Model: m}, nil
	}
	f, err := model.Open(name)
	if errors.Is(err, fs.ErrNotExist) && !filepath.IsAbs(name) && !strings.HasPrefix(name, ".") && !strings.HasSuffix(strings.ToLower(name), ".gguf") {
		return placement.Subject{Name: name}, nil
	}
	if err != nil {
		return placement.Subject{}, err
	}
	defer f.Close()
	return placement.SubjectOf(f)
}

// useFlags are the flags that say how a model is going to be used.
type useFlags struct {
	context, batch int
	layout         string
}

func (u *useFlags) flags(cmd *cobra.Command) {
	cmd.Flags().IntVar(&u.context, "context", 0, "tokens of a sequence that are kept (default: by family)")
	cmd.Flags().IntVar(&u.batch, "batch", 0, "sequences at once that there must be room for (default 1)")
	cmd.Flags().StringVar(&u.layout, "layout", "", "how the ternary weights lie in memory (default "+device.DefaultLayout+")")
	completeFlag(cmd, "layout", words(layoutNames()...))
}

func (u *useFlags) check() error {
	switch {
	case u.context < 0:
		return usage(fmt.Errorf("--context %d: want a positive number of tokens", u.context))
	case u.batch < 0:
		return usage(fmt.Errorf("--batch %d: want a positive number of sequences", u.batch))
	case u.layout != "" && !slices.Contains(layoutNames(), u.layout):
		return usage(fmt.Errorf("--layout %q: one of %s", u.layout, alternatives(layoutNames())))
	}
	return nil
}

// of is the use of one model on a machine, with what its weights take as the kernels keep them, and the rate at which this
// host was measured to run them.
func (u *useFlags) of(m model.Model, on *machine) device.Use {
	layout := u.layout
	if layout == "" {
		layout = device.DefaultLayout
	}
	rate := on.rates[rated{m.Fingerprint(), layout}]
	return device.Use{Context: u.context, Batch: u.batch, Layout: layout, WeightBytes: layoutBytes(m)[layout], TokensPerSecond: rate, RateMeasured: rate > 0}
}

// layoutBytes is what all ternary matmuls of a model take in each layout of the kernels.
func layoutBytes(m model.Model) map[string]uint64 {
	sizes := make(map[string]uint64)
	for _, layout := range kernels.Layouts() {
		format, _ := kernels.FormatOf(layout)
		for _, s := range m.Shapes {
			sizes[string(layout)] += uint64(s.Count) * uint64(format.Bytes(s.N, s.K))
		}
	}
	return sizes
}
