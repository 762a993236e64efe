package kernels

import (
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
)

//go:embed ptx/*.ptx.gz
var embedded embed.FS

// Entry is a kernel in one of the PTX files: a Kernel or a Quantizer.
type Entry interface {
	Symbol() string
	unit() string        // the source file, without its extension
	needs() Capability   // of the card
	declaration() string // in CUDA C++, what instantiates it
}

// targets are the capabilities that PTX is made for, from the least.
var targets = []Capability{DP4A, TensorCore}

// String is the name of the target: "sm_80".
func (c Capability) String() string { return fmt.Sprintf("sm_%d", int(c)) }

// entries returns all of a source file that a card of the target can run, ordered by symbol.
func entries(unit string, target Capability) []Entry {
	var all []Entry
	for _, k := range All() {
		all = append(all, k)
	}
	for _, q := range Quantizers() {
		all = append(all, q)
	}
	all = slices.DeleteFunc(all, func(e Entry) bool { return e.unit() != unit || e.needs() > target })
	slices.SortFunc(all, func(a, b Entry) int { return strings.Compare(a.Symbol(), b.Symbol()) })
	return all
}

// Text returns the PTX of one kernel for a card: what all kernels of its file have in common, and the kernel.
func Text(e Entry, have Capability) ([]byte, error) {
	target, ok := targetFor(have)
	if !ok || e.needs() > target {
		return nil, fmt.Errorf("kernels: %s needs a card of at least %s, this one is %s", e.Symbol(), e.needs(), have)
	}
	all, err := moduleText(e.unit(), target)
	if err != nil {
		return nil, err
	}
	return only(all, e.Symbol())
}

// targetFor is the best target that a card can run.
func targetFor(have Capability) (best Capability, ok bool) {
	for _, t := range targets {
		if t <= have {
			best, ok = t, true
		}
	}
	return best, ok
}

func moduleFile(unit string, target Capability) string {
	return fmt.Sprintf("ptx/%s.%s.ptx.gz", unit, target)
}

// texts are the PTX files that were unpacked, by name: a search asks for many kernels of one.
var texts struct {
	sync.Mutex
	byName map[string][]byte
}

func moduleText(unit string, target Capability) ([]byte, error) {
	name := moduleFile(unit, target)
	texts.Lock()
	defer texts.Unlock()
	if text, ok := texts.byName[name]; ok {
		return text, nil
	}
	text, err := unpacked(name)
	if err != nil {
		return nil, err
	}
	if texts.byName == nil {
		texts.byName = map[string][]byte{}
	}
	texts.byName[name] = text
	return text, nil
}

func unpacked(name string) ([]byte, error) {
	file, err := embedded.Open(name)
	if err != nil {
		return nil, fmt.Errorf("kernels: %w", err)
	}
	defer file.Close()
	unzip, err := gzip.NewReader(file)
	if err != nil {
		return nil, fmt.Errorf("kernels: %s: %w", name, err)
	}
	text, err := io.ReadAll(unzip)
	if err != nil {
		return nil, fmt.Errorf("kernels: %s: %w", name, err)
	}
	return text, nil
}

// only cuts all kernels but one out of a PTX text, as clang lays it out: a kernel begins in a line of its own and ends
// with a brace in the first column.
func only(text []byte, symbol string) ([]byte, error) {
	const begin, end = "\n.visible .entry ", "\n}\n"
	head, rest, found := bytes.Cut(text, []byte(begin))
	for found {
		var body []byte
		body, rest, found = bytes.Cut(rest, []byte(end))
		if found && bytes.HasPrefix(body, []byte(symbol+"(")) {
			return slices.Concat(head, []byte(begin), body, []byte(end)), nil
		}
		_, rest, found = bytes.Cut(rest, []byte(begin))
	}
	return nil, fmt.Errorf("kernels: the PTX has no kernel %s: make ptx", symbol)
}
