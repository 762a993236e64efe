package gpu

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"
)

// driver is a session whose answers the test decides.
type driver struct {
	mu     sync.Mutex
	asked  int
	err    error
	hold   chan struct{} // if not nil, answers wait for it
	closed int
}

func (d *driver) survey() Survey  { return Survey{GPUs: []GPU{{UUID: "GPU-0"}}} }
func (d *driver) uuids() []string { return []string{"GPU-0", "GPU-1"} }

func (d *driver) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed++
}

func (d *driver) memory(string) (Memory, float64, error) {
	d.mu.Lock()
	d.asked++
	asked, err, hold := d.asked, d.err, d.hold
	d.mu.Unlock()
	if hold != nil {
		<-hold
	}
	if err != nil {
		return Memory{}, 0, err
	}
	return Memory{TotalBytes: 100, FreeBytes: uint64(asked)}, 0.5, nil
}

func (d *driver) set(err error, hold chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err, d.hold = err, hold
}

func (d *driver) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.asked
}

// clock is a time that the test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func reader(d *driver, opt ReaderOptions) (*Reader, *clock) {
	c := &clock{now: time.Unix(1e9, 0)}
	r := newReader(d, opt)
	r.now = c.read
	return r, c
}

// R1.5: answers are cached for the stated time, and the cache is dropped on demand, for each device apart.
func TestCache(t *testing.T) {
	d := new(driver)
	r, now := reader(d, ReaderOptions{Deadline: time.Minute})
	want := func(what string, uuid string, free uint64, age time.Duration) {
		t.Helper()
		got, err := r.Memory(uuid)
		if err != nil || got.FreeBytes != free || got.Age != age || got.Stale {
			t.Errorf("%s: %+v, %v; want %d free, %v old", what, got, err, free, age)
		}
	}
	want("first", "GPU-0", 1, 0)
	now.advance(Lifetime)
	want("within the lifetime", "GPU-0", 1, Lifetime)
	want("another device", "GPU-1", 2, 0)
	now.advance(1)
	want("older", "GPU-0", 3, 0)
	r.Drop()
	want("dropped", "GPU-0", 4, 0)
	if _, err := r.Memory("GPU-9"); !errors.Is(err, ErrUnknownDevice) || !strings.Contains(err.Error(), `["GPU-0" "GPU-1"]`) {
		t.Errorf("unknown device: %v", err)
	}
}

// R1.4, R1.5: a failure is told, drops the cache, and leaves the last answer marked as stale.
func TestFailure(t *testing.T) {
	d := new(driver)
	r, now := reader(d, ReaderOptions{Deadline: time.Minute})
	if _, err := r.Memory("GPU-0"); err != nil {
		t.Fatal(err)
	}
	d.set(&QueryError{UUID: "GPU-0", Code: 15, Text: "GPU is lost"}, nil)
	now.advance(time.Second)
	for range 2 {
		got, err := r.Memory("GPU-0")
		var query *QueryError
		if !errors.As(err, &query) || query.Code != 15 {
			t.Errorf("error %v", err)
		}
		if !got.Stale || got.FreeBytes != 1 || got.Age != time.Second {
			t.Errorf("%+v, want the last answer, stale", got)
		}
	}
	if d.count() != 3 {
		t.Errorf("%d questions, want one for every call after the failure", d.count())
	}
	d.set(nil, nil)
	if got, err := r.Memory("GPU-0"); err != nil || got.Stale || got.FreeBytes != 4 {
		t.Errorf("after recovery: %+v, %v", got, err)
	}
}

// A driver that is stuck costs its caller the deadline, and gets no second question meanwhile.
func TestStuckDriver(t *testing.T) {
	d := new(driver)
	r, now := reader(d, ReaderOptions{Deadline: time.Millisecond})
	for { // the first answer, however slow this machine is
		if _, err := r.Memory("GPU-0"); err == nil {
			break
		}
	}
	before := d.count()
	hold := make(chan struct{})
	d.set(nil, hold)
	now.advance(time.Second)
	for range 3 {
		got, err := r.Memory("GPU-0")
		if !errors.Is(err, ErrSlow) || !got.Stale || got.FreeBytes == 0 {
			t.Errorf("%+v, %v; want the last answer, stale, and %v", got, err, ErrSlow)
		}
	}
	if d.count() > before+1 {
		t.Errorf("%d questions to a driver that is stuck", d.count()-before)
	}
	r.Close()
	if d.closedTimes() != 0 {
		t.Error("the connection was closed under a question")
	}
	close(hold)
	for d.closedTimes() == 0 {
		time.Sleep(time.Millisecond)
	}
	if _, err := r.Memory("GPU-1"); err == nil {
		t.Error("a closed reader answers")
	}
}

