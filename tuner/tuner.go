package tuner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/driver"
	"github.com/bitnet-autotune/bitnet-autotune/history"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/probe/gpu"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/device"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

// Options are how a Tuner is opened. The zero value works: it keeps nothing beyond the process.
type Options struct {
	// Store is the state directory. If it is empty, plans come from facts alone and Tune keeps its results in memory.
	Store string
	// Prior is a file of learned configs that ships with an image or a site (history.ReadPrior). They answer where the
	// store has nothing better, and are never written. If it is empty or absent, there are none. It is read once.
	Prior string
	// Mode is how much it may do of its own accord; "" = ModeTune. Frozen are the hashes of the configs that ModeFrozen allows.
	Mode   Mode
	Frozen []string
	// Fleet is where hosts share what they learned. If nil, this one keeps it to itself. Plan never asks it.
	Fleet Fleet
	// CUDA opens the driver of this host's GPUs; it is called at most once, and only where a GPU is asked for or something was
	// learned on one. If nil, the driver of this machine.
	CUDA func() (*driver.Driver, error)
	// Host is the machine to answer for. If nil, the machine this runs on is probed at the first call.
	Host *probe.Host
	// Device turns facts into an answer where nothing was learned: its constants and overrides. What it may run and what was
	// measured, a Tuner knows itself.
	Device device.Options
	// Context is how many tokens of a sequence there must be room for, where nothing was learned. If 0, device's default.
	Context int
	// GPUs looks for GPUs, for what Plan says of them and for what makes hosts with an engine alike. If nil, nobody does.
	GPUs func(context.Context) gpu.Survey
	// Background says when Background may measure.
	Background BackgroundOptions
	// Progress is told what Tune does, on Tune's own goroutine. If nil, nobody is.
	Progress func(Event)
	// Rig makes what Tune and Verify measure on. If nil, the live CPU with a timer that watches for throttling.
	Rig func(ctx context.Context, p Problem, seed uint64) (Rig, error)
	// Now is the clock of budgets. If nil, time.Now; a simulation has its own.
	Now func() time.Time
}

// Rig is what a run measures with: a target, and a timer that knows the target's clock.
type Rig struct {
	Target target.Target
	Timer  *measure.Timer
}

// Tuner finds, remembers and answers how models run best on this host. It is safe for concurrent use, and several
// processes may use one store at once.
type Tuner struct {
	opt    Options
	reader *history.Reader // nil without a store
	prior  prior

	simulated bool // Options.Now is not the real clock

	opened    time.Time
	measuring sync.Mutex // held by the one run that measures

	mu     sync.RWMutex
	closed bool
	host   *probe.Host // nil until it was probed
	gpus   gpus
	plans  map[string]*remembered
}

// remembered is a plan with the snapshot it was made of and the time at which that was last seen to be the newest.
type remembered struct {
	plan     Plan
	snapshot *history.Snapshot
	file     fileStamp    // the model's, if it is one
	late     bool         // a driver had not answered yet
	checked  atomic.Int64 // nanoseconds since the tuner was opened, by the clock that nobody sets
}

// fresh is how long a plan is served before the published snapshot is looked at again (a stat, 1 µs).
const fresh = time.Second

// Open returns a tuner over a store directory, which need not exist: nothing is created before there is something
// to keep.
func Open(opt Options) (*Tuner, error) {
	if err := opt.Device.Validate(); err != nil {
		return nil, err
	}
	if err := opt.settleMode(); err != nil {
		return nil, err
	}
	simulated := opt.Now != nil
	if !simulated {
		opt.Now = time.Now
	}
	if opt.CUDA == nil {
		opt.CUDA = func() (*driver.Driver, error) { return driver.Local(driver.Options{}) }
	}
	t := &Tuner{opt: opt, simulated: simulated, opened: time.Now(), host: opt.Host, plans: map[string]*remembered{}}
	if opt.Store != "" {
		t.reader = history.NewReader(opt.Store)
	}
	if opt.Rig == nil {
		t.opt.Rig = t.live
	}
	t.prior = readPrior(opt.Prior)
	return t, nil
}

// Close releases what the tuner holds. Plans handed out stay valid.
func (t *Tuner) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	if t.gpus.driver == nil {
		return nil
	}
	return t.gpus.driver.Close()
}

