package probe

import (
	"encoding/json"
	"fmt"
	"math/bits"
	"strings"
)

// Feature is a set of instruction-set extensions that the CPU has and the operating system has enabled.
// A kernel states the set it needs; Host.CPU.Features is the set that is there.
type Feature uint64

// The extensions that ternary kernels can need. AVX512 stands for F, BW, DQ and VL with the ZMM state enabled
// in XCR0: no kernel here wants one of them without the others.
const (
	SSE42 Feature = 1 << iota
	AVX
	AVX2
	AVXVNNI
	AVX512
	AVX512VNNI
	AVX512VBMI
	NEON
	DotProd
	I8MM
)

var featureNames = [...]string{"sse42", "avx", "avx2", "avxvnni", "avx512", "avx512vnni", "avx512vbmi", "neon", "dotprod", "i8mm"}

// Has reports whether every extension of need is in f.
func (f Feature) Has(need Feature) bool { return f&need == need }

// Names lists the extensions of f in the order of their declaration.
func (f Feature) Names() []string {
	names := make([]string, 0, bits.OnesCount64(uint64(f)))
	for i, name := range featureNames {
		if f&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// String joins the names with commas; the empty set is "none".
func (f Feature) String() string {
	if f == 0 {
		return "none"
	}
	return strings.Join(f.Names(), ",")
}

// ParseFeature returns the extension called name, as Names spells it.
func ParseFeature(name string) (Feature, error) {
	for i, known := range featureNames {
		if name == known {
			return 1 << i, nil
		}
	}
	return 0, fmt.Errorf("probe: unknown feature %q: one of %s", name, strings.Join(featureNames[:], ", "))
}

// MarshalJSON writes the list of names.
func (f Feature) MarshalJSON() ([]byte, error) { return json.Marshal(f.Names()) }

// UnmarshalJSON reads the list of names.
func (f *Feature) UnmarshalJSON(data []byte) error {
	var names []string
	if err := json.Unmarshal(data, &names); err != nil {
		return fmt.Errorf("probe: read features: %w", err)
	}
	*f = 0
	for _, name := range names {
		one, err := ParseFeature(name)
		if err != nil {
			return err
		}
		*f |= one
	}
	return nil
}

// implies lists, for each extension, those that make no sense without it: masking avx2 masks avx512 as well.
var implies = map[Feature]Feature{
	AVX:    AVX2 | AVXVNNI | AVX512 | AVX512VNNI | AVX512VBMI,
	AVX2:   AVXVNNI | AVX512 | AVX512VNNI | AVX512VBMI,
	AVX512: AVX512VNNI | AVX512VBMI,
	NEON:   DotProd | I8MM,
}

// Without returns f less the extensions of off and all that build on them.
func (f Feature) Without(off Feature) Feature {
	for base, above := range implies {
		if off&base != 0 {
			off |= above
		}
	}
	return f &^ off
}
