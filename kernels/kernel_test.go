package kernels_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/kernels/kerneltest"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
)

func reference(layout kernels.Layout) kernels.Kernel {
	k, ok := kernels.ByName("mul/" + string(layout) + "/generic")
	if !ok {
		panic("layout " + layout + " has no generic kernel")
	}
	return k
}

// host is what this machine can run; the kernels themselves never ask.
var host = sync.OnceValue(func() probe.Feature {
	h, err := probe.Local(context.Background())
	if err != nil {
		panic(err)
	}
	return h.CPU.Features
})

// otherNames are what BITNET_AUTOTUNE_REQUIRE may ask for besides extensions, in all packages: anything else is an error
// here, so that a misspelt name does not pass for one that was tested.
var otherNames = []string{"hugepages", "pinning", "enomem", "cpus", "cpuinfo", "cgroup", "gguf", "mount", "strace", "replay", "objdump", "llvm-mc", "clang", "cuda", "gcc"}

// required is the set of extensions, in BITNET_AUTOTUNE_REQUIRE, for which "not run" must not look like "passed".
func required(tb testing.TB) probe.Feature {
	var set probe.Feature
	for name := range strings.SplitSeq(os.Getenv("BITNET_AUTOTUNE_REQUIRE"), ",") {
		if name == "" || slices.Contains(otherNames, name) {
			continue
		}
		feature, err := probe.ParseFeature(name)
		if err != nil {
			tb.Fatalf("BITNET_AUTOTUNE_REQUIRE: %v", err)
		}
		set |= feature
	}
	return set
}

// needs skips a test aloud where this host lacks an extension of set, or fails it where BITNET_AUTOTUNE_REQUIRE asks for
// what is missing.
func needs(tb testing.TB, set probe.Feature) {
	tb.Helper()
	missing := set &^ host()
	switch {
	case missing&required(tb) != 0:
		tb.Fatalf("BITNET_AUTOTUNE_REQUIRE asks for %s, but this host lacks %s", missing&required(tb), missing)
	case missing != 0:
		tb.Skipf("NOT TESTED: %s: this host lacks %s", tb.Name(), missing)
	}
}

// forEach runs f as a subtest for each of the sets of extensions that this host has.
func forEach(t *testing.T, sets []probe.Feature, f func(t *testing.T, set probe.Feature)) {
	for _, set := range sets {
		t.Run(set.String(), func(t *testing.T) {
			needs(t, set)
			f(t, set)
		})
	}
}

func TestKernelsEqualTheirReference(t *testing.T) {
	for _, k := range kernels.All() {
		t.Run(strings.ReplaceAll(k.Name, "/", "_"), func(t *testing.T) {
			needs(t, k.Needs)
			kerneltest.Run(t, reference(k.Layout), k)
		})
	}
}

func TestKernelsOnThePresets(t *testing.T) {
	for _, k := range kernels.All() {
		t.Run(strings.ReplaceAll(k.Name, "/", "_"), func(t *testing.T) {
			needs(t, k.Needs)
			if ref := reference(k.Layout); k.Name != ref.Name {
				kerneltest.Columns(t, ref, k, presetColumns())
			}
		})
	}
}

// presetColumns are the K of all presets.
func presetColumns() []int {
	var columns []int
	for _, m := range model.Presets() {
		for _, s := range m.Shapes {
			columns = append(columns, s.K)
		}
	}
	slices.Sort(columns)
	return slices.Compact(columns)
}

func TestRequiredExtensionsHaveKernels(t *testing.T) {
	var used probe.Feature
	for _, k := range kernels.All() {
		used |= k.Needs
	}
	if missing := required(t) &^ used; missing != 0 {
		t.Errorf("BITNET_AUTOTUNE_REQUIRE asks for %s, but this build has no kernel for it", missing)
	}
}

func FuzzKernels(f *testing.F) {
	kerneltest.Fuzz(f, reference, kernels.Usable(host()))
}

// TestAVX2FilesAreAVX2 guards against a trap of the generator: given a register above 15, the assembler silently
// encodes VPADDW and others as AVX-512, which is an illegal instruction on the CPUs the kernel is for.
func TestAVX2FilesAreAVX2(t *testing.T) {
	wide := regexp.MustCompile(`\b([XY](1[6-9]|2\d|3[01])|Z\d+|K[0-7])\b`)
	needs := regexp.MustCompile(`^// Requires: (.*)`)
	files, err := filepath.Glob("*_amd64.s")
	if err != nil {
		t.Fatal(err)
	}
	routines := 0
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for routine := range strings.SplitSeq(string(text), "\n// func ") {
			title, _, _ := strings.Cut(routine, "(")
			if !strings.Contains(title, "AVX2") && !strings.Contains(title, "AVXVNNI") {
				continue
			}
			routines++
			for line := range strings.SplitSeq(routine, "\n") {
				if wide.MatchString(line) || needs.MatchString(line) && strings.Contains(line, "AVX512") {
					t.Errorf("%s: %s: AVX-512 in an AVX2 routine: %s", name, title, strings.TrimSpace(line))
				}
			}
		}
	}
	if routines == 0 {
		t.Error("no AVX2 routine found: has the naming changed?")
	}
}
