package fleet

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bitnet-autotune/bitnet-autotune/history"
)

const (
	hostA  = "00112233445566778899aabbccddeeff"
	modelA = "8d1f0c0a6f2f4be0b5a3c7d9e1f20314"
	modelB = "0a6f2f4be0b5a3c7d9e1f203148d1f0c"
	table  = "27b1f5a3c4d5e6f7"
)

// patience is how long a request of a test may take: nothing here is about speed, and the machine may be busy.
const patience = 20 * time.Second

var epoch = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// kind is the identity of a host of class n.
func kind(n int) map[string]string {
	return map[string]string{"os": "linux", "arch": "amd64", "cpu_model": fmt.Sprintf("Simulated CPU %d", n), "cpu_stepping": "7", "memory_class_bytes": "16"}
}

func keyOf(class int) Key {
	return Key{Class: Class(kind(class)), Model: modelA, Target: "cpu", Objective: "mixed", Signature: table}
}

// entryOf is an entry of a class with so many blocks behind a config of so many threads.
func entryOf(class, threads, blocks int) Entry {
	return Entry{
		Key: keyOf(class), Host: hostA, Identity: kind(class), Config: fmt.Appendf(nil, `{"threads":%d}`, threads),
		Blocks: blocks, Evaluations: 40, Ratio: Ratio{1.5, 1.4, 1.6}, MeasuredAt: epoch, Contributors: []string{},
	}
}

// Most of what these tests do is wait, for etcd, for disks and for leases to fall.
func TestMain(m *testing.M) {
	flag.Parse()
	set := func(name string) string { return flag.Lookup(name).Value.String() }
	if set("test.parallel") == fmt.Sprint(runtime.GOMAXPROCS(0)) && set("test.fuzz") == "" {
		flag.Set("test.parallel", "8")
	}
	os.Exit(m.Run())
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// open opens a fleet that is closed after the test.
func open(t testing.TB, opt Options) *Fleet {
	t.Helper()
	if opt.Timeout == 0 {
		opt.Timeout = patience
	}
	if opt.Poll == 0 {
		opt.Poll = 50 * time.Millisecond
	}
	f, err := Open(t.Context(), opt)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

func push(t testing.TB, f *Fleet, e Entry) Outcome {
	t.Helper()
	outcome, err := f.Push(t.Context(), e)
	must(t, err)
	return outcome
}

// pull returns what is there for a class, and fails if anything is refused.
func pull(t testing.TB, f *Fleet, class int) []Entry {
	t.Helper()
	entries, report, err := f.Pull(t.Context(), Query{Class: Class(kind(class))})
	must(t, err)
	if len(report.Refused) > 0 {
		t.Fatalf("refused: %q", report.Refused)
	}
	return entries
}

// Every backend must behave alike.
func TestConformance(t *testing.T) {
	for name, place := range map[string]func(t *testing.T) string{
		"directory": func(t *testing.T) string { return "dir://" + t.TempDir() },
		"etcd":      func(t *testing.T) string { return startEtcd(t).url() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := place(t)
			for name, test := range map[string]func(t *testing.T, url string){
				"what is pushed is pulled":            testPushPull,
				"more evidence wins":                  testEvidence,
				"queries":                             testQueries,
				"builds of an engine lie apart":       testEngines,
				"unsound entries are left out":        testUnsound,
				"a newer format is not overwritten":   testNewer,
				"32 pushers at once":                  testPushers,
				"one holder at a time":                testOneHolder,
				"a claim falls when its holder dies":  testDeadHolder,
				"a lost claim is told":                testLostClaim,
				"who waits gets the entry":            testAwaitEntry,
				"who waits looks in the right order":  testAwaitBetween,
				"who waits is told when it is free":   testAwaitFree,
				"who waits gives up with its context": testAwaitContext,
			} {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					test(t, apart(t, url))
				})
			}
		})
	}
}

// apart is a place of its own within url.
func apart(t *testing.T, url string) string {
	name := strings.Map(func(r rune) rune {
		if r < 'a' || r > 'z' {
			return '-'
		}
		return r
	}, filepath.Base(t.Name()))
	if dir, ok := strings.CutPrefix(url, "dir://"); ok {
		must(t, os.Mkdir(filepath.Join(dir, name), 0o777))
	}
	return url + "/" + name
}

