package bandit

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"
)

func init() {
	register("thompson", func(l *ledger) Strategy { return &thompson{ledger: l, mode: "joint"} })
	register("marginal", func(l *ledger) Strategy { return &thompson{ledger: l, mode: "marginal"} })
	register("ei", func(l *ledger) Strategy { return &thompson{ledger: l, mode: "ei"} })
	register("toptwo", func(l *ledger) Strategy { return &thompson{ledger: l, mode: "toptwo"} })
	register("lcb", func(l *ledger) Strategy { return &thompson{ledger: l, mode: "lcb"} })
}

func sqrt(x float64) float64    { return math.Sqrt(x) }
func quantum(x float64) float64 { return math.Round(x*1e6) / 1e6 }

type thompson struct {
	*ledger
	mode string
}

var initial = 4

func (t *thompson) Ask(n int) []Trial {
	var asks []Trial
	for len(asks) < n {
		i, ok := t.next()
		if !ok {
			break
		}
		asks = append(asks, t.ask(i, 1))
	}
	return asks
}

type cand struct {
	i       int
	p       Point
	m, s, f float64
}

func (t *thompson) next() (int, bool) {
	if i, ok := t.nextStart(); ok {
		return i, true
	}
	dice := t.dice()
	var live []int
	heard := 0
	for i := range t.space.Size() {
		if t.live(i) {
			live = append(live, i)
		}
		if t.slot[i] != 0 {
			heard++
		}
	}
	if len(live) == 0 {
		return 0, false
	}
	if heard < initial {
		fresh := live[:0:0]
		for _, i := range live {
			if t.fresh(i) {
				fresh = append(fresh, i)
			}
		}
		if len(fresh) > 0 {
			return fresh[dice.IntN(len(fresh))], true
		}
	}
	b := t.belief()
	if len(b.arms) == 0 {
		return live[dice.IntN(len(live))], true
	}
	if len(live) > 1024 {
		dice.Shuffle(len(live), func(i, j int) { live[i], live[j] = live[j], live[i] })
		pool := live[:1024]
		best := t.Recommend(8)
		for _, p := range best {
			i, _ := t.space.Index(p)
			if t.live(i) {
				pool = append(pool, i)
			}
			for _, j := range t.space.neighbours(i) {
				if t.live(j) {
					pool = append(pool, j)
				}
			}
		}
		slices.Sort(pool)
		live = slices.Compact(pool)
	}
	best := math.Inf(1)
	for _, p := range b.points {
		m, _ := b.at(p)
		best = min(best, m)
	}
	var cs []cand
	for _, i := range live {
		p := t.space.At(i)
		m, v := b.at(p)
		cs = append(cs, cand{i, p, m, sqrt(v), t.feasible(p)})
	}
	sep := true
	for _, c := range cs {
		if distuv.UnitNormal.CDF((best-t.opt.Margin-c.m)/c.s) > 0.001 {
			sep = false
		}
	}
	if sep {
		return 0, false
	}
	switch t.mode {
	case "ei":
		bi, bv := -1, -1.0
		for _, c := range cs {
			z := (best - c.m) / c.s
			ei := c.s * (z*distuv.UnitNormal.CDF(z) + distuv.UnitNormal.Prob(z)) * c.f
			if n := t.samples(c.i); n > 0 {
				// knowledge of noise: shrink by what a sample can teach
				s2 := b.scale * b.scale
				ei *= 1 - b.scale/math.Sqrt(s2+c.s*c.s)
			}
			if q := ei; q > bv {
				bi, bv = c.i, q
			}
		}
		return bi, true
	case "lcb":
		bi, bv := -1, math.Inf(1)
		for _, c := range cs {
			if q := c.m - 1.5*c.s; q < bv {
				bi, bv = c.i, q
			}
		}
		return bi, true
	case "marginal":
		bi, bv := -1, math.Inf(1)
		for _, c := range cs {
			if q := c.m + c.s*dice.NormFloat64(); q < bv && dice.Float64() < c.f {
				bi, bv = c.i, q
			}
		}
		if bi < 0 {
			bi = cs[0].i
		}
		return bi, true
	}
	slices.SortStableFunc(cs, func(a, b cand) int {
		if a.m-2*a.s < b.m-2*b.s {
			return -1
		}
		if a.m-2*a.s > b.m-2*b.s {
			return 1
		}
		return a.i - b.i
	})
	if len(cs) > 64 {
		cs = cs[:64]
	}
	d := b.joint(cs)
	first := draw(d, cs, dice)
	if t.mode == "toptwo" && dice.IntN(2) == 0 {
		for range 10 {
			if second := draw(d, cs, dice); second != first {
				return cs[second].i, true
			}
		}
	}
	return cs[first].i, true
}

func draw(d *mat.TriDense, cs []cand, dice *rand.Rand) int {
	n := len(cs)
	z := make([]float64, n)
	for i := range z {
		z[i] = dice.NormFloat64()
	}
	var f mat.VecDense
	f.MulVec(d, mat.NewVecDense(n, z))
	bi, bv := -1, math.Inf(1)
	for i, c := range cs {
		if q := c.m + f.AtVec(i); dice.Float64() < c.f && q < bv {
			bi, bv = i, q
		}
	}
	if bi < 0 {
		bi = 0
	}
	return bi
}

func (b *belief) joint(cs []cand) *mat.TriDense {
	n, m := len(b.points), len(cs)
	K := mat.NewDense(n, m, nil)
	for i := range n {
		for j := range m {
			K.Set(i, j, b.cov(&b.hyper, b.points[i], cs[j].p))
		}
	}
	var S mat.Dense
	b.chol.SolveTo(&S, K)
	var C mat.Dense
	C.Mul(K.T(), &S)
	P := mat.NewSymDense(m, nil)
	for i := range m {
		for j := i; j < m; j++ {
			v := b.cov(&b.hyper, cs[i].p, cs[j].p) - C.At(i, j)
			if i == j {
				v += 1e-7
			}
			P.SetSym(i, j, v)
		}
	}
	var ch mat.Cholesky
	if !ch.Factorize(P) {
		panic("chol")
	}
	var L mat.TriDense
	ch.LTo(&L)
	return &L
}

func (l *ledger) feasible(p Point) float64 {
	ok, all := 2.7, 3.0
	any := false
	for _, a := range l.arms {
		if a.failed != OK && a.failed != Censored {
			any = true
		}
	}
	if !any {
		return 1
	}
	for _, a := range l.arms {
		if len(a.logs) == 0 && a.failed == OK {
			continue
		}
		q := l.space.At(a.point)
		w := 1.0
		for k := range p {
			if p[k] != q[k] {
				if l.space.knobs[k].Kind == Categorical {
					w *= 0.4
				} else {
					w *= math.Exp(-2 * math.Abs(float64(p[k]-q[k])) / float64(len(l.space.knobs[k].Values)-1))
				}
			}
		}
		w = 4 * w * w
		all += w
		if a.failed == OK || a.failed == Censored {
			ok += w
		}
	}
	return ok / all
}
