package kernels

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	cpu "github.com/bitnet-autotune/bitnet-autotune/kernels"
)

// TestEveryKernelIsInItsPTXAndNoOther compares the table with the PTX of each target, both ways.
func TestEveryKernelIsInItsPTXAndNoOther(t *testing.T) {
	for _, unit := range units(t) {
		for _, target := range targets {
			text, err := moduleText(unit, target)
			if err != nil {
				t.Fatal(err)
			}
			var want, got []string
			for _, e := range entries(unit, target) {
				want = append(want, e.Symbol())
			}
			for line := range bytes.Lines(text) {
				if name, ok := strings.CutPrefix(string(line), ".visible .entry "); ok {
					got = append(got, strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(name), "(")))
				}
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s: kernels (-table +PTX): make ptx\n%s", moduleFile(unit, target), d)
			}
		}
	}
	for _, e := range append(all(All()), all(Quantizers())...) {
		if !slices.Contains(units(t), e.unit()) {
			t.Errorf("%s is of %s.cu, which is not in src", e.Symbol(), e.unit())
		}
	}
}

func all[T Entry](list []T) []Entry {
	var es []Entry
	for _, e := range list {
		es = append(es, e)
	}
	return es
}

// TestParametersAreThoseOfThePTX compares the structs that launches are packed from with what each kernel declares.
func TestParametersAreThoseOfThePTX(t *testing.T) {
	want := map[bool]string{true: parameters(reflect.TypeFor[MulParams]()), false: parameters(reflect.TypeFor[QuantizeParams]())}
	for _, module := range readManifest(t).Modules {
		for _, k := range module.Kernels {
			if want := want[strings.HasPrefix(k.Symbol, "mul_")]; k.Parameters != want {
				t.Errorf("%s: %s takes %s, its struct has %s", module.File, k.Symbol, k.Parameters, want)
			}
		}
	}
}

func parameters(s reflect.Type) (list string) {
	for i := range s.NumField() {
		list += map[uintptr]string{8: ".u64", 4: ".u32"}[s.Field(i).Type.Size()]
	}
	return list
}

// TestTextHasOneKernel looks at what the driver gets: the kernel, what it shares with others, and nothing else.
func TestTextHasOneKernel(t *testing.T) {
	for _, e := range append(all(All()), all(Quantizers())...) {
		text, err := Text(e, 90)
		if err != nil {
			t.Fatal(err)
		}
		s := string(text)
		if strings.Count(s, ".entry") != 1 || !strings.Contains(s, ".entry "+e.Symbol()+"(") {
			t.Errorf("%s: the text has other kernels, or not this one", e.Symbol())
		}
		if !strings.HasPrefix(s[strings.Index(s, ".version"):], ".version 7.8\n.target sm_80\n") {
			t.Errorf("%s: not for sm_80 by PTX 7.8: %.200s", e.Symbol(), s)
		}
		// An array that is indexed at run time goes to local memory: a template was not unrolled.
		if strings.Contains(s, ".local") {
			t.Errorf("%s uses local memory", e.Symbol())
		}
	}
	if _, err := Text(all(Usable(TensorCore))[0], 60); err == nil || !strings.Contains(err.Error(), "needs a card of at least sm_") {
		t.Errorf("a kernel for a card of sm_60: %v", err)
	}
}

func TestUsable(t *testing.T) {
	if got := Usable(60); len(got) != 0 {
		t.Errorf("a card of sm_60 has no dp4a, but can run %s", got[0].Name)
	}
	for _, k := range Usable(75) {
		if k.Needs != DP4A {
			t.Errorf("%s needs %s, more than sm_75", k.Name, k.Needs)
		}
	}
	if len(Usable(120)) != len(All()) {
		t.Error("a newer card cannot run every kernel")
	}
	for _, layout := range Layouts() {
		for _, m := range []int{1, 2, 3, 4, 8, 9, 16, 64, 512} {
			for _, have := range targets {
				if !slices.ContainsFunc(Usable(have), func(k Kernel) bool { return k.Layout == layout && k.Suits(m) }) {
					t.Errorf("no kernel of %s for %d tokens on %s", layout, m, have)
				}
			}
		}
	}
}

// TestNamesAreUnique covers symbols too: two names must not become one symbol.
func TestNamesAreUnique(t *testing.T) {
	names, symbols := map[string]bool{}, map[string]bool{}
	for _, k := range All() {
		if found, ok := ByName(k.Name); !ok || found != k {
			t.Errorf("ByName(%q) is another kernel, or none", k.Name)
		}
		if names[k.Name] || symbols[k.Symbol()] {
			t.Errorf("%s (%s) is there twice", k.Name, k.Symbol())
		}
		names[k.Name], symbols[k.Symbol()] = true, true
	}
}

// TestLaunchesFitEveryCard: without asking for more, a block has 1024 threads and 48 KiB of shared memory.
func TestLaunchesFitEveryCard(t *testing.T) {
	for _, k := range All() {
		if k.Threads() > 1024 || k.Threads() < 128 || k.SharedBytes() > 48<<10 {
			t.Errorf("%s: %d threads, %d bytes of shared memory", k.Name, k.Threads(), k.SharedBytes())
		}
		// Sums, and for one step codes and activations, in registers of 32 bits.
		if sums := k.sums(); sums > 128 {
			t.Errorf("%s: a thread has %d sums", k.Name, sums)
		}
	}
}

// sums is how many sums a thread has in registers.
func (k Kernel) sums() int {
	per := k.Geometry.RowTiles * k.Geometry.Tokens
	switch k.Method {
	case MMA, GEMM:
		return per / 2 // 4 for 8 tokens
	case NoShift:
		return 4 * per
	}
	return 2 * per
}

func TestShapeRejects(t *testing.T) {
	k := All()[0]
	for name, c := range map[string]struct {
		shape cpu.Shape
		split int
	}{
		"no tokens":        {cpu.Shape{M: 0, N: 1, K: 1}, 1},
		"no rows":          {cpu.Shape{M: 1, N: 0, K: 1}, 1},
		"no columns":       {cpu.Shape{M: 1, N: 1, K: 0}, 1},
		"too many columns": {cpu.Shape{M: 1, N: 1, K: cpu.MaxCols + 1}, 1},
		"too many tokens":  {cpu.Shape{M: maxGrid*k.Geometry.Tokens + 1, N: 1, K: 1}, 1},
		"no parts":         {cpu.Shape{M: 1, N: 1, K: 256}, 0},
		"too many parts":   {cpu.Shape{M: 1, N: 1, K: 256}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := k.Shape(c.shape, c.split); err == nil || !strings.HasPrefix(err.Error(), "kernels: "+k.Name) {
				t.Errorf("%v in %d parts: error %v, want one that names the kernel", c.shape, c.split, err)
			}
		})
	}
}

// TestWorkspace is R1.13: a kernel states what it needs, which is less than one byte for each weight of a layer.
func TestWorkspace(t *testing.T) {
	s := cpu.Shape{M: 4, N: 2560, K: 6912}
	for _, k := range All() {
		if got, want := k.Workspace(s), 4*(6912+128+8); got != want {
			t.Errorf("R1.13: %s: workspace of %v is %d bytes, want %d", k.Name, s, got, want)
		}
	}
}

func TestSignatureNamesEveryRevision(t *testing.T) {
	before := Signature()
	defer func(rows []Kernel) { table = rows }(table)
	table = slices.Clone(table)
	table[0].Rev++
	if Signature() == before {
		t.Error("a new revision left the signature as it was")
	}
}