func (d *driver) closedTimes() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closed
}

// What was asked before a Drop is not believed after it.
func TestDropWhileAsking(t *testing.T) {
	hold := make(chan struct{})
	d := &driver{hold: hold}
	r, _ := reader(d, ReaderOptions{Deadline: time.Minute})
	answered := make(chan Reading)
	go func() {
		got, _ := r.Memory("GPU-0")
		answered <- got
	}()
	for d.count() == 0 {
		time.Sleep(time.Millisecond)
	}
	r.Drop()
	close(hold)
	if got := <-answered; !got.Stale {
		t.Errorf("%+v, want it stale: it was asked before the Drop", got)
	}
	if got, err := r.Memory("GPU-0"); err != nil || got.Stale || got.FreeBytes != 2 {
		t.Errorf("%+v, %v, want a new answer", got, err)
	}
}

// NVML that never answers does not hold the program.
func TestSilentDriver(t *testing.T) {
	never := func() (session, error) { select {} }
	if got := local(context.Background(), Options{Timeout: time.Millisecond}, never); !strings.Contains(got.Note, "did not answer within 1ms") || got.GPUs == nil {
		t.Errorf("%+v", got)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if got := local(ctx, Options{}, never); !strings.Contains(got.Note, context.Canceled.Error()) {
		t.Errorf("%+v", got)
	}
}

// Of looks at a driver that hangs, one waits for it and the others give up.
func TestOneLookAtATime(t *testing.T) {
	looking, entered, answer := make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	first := make(chan session)
	go func() {
		s, _ := alone(context.Background(), looking, func() (session, error) { close(entered); <-answer; return new(driver), nil })
		first <- s
	}()
	<-entered
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := alone(ctx, looking, func() (session, error) { t.Error("asked beside another"); return new(driver), nil }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	close(answer)
	(<-first).close()
	if _, err := alone(context.Background(), looking, func() (session, error) { return nil, errors.New("no driver") }); err == nil || err.Error() != "no driver" {
		t.Error(err)
	}
	s, err := alone(context.Background(), looking, func() (session, error) { return new(driver), nil })
	if err != nil {
		t.Fatal(err)
	}
	s.close()
}

func TestDisabled(t *testing.T) {
	t.Setenv("BITNET_AUTOTUNE_DISABLE", "avx512, cuda")
	connect := func() (session, error) { return new(driver), nil }
	if got := local(context.Background(), Options{}, connect); len(got.GPUs) != 0 || !strings.Contains(got.Note, "BITNET_AUTOTUNE_DISABLE") {
		t.Errorf("%+v", got)
	}
	t.Setenv("BITNET_AUTOTUNE_DISABLE", "avx512")
	if got := local(context.Background(), Options{}, connect); len(got.GPUs) != 1 || got.Note != "" {
		t.Errorf("%+v", got)
	}
}

// R0.31, R1.52: a host without a driver, and a build that cannot ask, have no GPUs and a reason.
func TestThisHost(t *testing.T) {
	survey := Local(context.Background(), Options{Timeout: time.Minute})
	if len(survey.GPUs) > 0 {
		t.Skipf("NOT TESTED: a host without GPUs: this one has %d", len(survey.GPUs))
	}
	if survey.Note == "" || survey.GPUs == nil {
		t.Errorf("%+v: want a note and an empty list", survey)
	}
	if _, err := NewReader(ReaderOptions{}); err == nil || !strings.Contains(err.Error(), survey.Note) {
		t.Errorf("a reader says %v, the survey %q", err, survey.Note)
	}
}
