package tuner_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/tuner"
)

func Example() {
	ctx := context.Background()
	t, err := tuner.Open(tuner.Options{Store: os.Getenv("STORE")}) // "" keeps nothing
	if err != nil {
		fmt.Println(err)
		return
	}
	defer t.Close()

	plan, err := t.Plan(ctx, "bitnet-b1.58-2b-4t") // at once; never measures
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(plan.Source, plan.Config.Layout)

	if plan.Source == tuner.Heuristic && os.Getenv("STORE") != "" {
		cert, err := t.Tune(ctx, "bitnet-b1.58-2b-4t", tuner.Budget{Time: time.Minute}) // measures
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(cert.Verdict, cert.Ratio.Estimate)
	}
	// Output: heuristic i2s
}

// A service that starts llama-server asks for its flags, and starts it as it is where nothing was learned.
func ExampleTuner_PlanEngine() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	model := filepath.Join(dir, "model.gguf")
	if err := os.WriteFile(model, []byte("GGUF"), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	t, err := tuner.Open(tuner.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer t.Close()
	plan, err := t.PlanEngine(ctx, model, tuner.LlamaBench) // at once; starts no program
	if err != nil {
		fmt.Println(err)
		return
	}
	server := exec.Command("llama-server", append([]string{"--model", model}, plan.Flags...)...)
	fmt.Println(plan.Source, len(server.Args))
	// Output: heuristic 3
}

func ExampleTuner_Online() {
	t, err := tuner.Open(tuner.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer t.Close()
	s := t.Online("bitnet-b1.58-2b-4t")
	defer s.Close()
	for range 3 { // batches
		choice := s.Choose(tuner.Request{Tokens: 1}) // under a microsecond, at most 5 % of the requests on trial
		start := time.Now()
		// run the batch with choice.Arm
		s.Report(choice, time.Since(start))
	}
	fmt.Println(s.Plan().Source, s.Err())
	// Output: heuristic <nil>
}

// regime is a setting ready for use: the kernel that it names and a pool of as many workers as it asks for.
type regime struct {
	tuner.Setting
	kernel kernels.Kernel
	pool   *kernels.Pool
}

// open looks up the kernel of a setting and starts its workers. A config that Plan returned names only kernels of this
// build that this host can run, and no more threads than it has CPUs for.
func open(s tuner.Setting, host probe.Host) (regime, error) {
	kernel, ok := kernels.ByName(s.Kernel)
	if !ok {
		return regime{}, fmt.Errorf("kernel %s is not in this build", s.Kernel)
	}
	pool, err := kernels.NewPool(host.CPU.CPUs[:s.Threads])
	return regime{s, kernel, pool}, err
}

// multiply sets sums to w times the tokens of x.
func (r *regime) multiply(sums []int32, w *kernels.Packed, x *kernels.Activations) {
	r.pool.Mul(&r.kernel, sums, w, x, r.Blocking)
}

// What was learned for a model says how its weights are packed, once for all batches, and which kernel, threads and
// blocking multiply a token, a small batch, and the Batch tokens into which a prompt is cut. Pools that are idle cost
// nothing, so every regime has its own; they must not run at the same time, as they use the same CPUs.
func ExampleConfig() {
	ctx := context.Background()
	host, err := probe.Local(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	t, err := tuner.Open(tuner.Options{Host: &host})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer t.Close()
	plan, err := t.Plan(ctx, "bitnet-b1.58-2b-4t")
	if err != nil {
		fmt.Println(err)
		return
	}
	decode, err := open(plan.Config.Decode, host)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer decode.pool.Close()
	prefill, err := open(plan.Config.Prefill, host)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer prefill.pool.Close()

	const n, k = 64, 256
	codes := make([]int8, n*k)
	for i := range codes {
		codes[i] = int8(i%3) - 1
	}
	weights, err := kernels.Pack(plan.Config.Layout, codes, n, k, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	prompt := kernels.NewActivations(prefill.Batch, k)
	prompt.Random(1)
	sums := make([]int32, prefill.Batch*n)
	prefill.multiply(sums, weights, prompt)

	token := kernels.NewActivations(1, k)
	copy(token.X, prompt.X[:k]) // the first token of the prompt, alone
	token.Sum[0] = prompt.Sum[0]
	sum := make([]int32, n)
	decode.multiply(sum, weights, token)
	fmt.Println("decode and prefill agree:", slices.Equal(sum, sums[:n]))
	// Output: decode and prefill agree: true
}
