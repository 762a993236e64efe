package bandit

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

var (
	expLens   = []float64{0.25, 0.5, 1}
	expAmps   = []float64{0.003, 0.02, 0.06, 0.2, 0.6}
	expSubset = 64
)

// belief is what the samples say about every point of the space
type belief struct {
	space  *Space
	arms   []arm
	points []Point
	y      []float64 // centre
	noise  []float64 // variance of the centre
	scale  float64
	hyper  hyper
	mean   float64
	chol   mat.Cholesky
	alpha  *mat.VecDense
}

type hyper struct {
	main   []float64 // sd of each knob's own effect
	joint  float64   // sd of joint
	length float64
}

func (h hyper) clone() hyper { h.main = slices.Clone(h.main); return h }

func corr(kind Kind, count, u, v int, length float64) float64 {
	if u == v {
		return 1
	}
	if kind == Categorical {
		return 0
	}
	d := math.Abs(float64(u-v)) / (length * float64(count-1))
	r := math.Sqrt(3) * d
	return (1 + r) * math.Exp(-r)
}

func (b *belief) cov(h *hyper, p, q Point) float64 {
	sum, prod := 0.0, h.joint*h.joint
	for k := range p {
		c := corr(b.space.knobs[k].Kind, len(b.space.knobs[k].Values), p[k], q[k], h.length)
		sum += h.main[k] * h.main[k] * c
		prod *= c
	}
	return sum + prod
}

func (b *belief) factor(h *hyper, chol *mat.Cholesky) (*mat.VecDense, float64, float64, bool) {
	n := len(b.points)
	K := mat.NewSymDense(n, nil)
	for i := range n {
		for j := i; j < n; j++ {
			c := b.cov(h, b.points[i], b.points[j])
			if i == j {
				c += b.noise[i] + 1e-8
			}
			K.SetSym(i, j, c)
		}
	}
	if !chol.Factorize(K) {
		return nil, 0, 0, false
	}
	one := mat.NewVecDense(n, nil)
	for i := range n {
		one.SetVec(i, 1)
	}
	y := mat.NewVecDense(n, b.y)
	var ki1, kiy mat.VecDense
	if chol.SolveVecTo(&ki1, one) != nil || chol.SolveVecTo(&kiy, y) != nil {
		return nil, 0, 0, false
	}
	mean := mat.Dot(one, &kiy) / mat.Dot(one, &ki1)
	alpha := mat.NewVecDense(n, nil)
	alpha.AddScaledVec(&kiy, -mean, &ki1)
	lml := -0.5*mat.Dot(y, alpha) - 0.5*chol.LogDet() // y'a where a orthogonal to 1
	return alpha, mean, lml, true
}

func prior(h *hyper) float64 {
	lp := 0.0
	for _, m := range h.main {
		lp -= 0.1 * sq(math.Log(m/0.1))
	}
	lp -= 0.1 * sq(math.Log(h.joint/0.06))
	return lp
}

func sq(x float64) float64 { return x * x }

func newBelief(l *ledger) *belief {
	b := &belief{space: l.space}
	arms := l.measured()
	b.scale = noiseScale(arms)
	b.arms = arms
	for _, a := range arms {
		m, v := centre(a.logs, b.scale)
		b.points = append(b.points, l.space.At(a.point))
		b.y = append(b.y, m)
		b.noise = append(b.noise, v/float64(len(a.logs)))
	}
	if len(arms) == 0 {
		return b
	}
	h := hyper{main: make([]float64, len(l.space.knobs)), joint: 0.06, length: 0.5}
	for k := range h.main {
		h.main[k] = 0.2
	}
	var chol mat.Cholesky
	score := func(h *hyper) float64 {
		_, _, lml, ok := b.factor(h, &chol)
		if !ok {
			return math.Inf(-1)
		}
		return lml + prior(h)
	}
	best := score(&h)
	try := func(set func(*hyper)) {
		c := h.clone()
		set(&c)
		if s := score(&c); s > best+1e-6 {
			best, h = s, c
		}
	}
	if len(arms) > 2 {
		for range 2 {
			for k := range h.main {
				for _, a := range expAmps {
					try(func(h *hyper) { h.main[k] = a })
				}
			}
			for _, a := range expAmps {
				try(func(h *hyper) { h.joint = a })
			}
			for _, a := range expLens {
				try(func(h *hyper) { h.length = a })
			}
		}
	}
	b.hyper = h
	b.alpha, b.mean, _, _ = b.factor(&h, &b.chol)
	return b
}

// at returns posterior mean and variance
func (b *belief) at(p Point) (mean, variance float64) {
	n := len(b.points)
	k := mat.NewVecDense(n, nil)
	for i, q := range b.points {
		k.SetVec(i, b.cov(&b.hyper, p, q))
	}
	mean = b.mean + mat.Dot(k, b.alpha)
	var s mat.VecDense
	b.chol.SolveVecTo(&s, k)
	return mean, max(1e-12, b.cov(&b.hyper, p, p)-mat.Dot(k, &s))
}