func testPushPull(t *testing.T, url string) {
	f := open(t, Options{URL: url, Contributor: "machine 1"})
	if got := pull(t, f, 1); got != nil {
		t.Errorf("before a push: %v", got)
	}
	e := entryOf(1, 4, 20)
	if got := push(t, f, e); got != Stored {
		t.Errorf("first push: %s, want %s", got, Stored)
	}
	want := e
	want.Generation, want.Contributors = 1, []string{mark("machine 1")}
	if diff := cmp.Diff([]Entry{want}, pull(t, f, 1)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got := push(t, f, e); got != Kept {
		t.Errorf("the same again: %s, want %s", got, Kept)
	}
	if got := push(t, open(t, Options{URL: url, Contributor: "machine 2"}), e); got != Merged {
		t.Errorf("from another host: %s, want %s", got, Merged)
	}
	if got := pull(t, f, 1); len(got) != 1 || got[0].Hosts() != 2 || got[0].Generation != 2 {
		t.Errorf("after two hosts: %v", got)
	}
	s, err := f.Status(t.Context())
	must(t, err)
	if diff := cmp.Diff(map[string]int{e.Class: 1}, s.Classes); diff != "" || s.Entries != 1 || len(s.Claims) != 0 || len(s.Warnings) != 0 {
		t.Errorf("status %+v\n%s", s, diff)
	}
}

func testEvidence(t *testing.T, url string) {
	f := open(t, Options{URL: url})
	for _, step := range []struct {
		threads, blocks int
		outcome         Outcome
		stands          int // threads
	}{{4, 20, Stored, 4}, {6, 19, Kept, 4}, {8, 21, Merged, 8}, {4, 20, Kept, 8}} {
		if got := push(t, f, entryOf(1, step.threads, step.blocks)); got != step.outcome {
			t.Errorf("%+v: %s", step, got)
		}
		if got, want := string(pull(t, f, 1)[0].Config), fmt.Sprintf(`{"threads":%d}`, step.stands); got != want {
			t.Errorf("%+v: %s stands, want %s", step, got, want)
		}
	}
}

// Two builds of an engine are two keys, whatever version they say they are of.
func testEngines(t *testing.T, url string) {
	f := open(t, Options{URL: url})
	push(t, f, entryOf(1, 4, 20))
	var want []Entry
	for _, program := range []string{"0123456789abcdef0123456789abcdef", "1123456789abcdef0123456789abcdef"} {
		e := entryOf(1, 4, 20)
		e.Target, e.Objective, e.Signature = "engine:llama-bench", "p512+n128", program
		e.Config = json.RawMessage(`{"build":"57a4d1/9999","engine":"llama-bench","plan":{"decode":{"threads":"4"},"prefill":null}}`)
		if got := push(t, f, e); got != Stored {
			t.Errorf("%s: %s, want %s", program, got, Stored)
		}
		e.Generation, e.Contributors = 1, []string{mark(hostA)}
		want = append(want, e)
	}
	got := slices.DeleteFunc(pull(t, f, 1), func(e Entry) bool { return e.Target == "cpu" })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	s, err := f.Status(t.Context())
	must(t, err)
	if diff := cmp.Diff(map[string]int{"cpu": 1, "engine:llama-bench": 2}, s.Targets); diff != "" {
		t.Errorf("status (-want +got)\n%s", diff)
	}
}

func testQueries(t *testing.T, url string) {
	f := open(t, Options{URL: url})
	var all []Entry
	for class := range 2 {
		for _, model := range []string{modelA, modelB} {
			for _, objective := range []string{"decode", "prefill", "mixed"} {
				e := entryOf(class, 2, 3)
				e.Model, e.Objective, e.Target = model, objective, "engine:llama.cpp@b1+x"
				all = append(all, e)
				push(t, f, e)
			}
		}
	}
	for name, q := range map[string]Query{
		"one model":       {all[0].Class, modelA, table},
		"every model":     {all[0].Class, "", table},
		"every signature": {all[0].Class, modelB, ""},
		"other signature": {all[0].Class, modelB, "27b1f5a3c4d5e6f8"},
		"other class":     {hostA, "", ""},
	} {
		got, report, err := f.Pull(t.Context(), q)
		must(t, err)
		want := []string{}
		for _, e := range all {
			if q.matches(e.Key) {
				want = append(want, e.path())
			}
		}
		slices.Sort(want)
		paths := []string{}
		for _, e := range got {
			paths = append(paths, e.path())
		}
		if diff := cmp.Diff(want, paths); diff != "" || len(report.Refused) > 0 || report.Read != len(want) {
			t.Errorf("%s: report %v (-want +got)\n%s", name, report, diff)
		}
	}
	if _, _, err := f.Pull(t.Context(), Query{Class: "../.."}); err == nil || !strings.Contains(err.Error(), "want 32 hex digits") {
		t.Errorf("a query that is none: %v", err)
	}
}

// unsound are documents that must not be returned, each made of a sound one.
var unsound = map[string]struct {
	spoil func(doc string) string
	want  string
}{
	"empty":              {func(string) string { return "" }, "no document"},
	"HTML":               {func(string) string { return "<html>" }, "no document"},
	"truncated":          {func(doc string) string { return doc[:len(doc)/2] }, "no document"},
	"a changed digit":    {func(doc string) string { return strings.Replace(doc, `"threads":4`, `"threads":5`, 1) }, "checksum"},
	"another checksum":   {func(doc string) string { return strings.Replace(doc, `"sha256":"`, `"sha256":"00`, 1) }, "checksum"},
	"a future format":    {func(doc string) string { return strings.Replace(doc, `"fleet":1`, `"fleet":2`, 1) }, "newer"},
	"no format":          {func(doc string) string { return strings.Replace(doc, `"fleet":1`, `"fleet":0`, 1) }, "format 0"},
	"huge":               {func(doc string) string { return strings.Repeat(doc, 2*maxEntryBytes/len(doc)) }, "bytes: want at most"},
	"of another key":     {resealed(`"objective":"mixed"`, `"objective":"decode"`), "lies at"},
	"of another class":   {resealed(`Simulated CPU 1`, `Simulated CPU 2`), "the identity is of class"},
	"a negative count":   {resealed(`"blocks":20`, `"blocks":-1`), "blocks -1"},
	"an absurd count":    {resealed(`"blocks":20`, `"blocks":999999999999`), "blocks 999999999999"},
	"a ratio inside out": {resealed(`"low":1.4`, `"low":1.7`), "want an estimate within its interval"},
	"an absurd ratio":    {resealed(`"high":1.6`, `"high":1e300`), "want an estimate within its interval"},
	"no config":          {resealed(`{"threads":4}`, `4`), "want a JSON object"},
	"an unknown field":   {resealed(`"blocks":20`, `"blocks":20,"command":"rm"`), "unknown field"},
	"an escape sequence": {resealed(`{"threads":4}`, `{"threads":"\u001b[2J"}`), "printable"},
	"a deep config":      {resealed(`{"threads":4}`, `{"a":`+strings.Repeat("[", 40)+strings.Repeat("]", 40)+`}`), "nests deeper"},
	"a bad contributor":  {resealed(`"contributors":[]`, `"contributors":["me"]`), "contributor"},
}

// resealed replaces text within an entry and makes the checksum anew, as somebody would who means it.
func resealed(old, replacement string) func(doc string) string {
	return func(doc string) string {
		_, entry, _ := strings.Cut(strings.TrimSuffix(doc, "}"), `"entry":`)
		changed := strings.Replace(entry, old, replacement, 1)
		if changed == entry {
			panic("nothing to replace: " + old)
		}
		return fmt.Sprintf(`{"fleet":1,"sha256":%q,"entry":%s}`, checksum([]byte(changed)), changed)
	}
}

func testUnsound(t *testing.T, url string) {
	f := open(t, Options{URL: url})
	sound := entryOf(1, 4, 20)
	sound.Model, sound.Contributors = modelB, []string{mark(hostA)}
	push(t, f, sound)
	for _, name := range slices.Sorted(maps.Keys(unsound)) { // the last is mended below, which one of a newer format is not
		bad, e := unsound[name], entryOf(1, 4, 20)
		doc, err := e.encode()
		must(t, err)
		there, err := f.backend.read(t.Context(), entryPath(e.Key))
		must(t, err)
		ok, err := f.backend.swap(t.Context(), entryPath(e.Key), there.revision, []byte(bad.spoil(string(doc))))
		if err != nil || !ok {
			t.Fatal(name, ok, err)
		}
		got, report, err := f.Pull(t.Context(), Query{Class: e.Class})
		must(t, err)
		if len(got) != 1 || got[0].Model != modelB {
			t.Errorf("%s: pulled %v", name, got)
		}
		if len(report.Refused) != 1 || !strings.Contains(report.Refused[0], bad.want) || strings.ContainsAny(report.Refused[0], "\n\x1b") || len(report.Refused[0]) > 700 {
			t.Errorf("%s: refused %q, want one line with %q", name, report.Refused, bad.want)
		}
	}
	// The next push mends it.
	e := entryOf(1, 4, 20)
	if got := push(t, f, e); got != Stored {
		t.Errorf("push over a damaged entry: %s, want %s", got, Stored)
	}
	if got := pull(t, f, 1); len(got) != 2 {
		t.Errorf("after the push: %v", got)
	}
	for n := range 2 * maxLines {
		stranger := strings.Replace(entryPath(e.Key), "/cpu/", fmt.Sprintf("/..%%2Fcpu%d\x1b[2J/", n), 1)
		if _, err := f.backend.swap(t.Context(), stranger, 0, []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	got, report, err := f.Pull(t.Context(), Query{Class: e.Class})
	if err != nil || len(got) != 2 || len(report.Refused) != maxLines+1 || !strings.Contains(report.Refused[0], "is no key") || strings.Contains(fmt.Sprint(report), "\x1b") {
		t.Errorf("with keys that are none: %v, %v, %v", got, report, err)
	}
	if s, err := f.Status(t.Context()); err != nil || s.Entries != 2 || len(s.Warnings) != maxLines+1 || strings.Contains(fmt.Sprint(s), "\x1b") {
		t.Errorf("status %+v, %v", s, err)
	}
}

func testNewer(t *testing.T, url string) {
	f := open(t, Options{URL: url})
	e := entryOf(1, 4, 20)
	if _, err := f.backend.swap(t.Context(), entryPath(e.Key), 0, []byte(`{"fleet":2,"what":"ever"}`)); err != nil {
		t.Fatal(err)
	}
	_, err := f.Push(t.Context(), e)
	if err == nil || !strings.Contains(err.Error(), "format 2 is newer than 1") {
		t.Errorf("push over a newer format: %v", err)
	}
	there, err := f.backend.read(t.Context(), entryPath(e.Key))
	must(t, err)
	if string(there.value) != `{"fleet":2,"what":"ever"}` {
		t.Errorf("the newer entry became %s", there.value)
	}
}

// 32 hosts that push to one key at the same time: whatever was acknowledged counts.
func testPushers(t *testing.T, url string) {
	const pushers, rounds = 32, 3
	outcomes := map[Outcome]int{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for n := range pushers {
		f := open(t, Options{URL: url, Contributor: fmt.Sprint("machine ", n)})
		wg.Go(func() {
			for round := range rounds {
				outcome, err := f.Push(t.Context(), entryOf(1, n+1, 100*round+n))
				if err != nil {
					t.Errorf("pusher %d: %v", n, err)
					return
				}
				mu.Lock()
				outcomes[outcome]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	got := pull(t, open(t, Options{URL: url}), 1)
	if len(got) != 1 {
		t.Fatalf("after %d pushers: %v", pushers, got)
	}
	if got[0].Hosts() != pushers || string(got[0].Config) != `{"threads":32}` || got[0].Blocks != 100*(rounds-1)+pushers-1 {
		t.Errorf("after %d pushers: %v", pushers, got)
	}
	// A directory may call kept what it has stored, when somebody has built on it before it could look again.
	if changes := outcomes[Stored] + outcomes[Merged]; outcomes[Stored] > 1 || int(got[0].Generation) < changes {
		t.Errorf("outcomes %v with generation %d: want at most one stored, and each change counted", outcomes, got[0].Generation)
	}
	t.Logf("%d pushers x %d pushes: %d stored, %d merged, %d kept, 0 lost", pushers, rounds, outcomes[Stored], outcomes[Merged], outcomes[Kept])
}

func testOneHolder(t *testing.T, url string) {
	ctx, k := t.Context(), keyOf(1)
	f, g := open(t, Options{URL: url}), open(t, Options{URL: url})
	first, err := f.Claim(ctx, k, "first", 10*time.Minute)
	must(t, err)
	if _, err := g.Claim(ctx, k, "second", 10*time.Minute); !isClaimedBy(err, "first") {
		t.Errorf("a second claim: %v", err)
	}
	if _, err := f.Claim(ctx, k, "first", 10*time.Minute); !isClaimedBy(err, "first") {
		t.Errorf("a second claim of the first: %v", err)
	}
	must(t, first.lease.renew(ctx))
	must(t, first.lease.renew(ctx))
	if _, err := g.Claim(ctx, k, "second", 10*time.Minute); !isClaimedBy(err, "first") {
		t.Errorf("a second claim after the first was renewed: %v", err)
	}
	other, err := g.Claim(ctx, keyOf(2), "second", 10*time.Minute)
	must(t, err)
	s, err := g.Status(ctx)
	must(t, err)
	slices.SortFunc(s.Claims, func(a, b Held) int { return strings.Compare(a.Holder, b.Holder) })
	if diff := cmp.Diff([]Held{{k, "first"}, {keyOf(2), "second"}}, s.Claims); diff != "" {
		t.Errorf("claims (-want +got)\n%s", diff)
	}
	must(t, other.Release(ctx))
	must(t, first.Release(ctx))
	must(t, first.Release(ctx))
	<-first.Done()
	second, err := g.Claim(ctx, k, "second", 10*time.Minute)
	must(t, err)
	must(t, second.Release(ctx))
	for name, bad := range map[string]func() error{
		"a holder with a line break": func() error { _, err := f.Claim(ctx, k, "a\nb", time.Minute); return err },
		"a life too short":           func() error { _, err := f.Claim(ctx, k, "a", time.Millisecond); return err },
		"a life too long":            func() error { _, err := f.Claim(ctx, k, "a", 48*time.Hour); return err },
		"a key that is none":         func() error { _, err := f.Claim(ctx, Key{}, "a", time.Minute); return err },
	} {
		if err := bad(); err == nil || !strings.Contains(err.Error(), "want") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// testRace lets many claim at once: exactly one wins.
func testRace(t *testing.T, f *Fleet, k Key) *Claim {
	t.Helper()
	var won atomic.Pointer[Claim]
	var wg sync.WaitGroup
	for n := range 16 {
		wg.Go(func() {
			c, err := f.Claim(t.Context(), k, fmt.Sprint("racer", n), time.Minute)
			if err == nil && !won.CompareAndSwap(nil, c) {
				t.Error("two winners")
			}
			if err != nil && !strings.Contains(err.Error(), "claimed by racer") {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if won.Load() == nil {
		t.Fatal("no winner")
	}
	return won.Load()
}

// A holder that is gone without a word keeps the others waiting for its ttl and no longer.
func testDeadHolder(t *testing.T, url string) {
	f, g := open(t, Options{URL: url}), open(t, Options{URL: url})
	c, err := f.Claim(t.Context(), keyOf(1), "mortal", minTTL)
	must(t, err)
	c.stop() // nobody renews it, nobody releases it
	<-c.ended
	if _, err := g.Await(t.Context(), keyOf(1)); !isFree(err) {
		t.Fatalf("await: %v", err)
	}
	winner := testRace(t, g, keyOf(1))
	if err := c.lease.renew(t.Context()); !isLost(err) {
		t.Errorf("the dead holder renews: %v", err)
	}
	must(t, c.Release(t.Context()))
	if _, err := f.Claim(t.Context(), keyOf(1), "late", time.Minute); !isClaimed(err) {
		t.Errorf("after the release of what was lost: %v", err)
	}
	must(t, winner.Release(t.Context()))
}

// A claim that somebody else has taken over, as after a long sleep, is known to be lost.
func testLostClaim(t *testing.T, url string) {
	f := open(t, Options{URL: url})
	c, err := f.Claim(t.Context(), keyOf(1), "sleeper", 4*time.Second)
	must(t, err)
	if l, ok := c.lease.(*etcdLease); ok {
		must(t, l.drop(t.Context()))
	} else {
		p := claimPath(keyOf(1))
		there, err := f.backend.read(t.Context(), p)
		must(t, err)
		_, err = f.backend.swap(t.Context(), p, there.revision, []byte(`{"holder":"usurper","ttl_ms":60000}`))
		must(t, err)
	}
	select {
	case <-c.Done():
	case <-time.After(patience):
		t.Fatal("not told that the claim is lost")
	}
	must(t, c.Release(t.Context()))
}

func testAwaitEntry(t *testing.T, url string) {
	f, g := open(t, Options{URL: url}), open(t, Options{URL: url})
	c, err := f.Claim(t.Context(), keyOf(1), "tuner", time.Minute)
	must(t, err)
	type result struct {
		e   Entry
		err error
	}
	results := make(chan result, 1)
	go func() {
		e, err := g.Await(t.Context(), keyOf(1))
		results <- result{e, err}
	}()
	push(t, f, entryOf(1, 4, 20))
	must(t, c.Release(t.Context()))
	if r := <-results; r.err != nil || string(r.e.Config) != `{"threads":4}` {
		t.Errorf("await: %v, %v", r.e, r.err)
	}
	if e, err := g.Await(t.Context(), keyOf(1)); err != nil || e.Blocks != 20 {
		t.Errorf("await what is there: %v, %v", e, err)
	}
}

// interrupted does something after the first question that is asked of it.
type interrupted struct {
	backend
	once sync.Once
	do   func()
}

func (b *interrupted) read(ctx context.Context, path string) (item, error) {
	it, err := b.backend.read(ctx, path)
	b.once.Do(b.do)
	return it, err
}

func (b *interrupted) holder(ctx context.Context, path string) (string, error) {
	holder, err := b.backend.holder(ctx, path)
	b.once.Do(b.do)
	return holder, err
}

// A holder that pushes and releases while another looks is seen to have pushed.
func testAwaitBetween(t *testing.T, url string) {
	f, g := open(t, Options{URL: url}), open(t, Options{URL: url})
	c, err := f.Claim(t.Context(), keyOf(1), "tuner", 10*time.Minute)
	must(t, err)
	g.backend = &interrupted{backend: g.backend, do: func() {
		push(t, f, entryOf(1, 4, 20))
		must(t, c.Release(t.Context()))
	}}
	if e, err := g.Await(t.Context(), keyOf(1)); err != nil || e.Blocks != 20 {
		t.Errorf("await: %v, %v", e, err)
	}
}

func testAwaitFree(t *testing.T, url string) {
	f := open(t, Options{URL: url})
	if _, err := f.Await(t.Context(), keyOf(1)); !isFree(err) {
		t.Errorf("await of nobody: %v", err)
	}
	c, err := f.Claim(t.Context(), keyOf(1), "tuner", time.Minute)
	must(t, err)
	errs := make(chan error, 1)
	go func() {
		_, err := f.Await(t.Context(), keyOf(1))
		errs <- err
	}()
	must(t, c.Release(t.Context()))
	if err := <-errs; !isFree(err) {
		t.Errorf("await: %v", err)
	}
}

func testAwaitContext(t *testing.T, url string) {
	f := open(t, Options{URL: url})
	c, err := f.Claim(t.Context(), keyOf(1), "tuner", time.Minute)
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := f.Await(ctx, keyOf(1)); !isDeadline(err) || strings.Contains(err.Error(), "\n") {
		t.Errorf("await: %v", err)
	}
	must(t, c.Release(t.Context()))
}

// What comes out of a learned config and back is what is shared of it.
func TestFromLearned(t *testing.T) {
	certificate, err := os.ReadFile("testdata/certificate.json") // of a run of the tune verb
	must(t, err)
	var run struct {
		Best struct{ Config json.RawMessage }
	}
	must(t, json.Unmarshal(certificate, &run))
	config, err := history.Canonical(run.Best.Config)
	must(t, err)
	l := history.Learned{
		Host: hostA, Model: modelA, ModelName: "bitnet-b1.58-2b-4t", Target: "cpu", Objective: "mixed", Signature: table,
		Identity: kind(1), Envelope: map[string]string{"usable_cores": "2"}, Condition: map[string]string{"kernel": "6.1-acme"},
		Config: run.Best.Config, Certificate: certificate, Curve: []byte(`{"decode":{"1":1.5,"2":1}}`),
		Run: 77, MeasuredAt: epoch.In(time.FixedZone("", 3600)), Evaluations: 41,
	}
	e, err := FromLearned(l)
	must(t, err)
	doc, err := e.encode()
	must(t, err)
	if e.Blocks == 0 || e.Ratio.Estimate == 0 || e.Evaluations != 41 {
		t.Errorf("evidence: %d blocks, %d evaluations, ratio %v", e.Blocks, e.Evaluations, e.Ratio)
	}
	for _, secret := range []string{"acme", "runners_up", "warnings", `"run"`, "fingerprint", "/models/"} {
		if strings.Contains(string(doc), secret) {
			t.Errorf("%s is shared", secret)
		}
	}
	t.Logf("a document has %d bytes, of which the certificate %d (whole: %d) and the config %d", len(doc), len(e.Certificate), len(certificate), len(e.Config))
	got, err := e.Learned()
	must(t, err)
	want := l
	want.Condition, want.Run, want.MeasuredAt = nil, 0, epoch
	want.Config, want.Certificate = config, e.Certificate
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	again, err := FromLearned(got)
	must(t, err)
	if diff := cmp.Diff(e, again); diff != "" {
		t.Errorf("shared again (-want +got)\n%s", diff)
	}
	for name, spoil := range map[string]func(*history.Learned){
		"no model":             func(l *history.Learned) { l.Model = "" },
		"no signature":         func(l *history.Learned) { l.Signature = "" },
		"a config of no JSON":  func(l *history.Learned) { l.Config = []byte("threads=4") },
		"a certificate of all": func(l *history.Learned) { l.Certificate = []byte(`{"regimes":4}`) },
	} {
		bad := l
		spoil(&bad)
		if _, err := FromLearned(bad); err == nil || !strings.HasPrefix(err.Error(), "fleet: share: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	named := l
	named.ModelName = "/models/secret.gguf"
	if e, err := FromLearned(named); err != nil || e.ModelName != "" {
		t.Errorf("a path as name: %q, %v", e.ModelName, err)
	}
}

// Only what was decided is evidence.
func TestBlocks(t *testing.T) {
	for certificate, want := range map[string]int{
		`{}`: 0,
		`{"regimes":[{"verdict":"ADOPT","duel_blocks":10},{"verdict":"INCONCLUSIVE","duel_blocks":99},{"verdict":"KEEP_DEFAULT","duel_blocks":5}]}`:   15,
		`{"regimes":[{"verdict":"ADOPT","duel_blocks":10}],"inherited":[{"verdict":"KEEP_DEFAULT","duel_blocks":7},{"verdict":"","duel_blocks":99}]}`: 17,
	} {
		var e Entry
		if err := e.take([]byte(certificate)); err != nil || e.Blocks != want {
			t.Errorf("%s: %d blocks, want %d: %v", certificate, e.Blocks, want, err)
		}
	}
}

// What was ever stored can be read, and is stored in the same bytes today.
func TestFormat(t *testing.T) {
	want, err := os.ReadFile("testdata/v1.json")
	must(t, err)
	e := entryOf(1, 4, 20)
	e.ModelName, e.Envelope = "bitnet-b1.58-2b-4t", map[string]string{"usable_cores": "2"}
	e.Certificate, e.Curve = []byte(`{"verdict":"ADOPT"}`), []byte(`{"decode":{"1":1.5,"2":1}}`)
	e.Contributors, e.Generation = []string{mark("machine 1"), mark("machine 2")}, 1<<63+5
	slices.Sort(e.Contributors)
	got, err := e.encode()
	must(t, err)
	if diff := cmp.Diff(string(want), string(got)+"\n"); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	back, err := decode(e.path(), want)
	must(t, err)
	if diff := cmp.Diff(e, back); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestClass(t *testing.T) {
	base := Class(kind(1))
	stepping, memory, model := kind(1), kind(1), kind(2)
	stepping["cpu_stepping"], memory["memory_class_bytes"] = "8", "32"
	if Class(stepping) != base || Class(memory) != base || Class(model) == base || !fingerprint.MatchString(base) {
		t.Errorf("%s: stepping %s, memory %s, model %s", base, Class(stepping), Class(memory), Class(model))
	}
	if want := "a9b24e1ff445ce44c9b6252aaa424686"; base != want {
		t.Errorf("%s, want %s: another class makes a fleet forget", base, want)
	}
}

func TestPaths(t *testing.T) {
	k := Key{Class: hostA, Model: modelA, Target: "engine:llama.cpp@b1+x", Objective: "decode", Signature: table}
	want := hostA + "/" + modelA + "/" + table + "/engine%3Allama.cpp%40b1%2Bx/decode"
	if got := k.path(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, err := parsePath(k.path()); err != nil || got != k {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"", "a/b", hostA + "/" + modelA + "/" + table + "/../decode", want + "/x", strings.Replace(want, "%3A", ":", 1), strings.Replace(want, "%3A", "%3", 1)} {
		if k, err := parsePath(bad); err == nil {
			t.Errorf("%q is %v", bad, k)
		}
	}
}