// Plan answers how a model (a preset's name or a GGUF file's path) should run on this host. It never measures, never
// opens the database, and never fails for want of data: with nothing learned it answers from facts, and a damaged
// snapshot is a reason in the plan, not an error. Errors are for a model that cannot be read.
func (t *Tuner) Plan(ctx context.Context, name string) (Plan, error) {
	t.mu.RLock()
	known := t.plans[name]
	t.mu.RUnlock()
	now := int64(time.Since(t.opened))
	if known != nil && now-known.checked.Load() < int64(fresh) {
		return known.plan, nil
	}
	snapshot, err := t.snapshot()
	if known != nil && err == nil && snapshot == known.snapshot && known.file.holds(name) && !known.late {
		known.checked.Store(now)
		return known.plan, nil
	}
	return t.planAnew(ctx, name, snapshot, err)
}

// planAnew makes a plan and remembers it. damage is why the snapshot could not be read, if it could not.
func (t *Tuner) planAnew(ctx context.Context, name string, snapshot *history.Snapshot, damage error) (Plan, error) {
	stamp := stampOf(name) // before it is read: who writes it meanwhile has it read again
	p, err := t.problem(ctx, name)
	if err != nil {
		return Plan{}, err
	}
	p, note, late := t.answering(ctx, p, snapshot)
	made := &remembered{plan: p.plan(snapshot), snapshot: snapshot, file: stamp, late: late}
	if err := t.thawed(made.plan); err != nil {
		return Plan{}, err
	}
	made.plan.Reason += note
	if damage != nil {
		made.plan.Reason += "; the learned configs could not be read: " + damage.Error()
	}
	if t.prior.err != nil {
		made.plan.Reason += "; the site prior could not be read: " + t.prior.err.Error()
	}
	made.checked.Store(int64(time.Since(t.opened)))
	t.mu.Lock()
	t.plans[name] = made
	t.mu.Unlock()
	return made.plan, nil
}

// fileStamp tells a file from one that has taken its place; zero for what is no file, such as a preset.
type fileStamp struct {
	bytes    int64
	modified time.Time
}

func stampOf(name string) fileStamp {
	info, err := os.Stat(name)
	if err != nil {
		return fileStamp{}
	}
	return fileStamp{info.Size(), info.ModTime()}
}

// holds reports whether a file is the one that it was. One that is gone now counts: a service may have it open.
func (f fileStamp) holds(name string) bool {
	now := stampOf(name)
	return now == f || now == fileStamp{}
}

// problem is the question that Plan answers for a model: this host, the CPU, any objective.
func (t *Tuner) problem(ctx context.Context, name string) (Problem, error) {
	if err := ctx.Err(); err != nil {
		return Problem{}, err
	}
	m, err := model.Load(name)
	if err != nil {
		return Problem{}, err
	}
	if err := m.Tunable(); err != nil {
		return Problem{}, err
	}
	host, err := t.probe(ctx)
	if err != nil {
		return Problem{}, err
	}
	p := Problem{Host: host, Model: m, Target: targetCPU, Objective: ObjectiveMixed, prior: t.prior, device: t.opt.Device, context: t.opt.Context, gpus: t.survey(ctx)}
	snapshot, err := t.snapshot()
	if err != nil {
		snapshot = nil // who asks for what was learned is told
	}
	if t.opt.Mode == ModeOff {
		p.unused, p.prior = unusedInOff, prior{}
	}
	return p.under(snapshot), nil
}

// survey is what is known of the GPUs now.
func (t *Tuner) survey(ctx context.Context) gpu.Survey {
	if t.opt.GPUs == nil {
		return gpu.Survey{Note: "nobody looked for one"}
	}
	return t.opt.GPUs(ctx)
}

// Fingerprint is that of this host, under which the history has what was measured on its CPU. The fingerprint of a plan that
// runs on a card has the card in it.
func (t *Tuner) Fingerprint(ctx context.Context) (string, error) {
	host, err := t.probe(ctx)
	if err != nil {
		return "", err
	}
	return host.Fingerprint(), nil
}

// probe returns the facts about this host. They are read once: affinity must not be read while a run has pinned threads.
func (t *Tuner) probe(ctx context.Context) (probe.Host, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.host != nil {
		return *t.host, nil
	}
	host, err := probe.Local(ctx)
	if err == nil {
		t.host = &host
	}
	return host, err
}

