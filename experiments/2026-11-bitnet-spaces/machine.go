package main

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/bandit"
	"github.com/bitnet-autotune/bitnet-autotune/experiments/replay"
	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

// machine is a host of the model: what limits the ternary matmuls on it, in numbers. It is a model, not a measurement. It
// says how time goes with threads (cores, SMT siblings, nodes, a quota) and what shape the search then has before it; it
// predicts no speed.
type machine struct {
	name            string
	cores, nodes    int     // physical cores of a node, nodes
	smt             int     // threads of a core
	efficient       int     // how many of the cores are efficiency cores, the last ones
	slow            float64 // speed of an efficiency core over another's
	clock           float64 // GHz under vector load
	core            float64 // GB/s that one core reads at the most
	node            float64 // GB/s that all cores read from the memory of their node
	link            float64 // GB/s that a node reads from the memory of the other
	quota           float64 // CPUs of a quota that the probe does not see; 0 = none
	features        probe.Feature
	portable        speed         // of portable kernels; if 0, what they are
	barrier, signal time.Duration // of a fan-out to one worker, and for each further one
}

// host is what the probe would tell of the machine.
func (m machine) host() probe.Host {
	threads, physical := m.cores*m.nodes*m.smt, m.cores*m.nodes
	if m.efficient > 0 {
		threads = (m.cores-m.efficient)*m.smt + m.efficient
	}
	cpus := make([]int, threads)
	for i := range cpus {
		cpus[i] = i
	}
	return probe.Host{
		OS: "linux", Arch: "amd64",
		CPU: probe.CPU{
			Model: m.name + " (model)", PhysicalCores: physical, LogicalCores: threads, PresentCPUs: threads, ThreadsPerCore: m.smt,
			PerformanceCores: physical - m.efficient, EfficiencyCores: m.efficient, NUMANodes: m.nodes,
			UsableCores: threads, UsablePhysical: physical, CPUs: cpus, Features: m.features,
		},
		Memory: probe.Memory{TotalBytes: 256 << 30, AvailableBytes: 192 << 30, LimitBytes: 256 << 30},
	}
}

// worker is where a thread runs: threads go to one CPU of each core first, node by node, then to the siblings, as
// probe.CPU.CPUs has them.
type worker struct {
	node    int
	speed   float64 // arithmetic, over that of a whole fast core
	sharing float64 // how much of its core's reads it gets
}

// pairSpeed is what a core does with both threads busy over what it does with one. Assumed: vector units are busy with
// one.
const pairSpeed = 1.1

func (m machine) worker(i, threads int) worker {
	physical := m.cores * m.nodes
	w := worker{node: i % physical / m.cores, speed: 1, sharing: 1}
	if m.efficient > 0 && i < physical && i >= physical-m.efficient {
		w.speed = m.slow
		return w
	}
	if i >= physical || i+physical < threads { // the sibling is busy too
		w.speed, w.sharing = pairSpeed/2, 0.5
	}
	return w
}

// remote is the part of rows [from, to) of n that lies on another node than that of the worker: a share of rows lies where
// the worker of it in a pool of all threads runs, which touches it first.
func (m machine) remote(from, to, n, node int) float64 {
	if m.nodes == 1 || to <= from {
		return 0
	}
	pieces, here := m.nodes*m.smt, 0.0
	for piece := range pieces {
		if piece%m.nodes == node {
			low, high := float64(n*piece)/float64(pieces), float64(n*(piece+1))/float64(pieces)
			here += max(0, min(high, float64(to))-max(low, float64(from)))
		}
	}
	return 1 - here/float64(to-from)
}

// speed is how fast a kernel is on one core: weights a cycle for one token, multiply-adds a cycle for many.
type speed struct{ one, many float64 }

