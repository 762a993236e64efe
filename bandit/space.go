package bandit

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// MaxRaw is the largest number of combinations, before the rules, that NewSpace enumerates.
const MaxRaw = 1 << 22

// Kind says whether the values of a knob have an order.
type Kind int

// The two kinds of knob.
const (
	Ordinal     Kind = iota // values in increasing order; neighbouring values are expected to cost alike
	Categorical             // values without an order
)

// Knob is one thing that can be set. Its name and the names of its values are what a log remembers, so they are
// never reused for something else.
type Knob struct {
	Name   string
	Kind   Kind
	Values []string // at least one, all different; of an Ordinal knob in increasing order
}

// Point is a choice of one value for every knob: Point[k] is the index of the value of the k-th knob.
type Point []int

// Rule cuts the combinations that it does not allow.
type Rule struct {
	// Reason says in a few words why the others are cut, as a person would want to read it.
	Reason string
	// Allows reports whether a combination is kept. It gets a function that returns the value of a named knob.
	Allows func(value func(knob string) string) bool
}

// Cut says how many combinations a rule took away. A combination that several rules forbid counts for the first.
type Cut struct {
	Reason string
	Points int
}

// Space is a finite set of points: every combination of the knobs' values that all rules allow. Points are numbered
// from 0 in lexical order of their value indices. A Space is immutable and safe for concurrent use.
type Space struct {
	knobs  []Knob
	stride []int   // of each knob in the code of a point, which is a number of mixed radix
	raw    int     // combinations before the rules
	codes  []int32 // of the valid points, ascending
	place  []int32 // of each code 1 + its place in codes, 0 = cut; nil where that would be large
	cuts   []Cut
}

// NewSpace enumerates the points of the knobs that all rules allow. It fails where a knob is malformed, where there
// are more than MaxRaw combinations, and where the rules leave nothing.
func NewSpace(knobs []Knob, rules ...Rule) (*Space, error) {
	s := &Space{knobs: slices.Clone(knobs), stride: make([]int, len(knobs)), raw: 1, cuts: make([]Cut, len(rules))}
	if err := s.measure(MaxRaw); err != nil {
		return nil, fmt.Errorf("bandit: new space: %w", err)
	}
	for r, rule := range rules {
		s.cuts[r].Reason = rule.Reason
	}
	s.enumerate(rules)
	if len(s.codes) == 0 {
		return nil, fmt.Errorf("bandit: new space: the rules leave none of %d combinations: %s", s.raw, reasons(s.cuts))
	}
	s.settle()
	return s, nil
}

// maxListed is the largest number of combinations of a listed space, whose codes are 32 bits wide.
const maxListed = 1<<31 - 1

// ListSpace makes the space of exactly these points, as a record of measurements has them: no combination is
// enumerated, so that there may be far more than MaxRaw of them. It fails where a knob is malformed, where a point is
// not a combination of the knobs or is listed twice, and where there is none.
func ListSpace(knobs []Knob, points []Point) (*Space, error) {
	s := &Space{knobs: slices.Clone(knobs), stride: make([]int, len(knobs)), raw: 1}
	if err := s.measure(maxListed); err != nil {
		return nil, fmt.Errorf("bandit: list space: %w", err)
	}
	for _, p := range points {
		code, ok := s.code(p)
		if !ok {
			return nil, fmt.Errorf("bandit: list space: point %v is no combination of the %d knobs", p, len(knobs))
		}
		s.codes = append(s.codes, int32(code))
	}
	slices.Sort(s.codes)
	if len(s.codes) == 0 || len(slices.Compact(slices.Clone(s.codes))) < len(s.codes) {
		return nil, fmt.Errorf("bandit: list space: %d points; want at least one, all different", len(points))
	}
	s.settle()
	return s, nil
}

// measure checks the knobs and computes strides and the raw size.
func (s *Space) measure(limit int) error {
	if len(s.knobs) == 0 {
		return errors.New("no knobs; want at least one")
	}
	names := map[string]bool{}
	for k := len(s.knobs) - 1; k >= 0; k-- {
		knob := s.knobs[k]
		if knob.Name == "" || names[knob.Name] {
			return fmt.Errorf("knob %d: name %q is empty or taken", k, knob.Name)
		}
		names[knob.Name] = true
		values := slices.Sorted(slices.Values(knob.Values))
		if len(values) == 0 || len(slices.Compact(values)) != len(knob.Values) {
			return fmt.Errorf("knob %s: values %q: want at least one, all different", knob.Name, knob.Values)
		}
		s.stride[k] = s.raw
		if s.raw *= len(knob.Values); s.raw > limit {
			return fmt.Errorf("more than %d combinations; want fewer knobs or values", limit)
		}
	}
	return nil
}

// enumerate lists the codes that all rules allow and counts what each rule cuts.
func (s *Space) enumerate(rules []Rule) {
	p := make(Point, len(s.knobs))
	value := func(knob string) string { return s.Value(p, knob) }
	for code := range s.raw {
		s.decode(code, p)
		cut := slices.IndexFunc(rules, func(r Rule) bool { return !r.Allows(value) })
		if cut >= 0 {
			s.cuts[cut].Points++
			continue
		}
		s.codes = append(s.codes, int32(code))
	}
}