// snapshot reads what was published; nil without error where nothing was.
func (t *Tuner) snapshot() (*history.Snapshot, error) {
	if t.reader == nil {
		return nil, nil
	}
	s, err := t.reader.Load()
	if errors.Is(err, history.ErrNoSnapshot) {
		return nil, nil
	}
	return s, err
}

// forget drops the remembered plans, so that the next call sees what was just published.
func (t *Tuner) forget() {
	t.mu.Lock()
	clear(t.plans)
	t.mu.Unlock()
}

// openStore opens the history for writing. A damaged database is repaired, and the second result says so.
func (t *Tuner) openStore(ctx context.Context) (store *history.Store, note string, err error) {
	if t.opt.Store == "" {
		return nil, "", nil
	}
	ours := t.isOurs()
	store, err = history.Open(t.opt.Store, history.Options{})
	if errors.Is(err, history.ErrCorrupt) && store != nil {
		if !ours {
			return nil, "", fmt.Errorf("%w: nothing else in %s is ours, so the file may be another program's: name another --store, or move it away", err, t.opt.Store)
		}
		damage := err
		done, err := store.Repair(ctx)
		if err != nil {
			return nil, "", err
		}
		return store, fmt.Sprintf("%v; %s", damage, done), nil
	}
	return store, "", err
}

// isOurs reports whether a directory shows that this program has used it before.
func (t *Tuner) isOurs() bool {
	if _, err := os.Stat(filepath.Join(t.opt.Store, lockName)); err == nil {
		return true
	}
	_, err := history.ReadSnapshot(t.opt.Store)
	return !errors.Is(err, history.ErrNoSnapshot)
}

// readStore opens the history for reading; nil where there is none.
func (t *Tuner) readStore() (*history.Store, error) {
	if t.opt.Store == "" {
		return nil, nil
	}
	store, err := history.Open(t.opt.Store, history.Options{ReadOnly: true})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return store, err
}

// countRecords counts the measurements kept for a problem, without what sessions keep; 0 where there is no store.
func (t *Tuner) countRecords(ctx context.Context, p Problem) (int, error) {
	store, err := t.readStore()
	if store == nil {
		return 0, err
	}
	n := 0
	err = store.Records(ctx, history.Filter{Host: p.fingerprint(), Model: p.Model.Fingerprint(), Target: p.Target},
		func(r history.Record) error {
			if !strings.HasPrefix(r.Regime, sessionPrefix) {
				n++
			}
			return nil
		})
	return n, err
}

// liveSample is the least time of a sample on the live CPU, several layers of a decode pass: as long as the tick in which
// the kernel counts stolen time.
const liveSample = 10 * time.Millisecond

// live is the rig of this machine for a problem's target.
func (t *Tuner) live(ctx context.Context, p Problem, seed uint64) (Rig, error) {
	if p.Target == targetCUDA {
		return t.liveCUDA(ctx, p, seed)
	}
	return liveCPU(ctx, p, seed)
}

// liveCUDA is the rig of a GPU. Its samples are short, as the device's own clock takes them and nothing interrupts it.
func (t *Tuner) liveCUDA(ctx context.Context, p Problem, seed uint64) (Rig, error) {
	device, err := t.device(ctx, p.Card.UUID)
	if err != nil {
		return Rig{}, err
	}
	cuda, err := target.NewCUDA(t.gpus.driver, device, *p.Card, p.Model, target.CUDAOptions{Layouts: p.held(), Seed: seed})
	if err != nil {
		return Rig{}, err
	}
	return Rig{Target: cuda, Timer: &measure.Timer{MinSample: cudaSample, Watch: measure.Local(), Rand: rand.NewPCG(seed, seed)}}, nil
}

// cudaSample is the least time of a sample on a GPU: some thousand times what its clock resolves.
const cudaSample = 2 * time.Millisecond

// liveCPU is the rig of this machine.
func liveCPU(ctx context.Context, p Problem, seed uint64) (Rig, error) {
	shelf := target.NewShelf(p.Host, p.Model, p.held(), target.CPUOptions{Seed: seed, Least: measure.PacerOf(ctx) != nil})
	if _, err := shelf.Hold(ctx, DefaultLayout); err != nil {
		return Rig{}, err
	}
	return Rig{Target: shelf, Timer: &measure.Timer{MinSample: liveSample, Watch: measure.Local(), Rand: rand.NewPCG(seed, seed)}}, nil
}
