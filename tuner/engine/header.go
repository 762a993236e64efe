package engine

import (
	"regexp"
	"slices"
	"strings"
)

var (
	directive   = regexp.MustCompile(`^\s*#\s*(\w+)\s*(\w*)\s*(\S*)`)
	inCondition = regexp.MustCompile(`\bdefined\s*\(\s*(\w+)\s*\)`)
)

// targetMacros are what compilers define for the CPUs that bitnet.cpp is tuned for, of what its gemm-config.h asks.
var targetMacros = map[string][]string{
	"amd64": {"__AVX__", "__AVX2__"},
	"arm64": {"__ARM_NEON", "__ARM_FEATURE_DOTPROD"},
}

// macros are the definitions that a preprocessor has.
type macros map[string]string

func (m macros) has(name string) bool { _, ok := m[name]; return ok }

// any reports whether one of the macros that a condition asks for is defined: the conditions of gemm-config.h are of that form.
func (m macros) any(condition string) bool {
	return slices.ContainsFunc(inCondition.FindAllStringSubmatch(condition, -1), func(d []string) bool { return m.has(d[1]) })
}

// conditional is the part of a header between #if and #endif.
type conditional struct{ outer, taken, live bool }

// enter goes on with the next branch.
func (c *conditional) enter(holds bool) {
	holds = holds && !c.taken
	c.live, c.taken = c.outer && holds, c.taken || holds
}

// read takes over what a header defines.
func (m macros) read(text string) {
	stack := []*conditional{{live: true}}
	for line := range strings.Lines(text) {
		d := directive.FindStringSubmatch(line)
		if d == nil {
			continue
		}
		here := stack[len(stack)-1]
		switch d[1] {
		case "if", "ifdef", "ifndef":
			here = &conditional{outer: here.live}
			stack = append(stack, here)
			here.enter(d[1] == "if" && m.any(line) || d[1] != "if" && m.has(d[2]) == (d[1] == "ifdef"))
		case "elif":
			here.enter(m.any(line))
		case "else":
			here.enter(true)
		case "endif":
			stack = stack[:max(1, len(stack)-1)]
		case "define":
			if here.live {
				m[d[2]] = d[3]
			}
		}
	}
}

// defines are the macros that hold after a header on a CPU.
func defines(text, arch string) macros {
	m := macros{}
	for _, name := range targetMacros[arch] {
		m[name] = ""
	}
	m.read(text)
	return m
}
