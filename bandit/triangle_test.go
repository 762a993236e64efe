package bandit

import (
	"math"
	"testing"
)

// The factor of [[4 2] [2 5]] is [[2 0] [1 2]]: by hand, it whitens (6, 7) to (3, 2), takes (3, 2) back to (6, 7), and
// the transposed inverse of (5, 2) has 2/2 = 1 as its second element and (5 - 1)/2 = 2 as its first.
func TestTriangleByHand(t *testing.T) {
	f := cholesky([]float64{4, 0, 2, 5}, 2)
	x := []float64{6, 7}
	if sum := f.whiten(x, 0, 2); x[0] != 3 || x[1] != 2 || sum != 13 {
		t.Errorf("whitened (6, 7) to %v, %v; want (3, 2), 13", x, sum)
	}
	f.colour(x)
	if x[0] != 6 || x[1] != 7 {
		t.Errorf("coloured (3, 2) to %v; want (6, 7)", x)
	}
	y := []float64{5, 2}
	f.unwhiten(y)
	if y[0] != 2 || y[1] != 1 {
		t.Errorf("unwhitened (5, 2) to %v; want (2, 1)", y)
	}
	if got := f.logDiagonal(); math.Abs(got-math.Log(4)) > 1e-15 {
		t.Errorf("half the logarithm of the determinant is %v; want log 4", got)
	}
}

// Whitening in stages is whitening, and reaches the end.
func TestWhitenInStages(t *testing.T) {
	const n = 50
	cov, x := make([]float64, n*n), make([]float64, n)
	for i := range n {
		for j := range i + 1 {
			cov[i*n+j] = math.Exp(-math.Abs(float64(i-j)) / 7)
		}
		x[i] = math.Sin(float64(i))
	}
	f := cholesky(cov, n)
	whole := append([]float64(nil), x...)
	want, got := f.whiten(whole, 0, n), 0.0
	for done := 0; done < n; {
		to := f.next(done)
		if to <= done {
			t.Fatalf("after %d elements the next stage ends at %d", done, to)
		}
		got += f.whiten(x, done, to)
		done = to
	}
	if math.Abs(got-want) > 1e-12*want {
		t.Errorf("in stages %v; want %v", got, want)
	}
}
