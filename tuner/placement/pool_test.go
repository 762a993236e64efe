package placement_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/placement"
)

func newPool() *placement.Pool[string] {
	return placement.NewPool[string](placement.DefaultRules, twoCards(), placement.DefaultMatrix())
}

// build is a constructor that tells where it was called.
func build(_ context.Context, d placement.Device) (string, error) { return "on " + d.ID, nil }

// R3.22: many who ask at once share one load, and the memory is free again after the last of them.
func TestPoolLoadsOnce(t *testing.T) {
	pool := newPool()
	var built atomic.Int32
	leases := make([]*placement.Lease[string], 50)
	var all sync.WaitGroup
	for i := range leases {
		all.Go(func() {
			var err error
			leases[i], err = pool.Load(t.Context(), want("a", model.TextGeneration, 10), func(ctx context.Context, d placement.Device) (string, error) {
				built.Add(1)
				return build(ctx, d)
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if built.Load() != 1 || leases[7].Value != "on cuda:0" {
		t.Fatalf("built %d times, %q", built.Load(), leases[7].Value)
	}
	last := 0
	for _, l := range leases {
		for range 2 { // the second does nothing
			if l.Release() {
				last++
			}
		}
	}
	if last != 1 {
		t.Errorf("%d were told that they are the last, want 1", last)
	}
	if again, err := pool.Load(t.Context(), want("b", model.TextGeneration, 12), build); err != nil || again.Device.ID != "cuda:0" {
		t.Errorf("%+v, %v: want the room of a", again, err)
	}
}

// R3.22: by family and need without a preference; R3.13: what is loaded already takes part.
func TestPoolPlacesByFamilyAndNeed(t *testing.T) {
	pool := newPool()
	for _, step := range []struct {
		want      placement.Want
		device    string
		fallbacks int
	}{
		{want("text", model.TextGeneration, 10), "cuda:0", 0},
		{want("vision", model.Vision, 2), "cuda:1", 0},
		{want("large", model.TextGeneration, 9), "cuda:1", 0},
		{func() placement.Want {
			w := want("asked", model.Embedding, 6)
			w.Prefer = at("cuda", 0)
			return w
		}(), "cpu", 2},
	} {
		lease, err := pool.Load(t.Context(), step.want, build)
		if err != nil || lease.Device.ID != step.device || len(lease.Fallbacks) != step.fallbacks {
			t.Fatalf("%s: %+v, %v; want %s with %d fallbacks", step.want.Model, lease, err, step.device, step.fallbacks)
		}
	}
	if _, err := pool.Load(t.Context(), want("huge", model.TextGeneration, 999), build); !errors.Is(err, placement.ErrNoDevice) {
		t.Errorf("999 GiB: %v, want ErrNoDevice", err)
	}
}

func TestPoolForgetsFailures(t *testing.T) {
	pool := newPool()
	broken := errors.New("broken")
	if _, err := pool.Load(t.Context(), want("a", model.TextGeneration, 12), func(context.Context, placement.Device) (string, error) { return "", broken }); !errors.Is(err, broken) {
		t.Fatalf("%v, want what the constructor said", err)
	}
	if lease, err := pool.Load(t.Context(), want("a", model.TextGeneration, 12), build); err != nil || lease.Device.ID != "cuda:0" {
		t.Errorf("%+v, %v: want another try in the room of the first", lease, err)
	}
}

func TestPoolSurvivesAPanic(t *testing.T) {
	pool := newPool()
	func() {
		defer func() { recover() }()
		pool.Load(t.Context(), want("a", model.TextGeneration, 12), func(context.Context, placement.Device) (string, error) { panic("constructor") })
	}()
	if lease, err := pool.Load(t.Context(), want("a", model.TextGeneration, 12), build); err != nil || lease.Device.ID != "cuda:0" {
		t.Errorf("%+v, %v: want another try in the room of the first", lease, err)
	}
}

func TestPoolStopsWaiting(t *testing.T) {
	pool := newPool()
	building, finish := make(chan struct{}), make(chan struct{})
	var first sync.WaitGroup
	first.Go(func() {
		pool.Load(context.Background(), want("a", model.TextGeneration, 1), func(ctx context.Context, d placement.Device) (string, error) {
			close(building)
			<-finish
			return build(ctx, d)
		})
	})
	<-building
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := pool.Load(ctx, want("a", model.TextGeneration, 1), build); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want an end of waiting", err)
	}
	close(finish)
	first.Wait()
}

// What is there by the time that a caller gives up is that caller's all the same: nobody else would close it.
func TestPoolLeavesNothingBehind(t *testing.T) {
	for range 50 { // both channels are ready: either could win
		pool := newPool()
		ctx, cancel := context.WithCancel(t.Context())
		lease, err := pool.Load(ctx, want("a", model.TextGeneration, 1), func(ctx context.Context, d placement.Device) (string, error) {
			cancel()
			return build(ctx, d)
		})
		if err != nil || !lease.Release() {
			t.Fatalf("%v: want the lease of what was built", err)
		}
	}
}

// R3.22: a preference falls back on no kind that is not allowed, and what a GPU takes besides counts where it falls back on one.
func TestPoolFallsBackWithinBounds(t *testing.T) {
	only := want("only", model.TextGeneration, 20)
	only.Prefer, only.Kinds = at("cuda", 0), []placement.Kind{"cuda"}
	if lease, err := newPool().Load(t.Context(), only, build); !errors.Is(err, placement.ErrNoDevice) {
		t.Errorf("%+v, %v: want ErrNoDevice, not the CPU", lease, err)
	}
	pool := newPool()
	if _, err := pool.Load(t.Context(), want("b", model.Vision, 25), build); err != nil {
		t.Fatal(err) // leaves no room on the CPU
	}
	big := want("big", model.TextGeneration, 10)
	big.Prefer, big.Need.GPUBytes = at("cpu", 0), 10*gib
	if lease, err := pool.Load(t.Context(), big, build); !errors.Is(err, placement.ErrNoDevice) {
		t.Errorf("%+v, %v: want ErrNoDevice: 20 GiB on a GPU of 16", lease, err)
	}
}
