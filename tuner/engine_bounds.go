package tuner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/engine"
)

// EngineBounds are what is known before an engine starts: its threads, and how fast it can decode at the most.
type EngineBounds struct {
	Cores int `json:"usable_cores"`
	// ReadBandwidth is what so many threads read from memory, in bytes per second; nil where it does not bound this model.
	ReadBandwidth map[int]float64 `json:"read_bandwidth_bytes_per_second,omitempty"`
	// WeightBytes is the least that a token reads: all ternary weights, as densely as any layout packs them.
	WeightBytes uint64 `json:"weight_bytes,omitempty"`
	Note        string `json:"note,omitempty"` // why there is no bound, or what is doubtful
}

// How the bandwidth is measured: a buffer several times the last-level cache, read for a while with each number of threads.
const (
	boundsBuffer = 256 << 20
	boundsTime   = 100 * time.Millisecond
)

// doubtOfBandwidth is by how much a host may be faster than it was in that while: our choice. A bound that is too low would leave
// out a value that is the best; one that is too high costs a process.
const doubtOfBandwidth = 1.25

// densest is how many ternary weights a byte holds at the most, in whole trits (5; 3^5 = 243).
const densest = 5

// bound measures what bounds the engine on this host.
func (r *engineRun) bound(ctx context.Context) EngineBounds {
	b := EngineBounds{Cores: r.cores}
	m, err := r.readable(ctx)
	if err == nil {
		b.WeightBytes = m.TernaryWeights() / densest
		b.ReadBandwidth, err = readBandwidth(ctx, r.host, r.cores)
	}
	if err != nil {
		b.Note = "decoding has no bound: " + err.Error()
	}
	if !unmappedFits(r.model, r.host) {
		r.warn(fmt.Sprintf("the model of %d bytes does not fit into %d bytes of memory: it is read from the disk again and again", r.model.bytes, r.host.Memory.LimitBytes))
	}
	return b
}

// readable is the model, if decoding it here is bounded by reading its weights from memory.
func (r *engineRun) readable(ctx context.Context) (model.Model, error) {
	if r.asked.Engine == Exec || r.asked.Generate == 0 {
		return model.Model{}, errors.New("nothing is decoded")
	}
	if r.tuner.opt.Host != nil {
		return model.Model{}, errors.New("the host is described and not this one")
	}
	if found := r.tuner.survey(ctx); len(found.GPUs) > 0 {
		return model.Model{}, errors.New("a GPU may hold the weights")
	}
	m, err := model.Load(r.model.path)
	if err != nil {
		return m, err
	}
	if cache := uint64(r.host.CPU.L3.Bytes) * uint64(max(1, r.host.CPU.L3.Instances)); m.TernaryWeights()/densest < 4*cache {
		return m, errors.New("caches hold a good part of the weights")
	}
	return m, nil
}

// readBandwidth is how fast a host reads memory, by threads: with all and by halves.
func readBandwidth(ctx context.Context, host probe.Host, cores int) (map[int]float64, error) {
	cores = min(cores, len(host.CPU.CPUs))
	buffer, err := kernels.Alloc(int(min(max(boundsBuffer, 4*uint64(host.CPU.L3.Bytes)*uint64(max(1, host.CPU.L3.Instances))), host.Memory.AvailableBytes/4)))
	if err != nil {
		return nil, err
	}
	defer buffer.Free()
	for i := 0; i < len(buffer.Bytes); i += 4096 {
		buffer.Bytes[i] = byte(i >> 12) // untouched pages would all be one page of zeros
	}
	found := map[int]float64{}
	for n := cores; n >= 1; n /= 2 {
		if found[n], err = probe.Bandwidth(ctx, kernels.ReadLoop(host.CPU.Features), buffer.Bytes, host.CPU.CPUs[:n], boundsTime); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// Decode is how many tokens a second so many threads can decode at the most; 0 unknown.
func (b EngineBounds) Decode(threads int) float64 {
	for _, n := range slices.Sorted(maps.Keys(b.ReadBandwidth)) {
		if n >= threads && b.WeightBytes > 0 {
			return doubtOfBandwidth * b.ReadBandwidth[n] / float64(b.WeightBytes)
		}
	}
	return 0
}

// ceiling is what the search is told of the bounds.
func (b EngineBounds) ceiling(regime, knob, value string) float64 {
	threads, err := strconv.Atoi(value)
	if regime != engine.Decode || knob != "threads" || err != nil {
		return 0
	}
	return b.Decode(threads)
}
