package placement

import (
	"cmp"
	"slices"
)

// solve returns a good assignment of in, and where c.ExactNodes allows it the best.
//
// Where it is not proven to be the best, it is the best of those of the smaller sets of devices too, so that a device more
// never makes it worse: every set of devices is solved in one canonical order, and one set more is only one candidate more.
func (c Constants) solve(in *instance) solution {
	best := c.solveAlone(in)
	if best.proven {
		return best
	}
	for _, devices := range in.subsets(c.DeviceSubsets) {
		smaller := c.solveAlone(in.only(devices))
		best.nodes += smaller.nodes
		if !smaller.score.less(best.score) {
			continue
		}
		best.score = smaller.score
		for i, j := range smaller.assign {
			if best.assign[i] = nowhere; j != nowhere {
				best.assign[i] = devices[j]
			}
		}
	}
	return best
}

// solveAlone solves in without regard to smaller sets of devices.
func (c Constants) solveAlone(in *instance) solution {
	order := in.canonical()
	renamed := in.only(order)
	sol := prove(renamed, improve(renamed, c.Kicks/10), c.ExactNodes)
	if !sol.proven {
		found := improve(renamed, c.Kicks)
		if sol.score.less(found.score) {
			found = sol
		}
		found = refine(renamed, found, c.Kicks)
		sol.assign, sol.score = found.assign, found.score
	}
	for i, j := range sol.assign {
		if j != nowhere {
			sol.assign[i] = order[j]
		}
	}
	return sol
}

// only is in with some of its devices alone, in the order given. A wish for any other is missed.
func (in *instance) only(devices []int) *instance {
	out := &instance{want: make([]int, len(in.want))}
	for _, j := range devices {
		out.room = append(out.room, in.room[j])
	}
	for i := range in.bytes {
		bytes, time := make([]uint64, len(devices)), make([]uint64, len(devices))
		for at, j := range devices {
			bytes[at], time[at] = in.bytes[i][j], in.time[i][j]
		}
		out.bytes, out.time = append(out.bytes, bytes), append(out.time, time)
		if out.want[i] = in.want[i]; in.want[i] >= 0 {
			if out.want[i] = slices.Index(devices, in.want[i]); out.want[i] == nowhere {
				out.want[i] = wantMissing
			}
		}
	}
	return out
}

// canonical orders the devices by what models can tell of them, so that their numbers do not decide.
func (in *instance) canonical() []int {
	order := make([]int, len(in.room))
	for j := range order {
		order[j] = j
	}
	slices.SortStableFunc(order, in.compare)
	return order
}

// compare orders two devices: the one with more room first, else the one that is quicker for the first model that can tell
// them apart; 0 = no model can.
func (in *instance) compare(a, b int) int {
	if by := cmp.Compare(in.room[b], in.room[a]); by != 0 {
		return by
	}
	for i := range in.bytes {
		if by := cmp.Or(cmp.Compare(in.time[i][a], in.time[i][b]), cmp.Compare(in.bytes[i][a], in.bytes[i][b])); by != 0 {
			return by
		}
		if wantA, wantB := in.want[i] == a, in.want[i] == b; wantA != wantB {
			if wantA {
				return -1
			}
			return 1
		}
	}
	return 0
}

// subsets are the smaller sets of devices that differ for the models, at most limit of them: where there are more, the
// sets of the first devices in canonical order.
func (in *instance) subsets(limit int) [][]int {
	order := in.canonical()
	var groups [][]int // devices that are alike
	for _, j := range order {
		if last := len(groups) - 1; last >= 0 && in.compare(groups[last][0], j) == 0 {
			groups[last] = append(groups[last], j)
		} else {
			groups = append(groups, []int{j})
		}
	}
	number := 1
	for _, g := range groups {
		number = min(number*(len(g)+1), limit+1)
	}
	if number > limit {
		return prefixes(order)
	}
	sets := [][]int{nil}
	for _, g := range groups {
		var longer [][]int
		for _, set := range sets {
			for n := range len(g) + 1 {
				longer = append(longer, slices.Concat(set, g[:n]))
			}
		}
		sets = longer
	}
	return sets[:len(sets)-1] // the last is the whole
}

func prefixes(order []int) [][]int {
	var sets [][]int
	for n := 1; n < len(order); n++ {
		sets = append(sets, order[:n])
	}
	return sets
}
