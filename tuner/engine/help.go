package engine

import (
	"regexp"
	"strings"
)

// Flag is an option that a binary says it has.
type Flag struct {
	Names   []string // as written: "-t", "--threads"
	Values  string   // what it takes as the help says it: "n", "0|1", "on|off|auto"; "" nothing, or the help does not say
	Default string   // as the help says it; "" unknown
}

// Name is the long name without dashes.
func (f Flag) Name() string { return strings.TrimLeft(f.Names[len(f.Names)-1], "-") }

// Choices are the values where the help lists them.
func (f Flag) Choices() []string {
	if !strings.Contains(f.Values, "|") {
		return nil
	}
	return strings.Split(f.Values, "|")
}

// Help is what a binary's --help tells of its options, by long name.
type Help map[string]Flag

var (
	helpLine    = regexp.MustCompile(`^ +(-{1,2}[A-Za-z][\w-]*(?:(?:, | )-{1,2}[A-Za-z][\w-]*)*) *(?:<([^>]*)>)?`)
	helpDefault = regexp.MustCompile(`\(default: ([^)]*)\)`)
)

// ParseHelp finds the options in a help text of the llama.cpp family: one to a line, names first, what it takes in angle
// brackets, the default at the end or on the next line. What does not look like that is passed over.
func ParseHelp(text string) Help {
	h := Help{}
	last := ""
	for line := range strings.Lines(text) {
		m := helpLine.FindStringSubmatch(line)
		if m != nil {
			f := Flag{Names: strings.FieldsFunc(m[1], func(r rune) bool { return r == ',' || r == ' ' }), Values: m[2]}
			last = f.Name()
			if _, twice := h[last]; !twice {
				h[last] = f
			}
		}
		if d := helpDefault.FindStringSubmatch(line); d != nil && last != "" && h[last].Default == "" {
			f := h[last]
			f.Default = d[1]
			h[last] = f
		}
	}
	return h
}

// Has reports whether there is an option of a long name.
func (h Help) Has(name string) bool {
	_, ok := h[name]
	return ok
}
