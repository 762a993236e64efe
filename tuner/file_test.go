package tuner

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model/modeltest"
)

// The weights of a real I2_S file go into the run-time layout, and every kernel that runs here multiplies them as they
// stand in the file.
func TestFileWeightsMultiplyAsTheyStandInTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := modeltest.WriteI2S(path, modeltest.Small(), 7); err != nil {
		t.Fatal(err)
	}
	file, err := model.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	host, err := probe.Local(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tensors := 0
	for _, tensor := range file.Tensors {
		if !tensor.Ternary {
			continue
		}
		tensors++
		codes, _, n, k, err := file.Ternary(tensor.Name)
		if err != nil {
			t.Fatal(err)
		}
		x := kernels.NewActivations(2, k)
		x.Quantize(normals(2 * k))
		want := product(codes, n, k, x)
		for _, kernel := range kernels.Usable(host.CPU.Features) {
			packed, err := kernels.Pack(kernel.Layout, codes, n, k, nil)
			if err != nil {
				t.Fatal(err)
			}
			var work []byte
			if kernel.Work != nil {
				work = make([]byte, kernel.Work(kernels.Shape{M: 2, N: n, K: k}))
			}
			got := make([]int32, 2*n)
			kernel.Mul(got, packed, x, kernels.Rows{To: n}, work, kernel.Default(2))
			if !slices.Equal(got, want) {
				t.Errorf("%s on %s: not the product of the file's weights", kernel.Name, tensor.Name)
			}
		}
	}
	if tensors == 0 {
		t.Fatal("the file holds no ternary tensors")
	}
}

func normals(n int) []float32 {
	r := rand.New(rand.NewPCG(1, 2))
	list := make([]float32, n)
	for i := range list {
		list[i] = float32(r.NormFloat64())
	}
	return list
}

// product is the definition: dst[m][n] = Σ_k w[n][k] x[m][k].
func product(w []int8, n, k int, x *kernels.Activations) []int32 {
	dst := make([]int32, x.M*n)
	for m := range x.M {
		for row := range n {
			for col := range k {
				dst[m*n+row] += int32(w[row*k+col]) * int32(x.X[m*x.Stride+col])
			}
		}
	}
	return dst
}