// speeds are those of the kernels out of a cache. i2s/avx512vnni and t5 for one token are 482 and 298 Gw/s on two threads of a Zen 5 at about 4 GHz; for many tokens
// 1,060 and 1,045 GOPS on one, and AVX2 400. tl2 and t5f are so much slower as experiments/2026-11-cpu-kernel-portfolio
// found in the L2 and with 64 tokens. AVX2 for one token, AVX-VNNI and generic are assumed.
var speeds = map[string]speed{
	"mul/i2s/avx512vnni": {60, 125},
	"mul/t5/avx512vbmi":  {37, 123},
	"mul/tl2/avx512vnni": {37, 116},
	"mul/t5f/avx512vnni": {31, 90},
	"mul/i2s/avxvnni":    {40, 62},
	"mul/i2s/avx2":       {30, 47},
	"mul/tl2/avx2":       {28, 44},
}

// portable is the speed of the portable kernels: assumed.
var portable = speed{0.5, 0.5}

// cost returns ns per token.
func (m machine) cost(model model.Model, a target.Arm) float64 {
	total := 0.0
	for _, shape := range model.Shapes {
		total += float64(shape.Count) * m.matmul(shape, a)
	}
	if m.quota > 0 { // all threads stop when the quota is used up, until the next period
		total *= max(1, float64(a.Threads)/m.quota)
	}
	return total / float64(a.Batch)
}

// matmul returns the ns of one matmul with all its tokens.
func (m machine) matmul(shape model.Shape, a target.Arm) float64 {
	format, _ := kernels.FormatOf(a.Layout)
	bytesPerRow := float64(format.Bytes(shape.N, shape.K)) / float64(shape.N)
	rate := m.rate(a)
	var slowest, speed float64
	read, crossing := make([]float64, m.nodes), make([]float64, m.nodes) // bytes from, and into, a node
	for i := range a.Threads {
		w := m.worker(i, a.Threads)
		rows := kernels.Share(shape.N, a.Threads, i)
		remote := m.remote(rows.From, rows.To, shape.N, w.node)
		bytes := bytesPerRow * float64(rows.To-rows.From)
		if a.Blocking.ChunkRows > 0 { // whoever is free takes the next chunk
			remote = 1 - 1/float64(m.nodes)
			bytes = bytesPerRow * float64(shape.N) / float64(a.Threads)
		}
		for node := range read {
			if node == w.node {
				read[node] += bytes * (1 - remote)
				crossing[node] += bytes * remote
			} else {
				read[node] += bytes * remote / float64(m.nodes-1)
			}
		}
		speed += w.speed
		slowest = max(slowest, m.share(float64(rows.To-rows.From), bytesPerRow, remote, rate, w, shape, a))
	}
	if a.Blocking.ChunkRows > 0 {
		slowest = m.dynamic(speed, bytesPerRow, rate, shape, a)
	}
	memory := 0.0
	for node := range read {
		memory = max(memory, read[node]/m.node, crossing[node]/max(m.link, 1))
	}
	return soft(slowest, memory) + float64(m.barrier) + float64(m.signal)*float64(a.Threads-1)
}

// share returns the ns that a worker needs for its rows, whatever the others do.
func (m machine) share(rows, bytesPerRow, remote, rate float64, w worker, shape model.Shape, a target.Arm) float64 {
	arithmetic := rows * float64(shape.K*a.Batch) / (rate * w.speed)
	// A core has half as many bytes under way from another node in the same time, as they take longer. Assumed from the
	// idle latencies of the two Xeons below, 1.6 to 1.7.
	const farther = 0.65
	reading := rows * bytesPerRow * (1 + remote*farther) / (m.core * w.sharing * w.speedOfReads() * fetched(a))
	return soft(arithmetic, reading)
}

// speedOfReads: a slow core also reads slower, half as much so. Assumed.
func (w worker) speedOfReads() float64 {
	if w.sharing < 1 {
		return 1
	}
	return (1 + w.speed) / 2
}

// dynamic returns the ns of a matmul whose chunks go to whoever is free: all end together but for a chunk.
func (m machine) dynamic(speed, bytesPerRow, rate float64, shape model.Shape, a target.Arm) float64 {
	// Chunks break the linear stream of memory: 123 to 175 µs where shares take 100 (two threads of a Zen 5).
	const broken = 0.75
	chunks := math.Ceil(float64(shape.N) / float64(a.Blocking.ChunkRows))
	workers := min(speed, chunks)
	rows := float64(shape.N)
	arithmetic := rows * float64(shape.K*a.Batch) / (rate * workers)
	reading := rows * bytesPerRow / (m.core * min(chunks, float64(m.cores*m.nodes), float64(a.Threads)) * broken * fetched(a))
	last := 0.5 / max(1, chunks/workers) // half a chunk too long, as a part of the whole
	return soft(arithmetic, reading) * (1 + last)
}

