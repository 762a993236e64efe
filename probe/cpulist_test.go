package probe

import (
	"slices"
	"strings"
	"testing"
)

func TestParseList(t *testing.T) {
	for in, want := range map[string][]int{
		"":            nil,
		"\n":          nil,
		"0":           {0},
		"0-3\n":       {0, 1, 2, 3},
		"0-1,8,10-11": {0, 1, 8, 10, 11},
		"5,1,1-2":     {1, 2, 5},
		"3-3":         {3},
		" 0-1 , 4 ":   {0, 1, 4},
		"8191":        {8191},
	} {
		if got, err := parseList(in); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v; want %v", in, got, err, want)
		}
	}
}

func TestParseListRefuses(t *testing.T) {
	for _, in := range []string{"0-4294967295", "8192", "-1", "3-1", "0-", "-", ",", "0,", "a", "0x1", "+1", "1 2", "0-1-2", "99999999999999999999", "0\x00", strings.Repeat("0-8191,", 5000) + "0"} {
		if got, err := parseList(in); err == nil {
			t.Errorf("%.99q: %v, want an error", in, got)
		}
	}
}

// Whatever the text, the list is ascending and bounded, and its own text means the same.
func FuzzParseList(f *testing.F) {
	for _, seed := range []string{"", "0", "0-3,8", "0-4294967295", "3-1", "1,,2", strings.Repeat("0-8191,", 100) + "0"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		cpus, err := parseList(in)
		if err != nil {
			if cpus != nil || strings.ContainsAny(err.Error(), "\n\x00") {
				t.Fatalf("%q: %v with error %q", in, cpus, err)
			}
			return
		}
		if len(cpus) > maxCPU+1 || !slices.IsSorted(cpus) {
			t.Fatalf("%q: %v", in, cpus)
		}
		again, err := parseList(formatList(cpus))
		if err != nil || !slices.Equal(again, cpus) {
			t.Fatalf("%q: %v became %q, then %v, %v", in, cpus, formatList(cpus), again, err)
		}
	})
}
