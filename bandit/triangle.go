package bandit

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/lapack/lapack64"
)

// triangle is the Cholesky factor of a covariance: lower, row by row.
type triangle struct {
	n    int
	rows []float64
}

// cholesky turns the lower triangle of a covariance of n points into its factor.
func cholesky(cov []float64, n int) triangle {
	if _, ok := lapack64.Potrf(blas64.Symmetric{Uplo: blas.Lower, N: n, Stride: n, Data: cov}); !ok {
		panic("bandit: covariance is not positive definite")
	}
	return triangle{n, cov}
}

func (t triangle) blas() blas64.Triangular {
	return blas64.Triangular{Uplo: blas.Lower, Diag: blas.NonUnit, N: t.n, Stride: t.n, Data: t.rows}
}

func vector(x []float64) blas64.Vector { return blas64.Vector{N: len(x), Inc: 1, Data: x} }

// logDiagonal returns the sum of the logarithms of the diagonal: half the logarithm of the determinant.
func (t triangle) logDiagonal() float64 {
	sum := 0.0
	for i := range t.n {
		sum += math.Log(t.rows[i*t.n+i])
	}
	return sum
}

// whiten turns the elements of x from one on to before another into those of factor⁻¹ x, where those before have been
// turned, and returns the sum of their squares: by as much they lower the variance of what covaries so.
func (t triangle) whiten(x []float64, from, to int) float64 {
	sum := 0.0
	for i := from; i < to; i++ {
		row := t.rows[i*t.n : i*t.n+i+1]
		x[i] = (x[i] - floats.Dot(row[:i], x[:i])) / row[i]
		sum += x[i] * x[i]
	}
	return sum
}

// unwhiten turns x into factor⁻ᵀ x.
func (t triangle) unwhiten(x []float64) { blas64.Trsv(blas.Trans, t.blas(), vector(x)) }

// colour turns x, of independent standard normal numbers, into factor x, which covary.
func (t triangle) colour(x []float64) { blas64.Trmv(blas.NoTrans, t.blas(), vector(x)) }

// centred returns the mean of y by generalised least squares, and what is left of y, whitened.
func (t triangle) centred(y []float64) (mean float64, rest []float64) {
	one, rest := make([]float64, t.n), make([]float64, t.n)
	for i := range one {
		one[i], rest[i] = 1, y[i]
	}
	squares := t.whiten(one, 0, t.n)
	t.whiten(rest, 0, t.n)
	mean = floats.Dot(one, rest) / squares
	floats.AddScaled(rest, -mean, one)
	return mean, rest
}

// stage is how many elements are whitened at first where a bound may do; then twice as many each time.
const stage = 8

// next returns how far to whiten after done elements.
func (t triangle) next(done int) int { return min(max(stage, 2*done), t.n) }