// rate returns the weights times tokens a nanosecond that one core does in a cache.
func (m machine) rate(a target.Arm) float64 {
	s, ok := speeds[a.Kernel]
	if !ok {
		s = cmp.Or(m.portable, portable)
	}
	tokens := max(1, a.Blocking.Tile.Tokens)
	switch {
	case a.Batch == 1:
		return s.one * m.clock * latency(a.Blocking.Tile)
	case tokens == 1:
		return s.many * m.clock
	}
	// The last tile of a batch has as much work as a full one; and a weight that was loaded and unpacked is used for the
	// tokens of the tile, which costs as much as a third of a token: assumed, so that 8 tokens reach 0.96.
	full := float64(a.Batch) / float64((a.Batch+tokens-1)/tokens*tokens)
	return s.many * m.clock * latency(a.Blocking.Tile) * full * float64(tokens) / (float64(tokens) + 0.33)
}

// latency is what is left of a kernel's speed where its tile has too few accumulators to hide the multiplier's latency:
// 0.6 with one group of rows and one token, all from four on.
func latency(tile kernels.Tile) float64 {
	accumulators := max(1, tile.Groups) * max(1, tile.Tokens)
	return min(1, 0.47+0.13*float64(accumulators))
}

// fetched is what prefetching is worth to a core that reads from memory: 8 to 16 % from 4 KiB on, hardly anything below,
// flat to 16 KiB.
func fetched(a target.Arm) float64 {
	switch d := a.Blocking.PrefetchBytes; {
	case strings.HasSuffix(a.Kernel, "/generic"):
		return 1
	case d == 0:
		return 0.89
	case d == 8<<10:
		return 1
	}
	return 0.99
}

// soft is the time where two things overlap: the longer one, and more where they are alike. The order of the norm is
// assumed; with 4, two equal times make 1.19 of one.
func soft(a, b float64) float64 { return math.Pow(math.Pow(a, 4)+math.Pow(b, 4), 0.25) }

// How a block of the model is spoilt: a normal error, and one block in 16 that is much slower. Assumed, as measuretest has
// its shared host.
const (
	blockNoise = 0.02
	badBlock   = 16
	spoilt     = 1.3
)

// field is the space of a model and regime on the machine, enumerated when it is first needed.
func (m machine) field(model model.Model, regime target.Regime) field {
	live := sync.OnceValues(func() (replay.Live, error) { return m.live(model, regime) })
	return field{fmt.Sprintf("model of %s: %s/%s", m.name, model.Name, regime), func(uint64) (replay.Live, error) { return live() }}
}

func (m machine) live(model model.Model, regime target.Regime) (replay.Live, error) {
	p := problemOf(m.host(), model)
	space, err := p.Space(regime)
	if err != nil {
		return replay.Live{}, err
	}
	starts := p.Starts(space, regime)
	l := replay.Live{Name: m.name, Space: space, Starts: starts}
	l.Yardstick, _ = space.Index(starts[0])
	l.Default, _ = space.Index(starts[1])
	yardstick := m.cost(p.Model, p.ArmAt(space, starts[0]))
	for i := range space.Size() {
		l.Truth = append(l.Truth, m.cost(p.Model, p.ArmAt(space, space.At(i)))/yardstick)
		if l.Truth[i] < l.Truth[l.Best] {
			l.Best = i
		}
	}
	l.Measure = func(i int, first bool, dice *rand.Rand) bandit.Trial {
		cost := l.Truth[i] * math.Exp(blockNoise*dice.NormFloat64())
		if dice.IntN(badBlock) == 0 {
			cost *= spoilt
		}
		took := 40 * time.Millisecond // four samples of at least 10 ms
		if first {
			took += 50 * time.Millisecond
		}
		return bandit.Trial{Point: space.At(i), Costs: []float64{cost}, Elapsed: took}
	}
	return l, nil
}
