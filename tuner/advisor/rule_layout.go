package advisor

import (
	"fmt"
	"slices"

	"github.com/bitnet-autotune/bitnet-autotune/probe"
)

// layoutRule: weights that stream from memory want the densest layout, weights that stay in a cache the one that takes the
// fewest instructions. What a tune found counts more than either.
var layoutRule = row{id: "layout/residency", category: Compute, difficulty: Easy, check: func(c *Context) (*Suggestion, error) {
	layout, err := c.Current.text("layout")
	if err != nil {
		return nil, err
	}
	if c.Learned != nil && c.Learned.proven() && c.Learned.Layout != "" {
		if c.Learned.Layout == layout {
			return nil, nil
		}
		return c.layoutAdvice(layout, c.Learned.Layout, "A tune on this host chose it.").withoutFigure("no figure of the whole: the certificate of the tune has one for each regime"), nil
	}
	bytes, cached, err := c.residency()
	if err != nil {
		return nil, err
	}
	dense := []string{"t5", "t5f", "tl2"}
	where := fmt.Sprintf("%.3g MB of weights and %.3g MB of last-level cache: they are read from", float64(bytes)/1e6, float64(c.Host.CPU.L3.Bytes*int64(max(1, c.Host.CPU.L3.Instances)))/1e6)
	switch {
	case cached && slices.Contains(dense, layout):
		return c.layoutAdvice(layout, "i2s", where+" the cache, where unpacking is the limit.").withoutFigure("no figure: layouts were compared from memory, not from a cache"), nil
	case !cached && layout == "i2s" && c.Host.CPU.Features.Has(probe.AVX512VBMI):
		return c.layoutAdvice(layout, "t5", where+" memory, where bytes are the limit; t5 takes 1.6 bit a weight instead of 2."), nil
	case !cached && layout == "i2s" && c.Host.CPU.Features.Has(probe.AVX512VNNI):
		return c.layoutAdvice(layout, "t5f", where+" memory, where bytes are the limit; t5f takes 1.6 bit a weight instead of 2."), nil
	}
	return nil, nil
}}

// layoutAdvice suggests another layout.
func (c *Context) layoutAdvice(from, to, why string) *Suggestion {
	k := c.constants()
	return &Suggestion{
		Title:       fmt.Sprintf("Keep the weights in layout %s instead of %s", to, from),
		Description: why,
		Expected:    Improvement{Speed: between(k.LayoutLow, k.LayoutHigh), Of: "decode", Source: "measured on two other hosts, one token from memory; not measured here"},
		Steps:       []string{"Repack the weights when the model is loaded", "Run tune, which compares layouts in every regime before it chooses"},
		Change:      Settings{"layout": to},
		Warnings:    []string{"repacking takes seconds, and a prompt may be slower in the denser layout"},
	}
}

// withoutFigure takes the figure away, which was measured of another change.
func (s *Suggestion) withoutFigure(why string) *Suggestion {
	s.Expected = Improvement{Source: why}
	return s
}

// residency tells what the ternary weights take and whether they stay in the last-level cache.
func (c *Context) residency() (bytes uint64, cached bool, err error) {
	if c.Model == nil || c.Model.Tunable() != nil {
		return 0, false, &Missing{Part: "a ternary model"}
	}
	l3 := c.Host.CPU.L3
	if l3.Bytes <= 0 {
		return 0, false, &Missing{Part: "last-level cache of the host"}
	}
	bytes = c.Model.TernaryWeights() / 4
	return bytes, float64(bytes) <= c.constants().LayoutCacheShare*float64(l3.Bytes)*float64(max(1, l3.Instances)), nil
}
