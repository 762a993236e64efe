package engine

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sizes is in the form of bitnet.cpp's gemm-config.h, with sizes of its own.
const sizes = `#define ACT_PARALLEL
#if defined(__AVX__) || defined(__SSSE3__)
#if defined(ACT_PARALLEL)
    #define ROWS 1
#else
    #define ROWS 2
#endif // ACT_PARALLEL
#elif defined(__ARM_NEON)
#if defined(__ARM_FEATURE_DOTPROD)
#if defined(ACT_PARALLEL)
    #define ROWS 3
#else
    #define ROWS 4
#endif
#else
    #define ROWS 5
#endif
#endif
`

func TestWhatAHeaderDefines(t *testing.T) {
	for name, c := range map[string]struct {
		arch string
		act  bool
		rows string
	}{
		"x86":                         {"amd64", true, "1"},
		"x86 without ACT_PARALLEL":    {"amd64", false, "2"},
		"ARM":                         {"arm64", true, "3"},
		"ARM without ACT_PARALLEL":    {"arm64", false, "4"},
		"a CPU that it knows none of": {"riscv64", true, ""},
	} {
		text := sizes
		if !c.act {
			text = strings.Replace(text, "#define ACT_PARALLEL", "", 1)
		}
		if got := defines(text, c.arch)["ROWS"]; got != c.rows {
			t.Errorf("%s: %q rows, want %q", name, got, c.rows)
		}
	}
}

func TestConditionsOfAHeader(t *testing.T) {
	text := `
#ifndef GUARD
#define GUARD
#ifdef GUARD
  # define A 1 // the first
#elif defined(GUARD)
#define A 2
#else
#define A 3
#endif
#ifndef GUARD
#if defined(A)
#define B 1
#endif
#define B 2
#else
#define B 3
#endif
#endif
#endif
#define C 7
`
	if d := cmp.Diff(macros{"GUARD": "", "A": "1", "B": "3", "C": "7"}, defines(text, "")); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
