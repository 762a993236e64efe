package target

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/bitnet-autotune/bitnet-autotune/kernels"
)

func TestReferenceFindsEveryWrongOutput(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const tokens = 3
	for _, shape := range [][2]int{{1, 1}, {17, 70}, {100, 33}, {130, 20}} {
		n, k := shape[0], shape[1]
		codes := make([]int8, n*k)
		for i := range codes {
			codes[i] = int8(rng.IntN(3)) - 1
		}
		w, err := kernels.Pack(kernels.I2S, codes, n, k, nil)
		if err != nil {
			t.Fatal(err)
		}
		x := randomTokens(tokens, k, 3)
		right := make([]int32, tokens*n)
		for m := range tokens {
			for row := range n {
				for col := range k {
					right[m*n+row] += int32(codes[row*k+col]) * int32(x.X[m*x.Stride+col])
				}
			}
		}
		for _, rows := range [][]int{nil, sampled(n)} {
			v := newReference(formatI2S(t), w, rows, rng)
			if err := v.compare(right[:n], firstTokens(x, 1)); err != nil {
				t.Errorf("%d x %d: right outputs of 1 token: %v", n, k, err)
			}
			if err := v.compare(right, x); err != nil {
				t.Errorf("%d x %d: right outputs: %v", n, k, err)
			}
			for i := range right {
				for _, e := range []int32{1, -1, 1 << 16, -1 << 31} {
					right[i] += e
					err := v.compare(right, x)
					right[i] -= e
					where := fmt.Sprintf("matmul %d x %d, token %d, row %d:", n, k, i/n, i%n)
					if !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), where) {
						t.Fatalf("output %d wrong by %d: error %v, want ErrMismatch and %q", i, e, err, where)
					}
				}
			}
		}
	}
}

// A reference of a large matrix must not hold it decoded: 4 million weights here, a quarter of them packed.
func TestReferenceIsMadeInLittleMemory(t *testing.T) {
	const n, k = 4096, 1024
	format := formatI2S(t)
	w := &kernels.Packed{Layout: kernels.I2S, N: n, K: k, Data: make([]byte, format.Bytes(n, k)), Scale: 1}
	format.Random(w.Data, n, k, 1)
	rng := rand.New(rand.NewPCG(1, 1))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	newReference(format, w, nil, rng)
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > n*k/8 {
		t.Errorf("%d bytes allocated for a matrix of %d weights, want at most an eighth", got, n*k)
	}
}

func TestReferenceNoticesChangedWeights(t *testing.T) {
	w, err := kernels.Pack(kernels.I2S, []int8{1, 0, -1, 1}, 2, 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	x := randomTokens(1, 2, 1)
	v := newReference(formatI2S(t), w, nil, rand.New(rand.NewPCG(1, 1)))
	formatI2S(t).Pack(w.Data, []int8{1, 1, -1, 1}, 2, 2)
	changed := []int32{int32(x.X[0]) + int32(x.X[1]), int32(x.X[1]) - int32(x.X[0])}
	if err := v.compare(changed, x); !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), "weights have changed") {
		t.Errorf("error %v, want ErrMismatch that blames the weights", err)
	}
}

func TestSampledRows(t *testing.T) {
	for _, n := range []int{1, 15, 16, 17, 40, 48, 49, 1000} {
		rows := sampled(n)
		seen := make(map[int]bool)
		for i, row := range rows {
			if row < 0 || row >= n || seen[row] || i > 0 && row < rows[i-1] {
				t.Fatalf("sampled(%d) = %v", n, rows)
			}
			seen[row] = true
		}
		if !seen[0] || !seen[n/2] || !seen[n-1] || len(rows) > 3*sampleRows {
			t.Errorf("sampled(%d) = %v, want the first, a middle and the last row", n, rows)
		}
	}
}

func TestTokensAreTheSameInEveryBatch(t *testing.T) {
	few, many := randomTokens(2, 70, 5), randomTokens(9, 70, 5)
	for m := range 2 {
		if string(bytesOf(tokenOf(few, m))) != string(bytesOf(tokenOf(many, m))) || few.Sum[m] != many.Sum[m] || few.Scale[m] != many.Scale[m] {
			t.Errorf("token %d differs between a batch of 2 and of 9", m)
		}
	}
	var absmax int8
	for _, v := range tokenOf(few, 0) {
		absmax = max(absmax, v, -v)
	}
	if absmax != 127 {
		t.Errorf("absmax of a quantised token is %d, want 127", absmax)
	}
}

func bytesOf(x []int8) []byte {
	b := make([]byte, len(x))
	for i, v := range x {
		b[i] = byte(v)
	}
	return b
}