func reasons(cuts []Cut) string {
	text := make([]string, len(cuts))
	for i, c := range cuts {
		text[i] = fmt.Sprintf("%s (%d)", c.Reason, c.Points)
	}
	return strings.Join(text, ", ")
}

// decode writes the point of a code to p.
func (s *Space) decode(code int, p Point) {
	rest := uint32(code) // fits: codes are kept in 32 bits, and their division is cheaper
	for k, stride := range s.stride {
		p[k] = int(rest / uint32(stride))
		rest %= uint32(stride)
	}
}

// Size returns the number of points.
func (s *Space) Size() int { return len(s.codes) }

// Raw returns the number of combinations before the rules.
func (s *Space) Raw() int { return s.raw }

// Knobs returns the knobs, in the order of a Point's elements.
func (s *Space) Knobs() []Knob { return slices.Clone(s.knobs) }

// Cuts returns what each rule took away, in the order of the rules.
func (s *Space) Cuts() []Cut { return slices.Clone(s.cuts) }

// At returns point number i, 0 <= i < Size.
func (s *Space) At(i int) Point {
	p := make(Point, len(s.knobs))
	s.read(i, p)
	return p
}

// read writes point number i to p.
func (s *Space) read(i int, p Point) { s.decode(int(s.codes[i]), p) }

// all returns the points of these numbers.
func (s *Space) all(numbers []int) []Point {
	points := make([]Point, len(numbers))
	for i, number := range numbers {
		points[i] = s.At(number)
	}
	return points
}

// Index returns the number of p; false where p is not a point of the space.
func (s *Space) Index(p Point) (int, bool) {
	code, ok := s.code(p)
	if !ok {
		return 0, false
	}
	return s.index(code)
}

// code returns the code of p; false where p is no combination of the knobs.
func (s *Space) code(p Point) (int, bool) {
	if len(p) != len(s.knobs) {
		return 0, false
	}
	code := 0
	for k, v := range p {
		if v < 0 || v >= len(s.knobs[k].Values) {
			return 0, false
		}
		code += v * s.stride[k]
	}
	return code, true
}

func (s *Space) index(code int) (int, bool) {
	if s.place != nil {
		i := int(s.place[code]) - 1
		return i, i >= 0
	}
	return slices.BinarySearch(s.codes, int32(code))
}

// maxPlaces is the largest number of combinations whose places are kept in a table, of 4 MiB.
const maxPlaces = 1 << 20

// settle makes the table of places when all codes are known.
func (s *Space) settle() {
	if s.raw > maxPlaces {
		return
	}
	s.place = make([]int32, s.raw)
	for i, code := range s.codes {
		s.place[code] = int32(i) + 1
	}
}

// Value returns the value that p gives to the named knob. It panics where there is no such knob.
func (s *Space) Value(p Point, knob string) string {
	for k := range s.knobs {
		if s.knobs[k].Name == knob {
			return s.knobs[k].Values[p[k]]
		}
	}
	panic("bandit: unknown knob")
}

// Lookup returns the point whose knobs have these values, by name, as a log keeps them; false where a knob is
// missing from values, a value is unknown, or the combination is cut. Names that are no knobs are ignored.
func (s *Space) Lookup(values map[string]string) (Point, bool) {
	p := make(Point, len(s.knobs))
	for k, knob := range s.knobs {
		value, ok := values[knob.Name]
		if p[k] = slices.Index(knob.Values, value); !ok || p[k] < 0 {
			return nil, false
		}
	}
	_, ok := s.Index(p)
	return p, ok
}

// Neighbours returns the points that differ from p in one knob: for an Ordinal knob the nearest valid value on either
// side, for a Categorical one every other valid value. Knob by knob, values ascending. p must be in the space.
func (s *Space) Neighbours(p Point) []Point {
	i, ok := s.Index(p)
	if !ok {
		panic("bandit: point is not in the space")
	}
	return s.all(s.neighbours(i))
}

// neighbours is Neighbours by number.
func (s *Space) neighbours(i int) []int {
	code := int(s.codes[i])
	var near []int
	for k, knob := range s.knobs {
		value, count := code/s.stride[k]%len(knob.Values), len(knob.Values)
		base := code - value*s.stride[k]
		valid := func(v int) (int, bool) { return s.index(base + v*s.stride[k]) }
		var below []int
		for v := value - 1; v >= 0; v-- {
			if j, ok := valid(v); ok {
				below = append(below, j)
				if knob.Kind == Ordinal {
					break
				}
			}
		}
		slices.Reverse(below)
		near = append(near, below...)
		for v := value + 1; v < count; v++ {
			if j, ok := valid(v); ok {
				near = append(near, j)
				if knob.Kind == Ordinal {
					break
				}
			}
		}
	}
	return near
}
