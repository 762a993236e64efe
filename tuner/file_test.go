package tuner

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model/modeltest"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure/measuretest"
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

// A model's file is replaced under a running service: the answer is for the new one. One that is removed changes nothing.
func TestAModelFileThatIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.gguf")
	write := func(m model.Model) {
		t.Helper()
		if err := modeltest.WriteI2S(path, m, 1); err != nil {
			t.Fatal(err)
		}
	}
	s := &simulated{host: measuretest.New(1), cost: planted}
	tuner := s.open(t, "", 1)
	ask := func() int64 {
		t.Helper()
		if known := tuner.plans[path]; known != nil {
			known.checked.Store(-int64(time.Hour))
		}
		plan, err := tuner.Plan(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		return plan.Config.WorkspaceBytes
	}
	write(modeltest.Small())
	small := ask()
	larger := modeltest.Small()
	larger.FFN = 2048
	write(larger)
	large := ask()
	if large <= small {
		t.Errorf("workspace of %d bytes, and of %d for the larger model in its place", small, large)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if got := ask(); got != large {
		t.Errorf("workspace of %d bytes once the file is gone, %d before", got, large)
	}
}
