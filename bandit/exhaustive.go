package bandit

import "math"

func init() { register("exhaustive", newExhaustive) }

// newExhaustive asks every point once, then all again until each has Options.Samples samples. The order is a rank-1
// lattice (Korobov 1959): place k holds point k·g mod Size, with g coprime to Size and near Size divided by the golden
// ratio, so that any first part of a round is spread over all values of all knobs.
func newExhaustive(l *ledger) Strategy {
	n := l.space.Size()
	step := max(1, int(math.Round(float64(n)/math.Phi)))
	for gcd(step, n) != 1 {
		step++
	}
	return &sweep{ledger: l, order: func(at int) int { return int(uint64(at) * uint64(step) % uint64(n)) }}
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
