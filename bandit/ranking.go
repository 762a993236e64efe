package bandit

import (
	"cmp"
	"slices"
)

// ranking is the measured arms that never failed, by the median of their samples; among equals the lower number comes
// first. It is kept up to date by what was told since it was last looked at, so that a question of a long search need
// not sort what has been sorted before, and a strategy that never looks pays nothing.
type ranking struct {
	keys  []rank       // by median log cost
	of    map[int]rank // the key of each ranked point
	stale []int        // points told since
	made  bool
}

// rank is what points are sorted by.
type rank struct {
	grain float64 // what is least is first, in grains
	point int
}

func (r rank) compare(s rank) int { return cmp.Or(cmp.Compare(r.grain, s.grain), r.point-s.point) }

// ascending returns the places from 0 to below n, the least value in grains first.
func ascending(n int, value func(i int) float64) []rank {
	order := make([]rank, n)
	for i := range order {
		order[i] = rank{grains(value(i)), i}
	}
	slices.SortFunc(order, rank.compare)
	return order
}

// ranked returns the keys of the measured arms that never failed, best first. It is good until the next Tell.
func (l *ledger) ranked() []rank {
	r := &l.ranks
	if !r.made {
		r.made, r.of = true, map[int]rank{}
		for i := range l.arms {
			if a := &l.arms[i]; a.good() {
				r.of[a.point] = a.rank()
				r.keys = append(r.keys, a.rank())
			}
		}
		slices.SortFunc(r.keys, rank.compare)
	}
	for _, point := range r.stale {
		if old, ok := r.of[point]; ok {
			at, _ := slices.BinarySearchFunc(r.keys, old, rank.compare)
			r.keys = slices.Delete(r.keys, at, at+1)
			delete(r.of, point)
		}
		if a := l.arm(point); a.good() {
			at, _ := slices.BinarySearchFunc(r.keys, a.rank(), rank.compare)
			r.keys = slices.Insert(r.keys, at, a.rank())
			r.of[point] = a.rank()
		}
	}
	r.stale = r.stale[:0]
	return r.keys
}

// good reports whether a has samples and never failed.
func (a *arm) good() bool { return a.failed == OK && len(a.logs) > 0 }

func (a *arm) rank() rank { return rank{grains(median(a.logs)), a.point} }

// drawn returns at most n of the measured arms that never failed. Which ones, and in which order, a hash of their numbers
// says: whatever the order of the tells they are the same, and seldom change when there are many.
func (l *ledger) drawn(n int) []rank {
	type ticket struct {
		hash uint64
		rank
	}
	byHash := func(x, y ticket) int { return cmp.Compare(x.hash, y.hash) }
	var kept []ticket
	for _, r := range l.ranked() {
		t := ticket{l.hash(r.point), r}
		if len(kept) == n {
			if t.hash > kept[n-1].hash {
				continue
			}
			kept = kept[:n-1]
		}
		at, _ := slices.BinarySearchFunc(kept, t, byHash)
		kept = slices.Insert(kept, at, t)
	}
	few := make([]rank, len(kept))
	for i, t := range kept {
		few[i] = t.rank
	}
	return few
}

// tapered returns how much of a workload is left for a question when many points are known: a search of thousands of
// questions needs many that are fair more than few that are good. Short ones are not touched.
func (l *ledger) tapered(work int) int {
	const unhurried, least = 150, 4
	known := max(unhurried, len(l.ranked()))
	return max(work/least, work*unhurried*unhurried/(known*known))
}

// hash scatters the numbers of points (SplitMix64; Steele et al. 2014).
func (l *ledger) hash(i int) uint64 {
	x := (uint64(i)+1)*0x9e3779b97f4a7c15 + l.opt.Seed
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// columns is points by knob: columns[k][i] is the value of knob k of the i-th point.
type columns [][]int32

func (s *Space) columns(points []int) columns {
	c := make(columns, len(s.knobs))
	all := make([]int32, len(s.knobs)*len(points))
	for k := range c {
		c[k], all = all[:len(points)], all[len(points):]
	}
	p := make(Point, len(s.knobs))
	for i, number := range points {
		s.read(number, p)
		for k, v := range p {
			c[k][i] = int32(v)
		}
	}
	return c
}
