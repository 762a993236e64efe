package tuner

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// pace is what a kernel takes per weight with one thread, in ns.
type pace struct {
	one  float64 // at one token
	many float64 // per token of a batch
}

// benchClock says how long cases take, shares a budget out among them, and learns from how long they took.
type benchClock struct {
	now      func() time.Time
	paces    map[string]pace // by kernel
	started  time.Time
	deadline time.Time // zero = none
	blocks   int
	expected time.Duration // of what is done
	left     time.Duration // expected, of what is not
}

// What a case costs beside its samples, roughly, on a host of 2.5 GHz: to verify it twice and to warm it and its limit
// up. And a sample lasts at least a millisecond, on average half as much again.
const (
	caseOverhead = 90 * time.Millisecond
	shortSample  = 1500 * time.Microsecond
	fillRate     = 1.5e9               // bytes of random weights a second
	decodeTime   = 6 * time.Nanosecond // to decode a weight for the reference
	seen         = 2 * time.Second     // after so long the clock believes its own experience
)

// matmul is how long a case's kernel takes.
func (c *benchClock) matmul(s shape, k benchCase) time.Duration {
	p := c.paces[k.kernel.Name]
	return time.Duration(float64(s.n) * float64(s.k) * max(p.one, float64(k.m)*p.many) / float64(k.threads))
}

// row is how long a case takes with so many blocks.
func (c *benchClock) row(s shape, k benchCase, blocks int) time.Duration {
	sample := max(shortSample, c.matmul(s, k))
	return caseOverhead + 3*sample + time.Duration(blocks)*2*(sample+shortSample)
}

// bank is how long it takes to make the matrices.
func (c *benchClock) bank(b benchBank) time.Duration {
	fill := float64(b.matrices()) * float64(b.matrix()) / fillRate
	return time.Duration(fill*float64(time.Second)) + time.Duration(b.n*b.k)*decodeTime
}

// total is how long a plan takes with so many blocks a row.
func (c *benchClock) total(p *benchPlan, blocks int) (sum time.Duration) {
	for _, b := range p.banks {
		sum += c.bank(b)
		for _, k := range b.cases {
			sum += c.row(b.shape, k, blocks)
		}
	}
	return sum
}

// fit drops the cases that the budget has no room for, dear ones first, and returns what it dropped. A decode row from
// DRAM is dropped last: it is what a host is judged by.
func (c *benchClock) fit(p *benchPlan) []leftOut {
	if p.budget == 0 {
		return nil
	}
	type item struct {
		bank, index int
		cost        time.Duration
	}
	var items []item
	for i, b := range p.banks {
		for j, k := range b.cases {
			items = append(items, item{i, j, c.row(b.shape, k, leastPairs)})
		}
	}
	rank := func(i item) int {
		if k := p.banks[i.bank].cases[i.index]; k.m == 1 && k.residency == InDRAM {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(items, func(a, b item) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.cost, b.cost)) })
	room, opened, kept := p.budget, map[int]bool{}, map[item]bool{}
	for _, i := range items {
		need := i.cost
		if !opened[i.bank] {
			need += c.bank(p.banks[i.bank])
		}
		if need <= room {
			room, opened[i.bank], kept[i] = room-need, true, true
		}
	}
	var dropped []leftOut
	for i := range p.banks {
		b := &p.banks[i]
		var cases []benchCase
		for j, k := range b.cases {
			if kept[item{i, j, c.row(b.shape, k, leastPairs)}] {
				cases = append(cases, k)
			} else {
				dropped = append(dropped, leftOut{b.shape, k})
			}
		}
		b.cases = cases
	}
	p.banks = slices.DeleteFunc(p.banks, func(b benchBank) bool { return len(b.cases) == 0 })
	return dropped
}

// start begins the count.
func (c *benchClock) start(p *benchPlan) {
	c.started, c.left, c.blocks = c.now(), c.total(p, p.blocks), p.blocks
	if p.budget > 0 {
		c.deadline = c.started.Add(p.budget)
	}
}

// slowness is by how much more things took than was expected.
func (c *benchClock) slowness() float64 {
	took := c.now().Sub(c.started)
	if took < seen || c.expected == 0 {
		return 1
	}
	return float64(took) / float64(c.expected)
}

// remaining is how long the rest takes.
func (c *benchClock) remaining() time.Duration {
	rest := time.Duration(float64(c.left) * c.slowness())
	if !c.deadline.IsZero() {
		rest = min(rest, max(0, c.deadline.Sub(c.now())))
	}
	return rest
}

// until is when a case must end: it gets its share of what is left. ok is false where the least blocks do not fit.
func (c *benchClock) until(s shape, k benchCase) (end time.Time, ok bool) {
	if c.deadline.IsZero() {
		return time.Time{}, true
	}
	now := c.now()
	least := time.Duration(float64(c.row(s, k, leastPairs)) * c.slowness())
	if now.Add(least).After(c.deadline) {
		return end, false
	}
	share := float64(c.row(s, k, c.blocks)) / float64(max(1, c.left))
	return now.Add(time.Duration(share * float64(c.deadline.Sub(now)))), true
}

// done takes off what was expected of something that is done, or given up.
func (c *benchClock) done(expected time.Duration) {
	c.expected += expected
	c.left -= expected
}

// leftOut is a row that was not measured.
type leftOut struct {
	shape
	benchCase
}

// nameLeftOut says which rows are missing, one line for a kernel on a shape and at most mostLines of them.
func nameLeftOut(why string, rows []leftOut) (lines []string) {
	const mostLines = 12
	type group struct {
		kernel string
		shape
	}
	var order []group
	members := map[group][]string{}
	for _, r := range rows {
		g := group{r.kernel.Name, r.shape}
		if members[g] == nil {
			order = append(order, g)
		}
		members[g] = append(members[g], fmt.Sprintf("%s from %s with %s", counted(r.m, "token"), r.residency, counted(r.threads, "thread")))
	}
	rest := len(rows)
	for i, g := range order {
		if i == mostLines {
			return append(lines, fmt.Sprintf("%s: %d more rows of %d kernels and shapes", why, rest, len(order)-i))
		}
		lines = append(lines, fmt.Sprintf("%s: %s on %d x %d: %s", why, g.kernel, g.n, g.k, few(members[g])))
		rest -= len(members[g])
	}
	return lines
}

// counted is a number of things: "1 thread", "2 threads".
func counted(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// few is a list of at most four, with how many more there are.
func few(list []string) string {
	if len(list) <= 4 {
		return strings.Join(list, "; ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:4], "; "), len(list)-4)
}
