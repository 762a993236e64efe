package history

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"
)

var update = flag.Bool("update", false, "write the files in testdata anew")

const (
	hostA  = "00112233445566778899aabbccddeeff"
	hostB  = "ffeeddccbbaa99887766554433221100"
	modelA = "0123456789abcdef0123456789abcdef"
	modelB = "fedcba9876543210fedcba9876543210"
)

var epoch = time.Date(2026, 11, 21, 10, 30, 0, 123456789, time.UTC)

// sample returns a valid record that is the same for the same numbers.
func sample(run uint64, seq uint32) Record {
	r := Record{
		Run: run, Seq: seq, Time: epoch.Add(time.Duration(seq) * time.Second),
		Host: hostA, Model: modelA, Target: "cpu", Regime: "decode",
		Config: json.RawMessage(fmt.Sprintf(`{"kernel":"mul/i2s/avx2","threads":%d}`, 1+seq%7)),
		Kernel: "mul/i2s/avx2", KernelRev: 3, Signature: "00f1e2d3c4b5a697",
		Status: StatusOK, Elapsed: 250 * time.Millisecond,
	}
	for i := range 5 {
		r.Costs = append(r.Costs, 1+float64(i)/float64(3+seq))
		r.Samples = append(r.Samples, 1e6*(1+float64(i)/float64(7+seq)))
	}
	return r
}

func samples(run uint64, from, to uint32) []Record {
	var recs []Record
	for seq := from; seq < to; seq++ {
		recs = append(recs, sample(run, seq))
	}
	return recs
}

func learned(model, objective string, evaluations int) Learned {
	return Learned{
		Host: hostA, Model: model, ModelName: "bitnet-b1.58-2b-4t", Target: "cpu", Objective: objective,
		Signature: "00f1e2d3c4b5a697", Identity: map[string]string{"cpu": "EPYC"}, Envelope: map[string]string{"quota": "2"},
		Config: json.RawMessage(`{"decode":{"threads":2}}`), Run: 7, MeasuredAt: epoch, Evaluations: evaluations,
	}
}

// openTest opens a store and, when the test ends, checks that it is sound.
func openTest(t testing.TB, dir string) *Store {
	t.Helper()
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { checkSound(t, s) })
	return s
}

func checkSound(t testing.TB, s *Store) {
	t.Helper()
	report, err := s.Check(context.Background())
	if err != nil || !report.OK {
		t.Errorf("Check: %+v, %v", report, err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// collectRecords returns what f matches.
func collectRecords(t testing.TB, s *Store, f Filter) []Record {
	t.Helper()
	var recs []Record
	must(t, s.Records(context.Background(), f, func(r Record) error {
		recs = append(recs, r)
		return nil
	}))
	return recs
}

// bySeq orders records by run and number.
func bySeq(recs []Record) []Record {
	slices.SortFunc(recs, func(a, b Record) int {
		return strings.Compare(fmt.Sprintf("%020d/%010d", a.Run, a.Seq), fmt.Sprintf("%020d/%010d", b.Run, b.Seq))
	})
	return recs
}

func TestRecordsReturnWhatWasAppended(t *testing.T) {
	failed := sample(1, 1000)
	failed.Status, failed.Costs, failed.Samples, failed.Note = StatusCrash, nil, nil, "signal: segmentation fault <&>"
	failed.Time, failed.Seq, failed.Kernel, failed.KernelRev, failed.Signature = time.Time{}, 1<<32-1, "", 0, ""
	failed.Config = json.RawMessage(`{"a":"<&>","b":1.50,"c":[]}`)
	want := append(samples(1, 0, 200), failed)

	s := openTest(t, t.TempDir())
	must(t, s.Append(context.Background(), want...))
	if diff := cmp.Diff(want, bySeq(collectRecords(t, s, Filter{}))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestConfigIsStoredInOneSpelling(t *testing.T) {
	a, b := sample(1, 1), sample(1, 1)
	a.Config = json.RawMessage(`{ "b": {"y":1, "x":[1, 2]}, "a": "<" }`)
	b.Config = json.RawMessage(`{"a":"<","b":{"x":[1,2],"y":1}}`)
	s := openTest(t, t.TempDir())
	must(t, s.Append(context.Background(), a, b))
	got := collectRecords(t, s, Filter{})
	if len(got) != 1 || !bytes.Equal(got[0].Config, b.Config) {
		t.Errorf("got %d records, %s; want one, %s", len(got), got[0].Config, b.Config)
	}
	idA, errA := ConfigID(a.Config)
	idB, errB := ConfigID(b.Config)
	if errA != nil || errB != nil || idA != idB {
		t.Errorf("ConfigID %x, %x, %v, %v", idA, idB, errA, errB)
	}
}

func TestFilter(t *testing.T) {
	s := openTest(t, t.TempDir())
	var all []Record
	for _, host := range []string{hostA, hostB} {
		for _, model := range []string{modelA, modelB} {
			for _, target := range []string{"cpu", "cpu2", "cuda"} {
				for _, regime := range []string{"decode", "prefill"} {
					for run := uint64(1); run <= 2; run++ {
						r := sample(run, uint32(len(all)))
						r.Host, r.Model, r.Target, r.Regime = host, model, target, regime
						all = append(all, r)
					}
				}
			}
		}
	}
	must(t, s.Append(context.Background(), all...))
	for _, test := range []struct {
		name string
		f    Filter
		want int
	}{
		{"everything", Filter{}, 48},
		{"host", Filter{Host: hostA}, 24},
		{"host and model", Filter{Host: hostB, Model: modelA}, 12},
		{"a target that begins another's name", Filter{Host: hostA, Model: modelA, Target: "cpu"}, 4},
		{"one regime", Filter{Host: hostA, Model: modelA, Target: "cuda", Regime: "prefill"}, 2},
		{"a run", Filter{Run: 2}, 24},
		{"a run of a regime", Filter{Host: hostA, Model: modelB, Target: "cpu", Regime: "decode", Run: 1}, 1},
		{"model alone", Filter{Model: modelB}, 24},
		{"regime alone", Filter{Regime: "decode"}, 24},
		{"unknown host", Filter{Host: "00000000000000000000000000000000"}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := collectRecords(t, s, test.f)
			if len(got) != test.want {
				t.Errorf("%d records, want %d", len(got), test.want)
			}
			for _, r := range got {
				if test.f.Host != "" && r.Host != test.f.Host || test.f.Target != "" && r.Target != test.f.Target || test.f.Run != 0 && r.Run != test.f.Run {
					t.Errorf("%+v does not match %+v", r, test.f)
				}
			}
		})
	}
	if err := s.Records(context.Background(), Filter{Host: "xyz"}, nil); err == nil || !strings.Contains(err.Error(), `host "xyz": want 32`) {
		t.Errorf("filter host xyz: %v", err)
	}
}

func TestAppendTwiceStoresOnce(t *testing.T) {
	s := openTest(t, t.TempDir())
	recs := samples(1, 0, 20)
	must(t, s.Append(context.Background(), recs[:12]...))
	must(t, s.Append(context.Background(), recs...))
	must(t, s.Append(context.Background(), recs...))
	if got := collectRecords(t, s, Filter{}); len(got) != 20 {
		t.Errorf("%d records, want 20", len(got))
	}
	other := sample(1, 3)
	other.Costs[0] *= 2
	err := s.Append(context.Background(), sample(1, 99), other)
	if !errors.Is(err, ErrConflict) {
		t.Errorf("other content under a stored key: %v, want ErrConflict", err)
	}
	if diff := cmp.Diff(recs, bySeq(collectRecords(t, s, Filter{}))); diff != "" {
		t.Errorf("a refused batch changed the store (-want +got)\n%s", diff)
	}
}

func TestAppendRefusesWhatCouldNotBeReadBack(t *testing.T) {
	s := openTest(t, t.TempDir())
	for name, spoil := range map[string]func(*Record){
		`host "abc": want 32 lower-case hex digits`: func(r *Record) { r.Host = "abc" },
		`model "FEDCBA`:                              func(r *Record) { r.Model = strings.ToUpper(modelB[:6]) + modelA[6:] },
		`target "": want 1 to 64 bytes`:              func(r *Record) { r.Target = "" },
		`regime "a\x00b": want 1 to 64 bytes`:        func(r *Record) { r.Regime = "a\x00b" },
		`config: not JSON`:                           func(r *Record) { r.Config = json.RawMessage(`{"a":`) },
		`config: not JSON: more`:                     func(r *Record) { r.Config = json.RawMessage(`{} {}`) },
		`status "good": want one of`:                 func(r *Record) { r.Status = "good" },
		`cost 1 is 0: want a positive number`:        func(r *Record) { r.Costs[1] = 0 },
		`cost 0 is +Inf: want a positive number`:     func(r *Record) { r.Costs[0] = 1 / zero },
		`sample 0 is NaN ns: want a positive number`: func(r *Record) { r.Samples[0] = zero / zero },
		`want a year from 1970 to 2261`:              func(r *Record) { r.Time = r.Time.AddDate(400, 0, 0) },
		`bytes: want at most 524288`:                 func(r *Record) { r.Note = strings.Repeat("x", 1<<20) },
	} {
		r := sample(1, 5)
		spoil(&r)
		err := s.Append(context.Background(), sample(1, 4), r)
		if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "record 1 (run 1 seq 5)") || strings.Contains(err.Error(), "\n") {
			t.Errorf("want %q in: %v", name, err)
		}
	}
	if got := collectRecords(t, s, Filter{}); len(got) != 0 {
		t.Errorf("%d records of refused batches were stored", len(got))
	}
}

var zero float64

func TestRecordsMayAppend(t *testing.T) {
	s := openTest(t, t.TempDir())
	must(t, s.Append(context.Background(), samples(1, 0, 10)...))
	stop := errors.New("enough")
	n := 0
	err := s.Records(context.Background(), Filter{}, func(r Record) error {
		if n++; n == 5 {
			return stop
		}
		return s.Append(context.Background(), sample(2, uint32(n)))
	})
	if err != stop || n != 5 {
		t.Errorf("%v after %d, want the error of fn after 5", err, n)
	}
}

// More records than one chunk holds, so that the scan releases the lock and goes on.
func TestRecordsInChunks(t *testing.T) {
	s := openTest(t, t.TempDir())
	const n = 2*chunkKeys + 10
	must(t, s.Append(context.Background(), samples(1, 0, n)...))
	seen := map[uint32]bool{}
	for _, r := range collectRecords(t, s, Filter{}) {
		if seen[r.Seq] {
			t.Fatalf("seq %d twice", r.Seq)
		}
		seen[r.Seq] = true
	}
	if len(seen) != n {
		t.Errorf("%d records, want %d", len(seen), n)
	}
}

func TestRuns(t *testing.T) {
	s := openTest(t, t.TempDir())
	var want []Run
	for i := range 5 {
		r := Run{ID: NewRunID(epoch.Add(time.Duration(i) * time.Second)), Started: epoch, Host: hostA, Model: modelA, Target: "cpu",
			Objective: "decode", Strategy: "halving", Seed: 1<<64 - 1, Budget: time.Minute, Facts: map[string]string{"governor": "performance"}}
		must(t, s.PutRun(context.Background(), r))
		r.Finished, r.Verdict, r.Certificate = epoch.Add(time.Minute), "ADOPT", json.RawMessage(`{"ratio":"<1"}`)
		must(t, s.PutRun(context.Background(), r))
		want = append(want, r)
	}
	got, err := s.Runs(context.Background())
	must(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if err := s.PutRun(context.Background(), Run{}); err == nil {
		t.Error("a run without an id was stored")
	}
}

func TestNewRunIDIsOrderedByTime(t *testing.T) {
	early, late := NewRunID(epoch), NewRunID(epoch.Add(time.Millisecond))
	same, again := NewRunID(epoch), NewRunID(epoch)
	if early >= late || same == again {
		t.Errorf("%x, %x a millisecond later; %x, %x at the same moment", early, late, same, again)
	}
}

func TestPublishKeepsOtherKeysAndThePreviousVersion(t *testing.T) {
	dir := t.TempDir()
	s := openTest(t, dir)
	ctx := context.Background()
	otherTable := learned(modelA, "decode", 5)
	otherTable.Signature, otherTable.MeasuredAt = "ffff", epoch.Add(time.Hour)
	otherLimits := learned(modelA, "decode", 6)
	otherLimits.Envelope, otherLimits.MeasuredAt = map[string]string{"quota": "1"}, epoch.Add(-time.Hour)
	for _, l := range []Learned{learned(modelB, "decode", 1), learned(modelA, "prefill", 2), learned(modelA, "decode", 3), learned(modelA, "decode", 4), otherTable, otherLimits} {
		must(t, s.Publish(ctx, l))
	}
	snap, err := ReadSnapshot(dir)
	must(t, err)
	want := []Learned{otherTable, learned(modelA, "decode", 4), otherLimits, learned(modelA, "prefill", 2), learned(modelB, "decode", 1)}
	if diff := cmp.Diff(want, snap.Learned); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got := previous(t, s, learned(modelA, "decode", 0)); got.Evaluations != 3 {
		t.Errorf("previous version has %d evaluations, want 3", got.Evaluations)
	}
	must(t, s.Publish(ctx, learned(modelA, "decode", 4)))
	if got := previous(t, s, learned(modelA, "decode", 0)); got.Evaluations != 3 {
		t.Errorf("publishing the same again replaced the previous version by %d", got.Evaluations)
	}
}

// previous reads the version that was replaced.
func previous(t *testing.T, s *Store, l Learned) (old Learned) {
	t.Helper()
	key, err := l.key()
	must(t, err)
	key = append(key, slotPrevious)
	must(t, s.exclusive(context.Background(), func() error {
		return s.view(context.Background(), func(tx *bolt.Tx, _ state) error {
			return unsealJSON(key, bytes.Clone(tx.Bucket(bucketConfig).Get(key)), &old)
		})
	}))
	return old
}

func TestPins(t *testing.T) {
	dir := t.TempDir()
	s := openTest(t, dir)
	ctx := context.Background()
	pin := Pin{Model: modelA, Config: json.RawMessage(`{"threads":3}`), By: "ops", At: epoch}
	must(t, s.SetPin(ctx, pin))
	must(t, s.SetPin(ctx, Pin{Model: modelB, Config: json.RawMessage(`{}`)}))
	was, err := s.RemovePin(ctx, modelB)
	if !was || err != nil {
		t.Errorf("RemovePin: %v, %v", was, err)
	}
	if was, err = s.RemovePin(ctx, modelB); was || err != nil {
		t.Errorf("RemovePin again: %v, %v", was, err)
	}
	snap, err := ReadSnapshot(dir)
	must(t, err)
	if diff := cmp.Diff([]Pin{pin}, snap.Pins); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestOpenOfWhatIsNoStore(t *testing.T) {
	foreign := func(t *testing.T, dir, bucket, key, value string) {
		db, err := bolt.Open(filepath.Join(dir, databaseName), 0o600, nil)
		must(t, err)
		must(t, db.Update(func(tx *bolt.Tx) error {
			b, err := tx.CreateBucket([]byte(bucket))
			if err != nil {
				return err
			}
			return b.Put([]byte(key), seal([]byte(key), codecText, []byte(value)))
		}))
		must(t, db.Close())
	}
	for _, test := range []struct {
		name    string
		make    func(t *testing.T, dir string) (open string)
		want    error
		message string
	}{
		{"a file", func(t *testing.T, dir string) string {
			path := filepath.Join(dir, "file")
			must(t, os.WriteFile(path, []byte("x"), 0o600))
			return path
		}, nil, "it is a file: want a directory"},
		{"below a file", func(t *testing.T, dir string) string {
			must(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
			return filepath.Join(dir, "file", "store")
		}, syscall.ENOTDIR, "not a directory"},
		{"another program's database", func(t *testing.T, dir string) string {
			foreign(t, dir, "wallets", "k", "v")
			return dir
		}, ErrForeign, "choose another directory"},
		{"another program's database with a bucket meta", func(t *testing.T, dir string) string {
			foreign(t, dir, "meta", "magic", "somebody else")
			return dir
		}, ErrForeign, `a database of "somebody else"`},
		{"a directory where the database belongs", func(t *testing.T, dir string) string {
			must(t, os.Mkdir(filepath.Join(dir, databaseName), 0o700))
			return dir
		}, ErrForeign, "not a regular file"},
		{"a text file as database", func(t *testing.T, dir string) string {
			must(t, os.WriteFile(filepath.Join(dir, databaseName), bytes.Repeat([]byte("text\n"), 4000), 0o600))
			return dir
		}, ErrCorrupt, "not a bbolt database"},
		{"an empty database", func(t *testing.T, dir string) string {
			must(t, os.WriteFile(filepath.Join(dir, databaseName), nil, 0o600))
			return dir
		}, ErrCorrupt, "a repair keeps what is intact"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := test.make(t, t.TempDir())
			s, err := Open(dir, Options{})
			if err == nil || test.want != nil && !errors.Is(err, test.want) {
				t.Fatalf("error %v, want %v", err, test.want)
			}
			if !strings.HasPrefix(err.Error(), "history: open "+dir) || !strings.Contains(err.Error(), test.message) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q: want one line with the path and %q", err, test.message)
			}
			if (s != nil) != errors.Is(err, ErrCorrupt) {
				t.Errorf("store %v with error %v", s, err)
			}
		})
	}
}

func TestReadOnly(t *testing.T) {
	ctx := context.Background()
	missing := filepath.Join(t.TempDir(), "none")
	if _, err := Open(missing, Options{ReadOnly: true}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing store: %v, want fs.ErrNotExist", err)
	}
	empty := t.TempDir()
	if _, err := Open(empty, Options{ReadOnly: true}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty directory: %v, want fs.ErrNotExist", err)
	}
	if entries, err := os.ReadDir(empty); err != nil || len(entries) > 0 {
		t.Errorf("reading made %v, %v", entries, err)
	}

	dir := t.TempDir()
	must(t, openTest(t, dir).Append(ctx, sample(1, 1)))
	must(t, os.Remove(filepath.Join(dir, lockName))) // as on a medium that was written elsewhere
	s, err := Open(dir, Options{ReadOnly: true})
	must(t, err)
	if got := collectRecords(t, s, Filter{}); len(got) != 1 {
		t.Errorf("%d records, want 1", len(got))
	}
	if _, err := os.Stat(filepath.Join(dir, lockName)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("reading made the lock file: %v", err)
	}
	_, errUnpin := s.RemovePin(ctx, modelA)
	_, errRepair := s.Repair(ctx)
	for i, err := range []error{s.Append(ctx, sample(1, 2)), s.PutRun(ctx, Run{ID: 1}), s.Publish(ctx, learned(modelA, "decode", 1)),
		s.SetPin(ctx, Pin{Model: modelA, Config: json.RawMessage(`{}`)}), errUnpin, errRepair} {
		if !errors.Is(err, ErrReadOnly) {
			t.Errorf("write %d: %v, want ErrReadOnly", i, err)
		}
	}
}

// setMeta changes a number of the meta bucket behind the store's back.
func setMeta(t *testing.T, dir string, change func(*state)) {
	t.Helper()
	db, err := bolt.Open(filepath.Join(dir, databaseName), 0o600, nil)
	must(t, err)
	must(t, db.Update(func(tx *bolt.Tx) error {
		st, err := readState(tx)
		if err != nil {
			return err
		}
		change(&st)
		return st.write(tx)
	}))
	must(t, db.Close())
}

func TestNewerFormat(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	s, err := Open(dir, Options{})
	must(t, err)
	must(t, s.Append(ctx, sample(1, 1)))
	must(t, s.Publish(ctx, learned(modelA, "decode", 1)))
	setMeta(t, dir, func(st *state) { st.schema = 7 })

	want := "history: open " + filepath.Join(dir, databaseName) + ": format 7 is newer than 2: update this program; until then it is only read"
	newer, err := Open(dir, Options{})
	if !errors.Is(err, ErrNewer) || err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
	if got := collectRecords(t, newer, Filter{}); len(got) != 1 {
		t.Errorf("%d records, want 1", len(got))
	}
	if err := newer.Append(ctx, sample(1, 2)); !errors.Is(err, ErrReadOnly) {
		t.Errorf("Append to a newer store: %v", err)
	}
	if err := s.Append(ctx, sample(1, 2)); !errors.Is(err, ErrNewer) {
		t.Errorf("Append by a store that was open before the upgrade: %v", err)
	}
	if _, err := newer.Repair(ctx); err == nil {
		t.Error("a newer database was repaired")
	}
	if _, err := Open(dir, Options{ReadOnly: true}); err != nil {
		t.Errorf("for reading: %v", err)
	}

	setMeta(t, dir, func(st *state) { st.minReader = 7 })
	if s, err := Open(dir, Options{ReadOnly: true}); s != nil || !errors.Is(err, ErrNewer) {
		t.Errorf("a format that must not be read: %v, %v", s, err)
	}
	if err := s.Records(ctx, Filter{}, func(Record) error { return nil }); !errors.Is(err, ErrNewer) {
		t.Errorf("Records of a format that must not be read: %v", err)
	}
	if snap, err := ReadSnapshot(dir); err != nil || len(snap.Learned) != 1 {
		t.Errorf("the snapshot is readable all the same: %v, %v", snap, err)
	}
}

func TestRepairOfBothMetaPages(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	s := openTest(t, dir)
	must(t, s.Append(ctx, samples(1, 0, 50)...))
	must(t, s.Publish(ctx, learned(modelA, "decode", 9)))
	must(t, s.SetPin(ctx, Pin{Model: modelB, Config: json.RawMessage(`{}`)}))
	if _, err := s.Repair(ctx); err == nil || !strings.Contains(err.Error(), "nothing is wrong") {
		t.Errorf("a sound database: %v", err)
	}
	must(t, os.Remove(filepath.Join(dir, snapshotName)))
	if done, err := s.Repair(ctx); done.Path != "" || err != nil {
		t.Errorf("a sound database without its snapshot: %+v, %v, want that it stays and the snapshot is written", done, err)
	}
	before, err := ReadSnapshot(dir)
	must(t, err)

	damaged, err := os.ReadFile(s.databasePath())
	must(t, err)
	for i := range 2 * os.Getpagesize() {
		damaged[i] ^= 0x55
	}
	must(t, os.WriteFile(s.databasePath(), damaged, 0o600))
	again, err := Open(dir, Options{})
	if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), s.databasePath()) {
		t.Fatalf("Open: %v, want ErrCorrupt", err)
	}
	if err := again.Append(ctx, sample(2, 1)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("Append: %v, want ErrCorrupt", err)
	}
	if snap, err := ReadSnapshot(dir); err != nil || cmp.Diff(before, snap) != "" {
		t.Errorf("snapshot of a damaged database: %v, %v", snap, err)
	}
	done, err := again.Repair(ctx)
	must(t, err)
	if diff := cmp.Diff(Repaired{Path: done.Path, Records: 50, Stored: 50, Learned: 1, Pins: 1}, done); diff != "" {
		t.Errorf("repaired (-want +got)\n%s", diff)
	}
	if got := collectRecords(t, again, Filter{}); len(got) != 50 {
		t.Errorf("%d records, want all 50", len(got))
	}
	if kept, err := os.ReadFile(done.Path); err != nil || !bytes.Equal(kept, damaged) {
		t.Errorf("what was put aside differs: %v", err)
	}
	must(t, again.Append(ctx, sample(2, 1)))
	must(t, again.Publish(ctx, learned(modelB, "decode", 1)))
	after, err := ReadSnapshot(dir)
	must(t, err)
	if len(after.Learned) != 2 || len(after.Pins) != 1 || after.Generation <= before.Generation {
		t.Errorf("after the repair: %+v", after)
	}
}

func TestRollbackIsSeenAndWhatWasPublishedComesBack(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	s, err := Open(dir, Options{})
	must(t, err)
	must(t, s.Publish(ctx, learned(modelA, "decode", 1)))
	must(t, s.SetPin(ctx, Pin{Model: modelA, Config: json.RawMessage(`{}`)}))
	old, err := os.ReadFile(s.databasePath())
	must(t, err)
	must(t, s.Publish(ctx, learned(modelB, "decode", 2)))
	_, err = s.RemovePin(ctx, modelA)
	must(t, err)
	want, err := ReadSnapshot(dir)
	must(t, err)
	must(t, os.WriteFile(s.databasePath(), old, 0o600))

	report, err := s.Check(ctx)
	if err != nil || report.OK || !strings.Contains(report.Problems[0], "rolled back") {
		t.Errorf("Check: %+v, %v", report, err)
	}
	again := openTest(t, dir)
	if warnings := again.Warnings(); len(warnings) != 1 || !strings.Contains(warnings[0].Error(), "rolled back") {
		t.Errorf("Warnings: %v", warnings)
	}
	must(t, again.Append(ctx, sample(1, 1)))
	must(t, again.Publish(ctx, learned(modelB, "prefill", 3)))
	got, err := ReadSnapshot(dir)
	must(t, err)
	if len(got.Learned) != 3 || len(got.Pins) != 0 || got.Generation <= want.Generation {
		t.Errorf("after a rollback: %+v, want what was published before, %+v, and one more", got, want)
	}
}

func TestDatabaseRemovedUnderTheStore(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	s := openTest(t, dir)
	must(t, s.Publish(ctx, learned(modelA, "decode", 1)))
	must(t, os.Remove(s.databasePath()))
	if err := s.Records(ctx, Filter{}, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Records: %v, want fs.ErrNotExist", err)
	}
	must(t, s.SetPin(ctx, Pin{Model: modelA, Config: json.RawMessage(`{}`)}))
	snap, err := ReadSnapshot(dir)
	if err != nil || len(snap.Learned) != 1 || len(snap.Pins) != 1 {
		t.Errorf("snapshot %+v, %v", snap, err)
	}
}

func TestBusyAndCancelled(t *testing.T) {
	dir := t.TempDir()
	s := openTest(t, dir)
	must(t, s.Append(context.Background(), sample(1, 1)))
	other, err := Open(dir, Options{Timeout: 20 * time.Millisecond})
	must(t, err)
	patient := openTest(t, dir)
	pin := Pin{Model: modelA, Config: json.RawMessage(`{}`)}
	must(t, s.exclusive(context.Background(), func() error {
		if err := other.SetPin(context.Background(), pin); !errors.Is(err, ErrBusy) {
			t.Errorf("SetPin while locked: %v, want ErrBusy", err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
		defer cancel()
		for range 2 { // the first waits in the kernel, the second finds that one still there
			if err := patient.SetPin(ctx, pin); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("SetPin with a context that ends: %v", err)
			}
			if err := other.SetPin(context.Background(), pin); !errors.Is(err, ErrBusy) {
				t.Errorf("SetPin while locked, again: %v, want ErrBusy", err)
			}
		}
		return nil
	}))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Append(ctx, sample(1, 3)); !errors.Is(err, context.Canceled) {
		t.Errorf("Append with an ended context: %v", err)
	}
	if got := collectRecords(t, s, Filter{}); len(got) != 1 {
		t.Errorf("%d records, want 1", len(got))
	}
}

// A lock file that somebody removed excludes nobody, so the one that is there now must be taken.
func TestLockFileReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), lockName)
	first, err := newFileLock(path, true).acquire(context.Background(), time.Second)
	must(t, err)
	waiting := make(chan error)
	go func() {
		second, err := newFileLock(path, true).acquire(context.Background(), 10*time.Second)
		if err == nil {
			defer second.Close()
			_, err = newFileLock(path, true).acquire(context.Background(), time.Millisecond)
		}
		waiting <- err
	}()
	time.Sleep(20 * time.Millisecond)
	must(t, os.Remove(path))
	must(t, first.Close())
	if err := <-waiting; !errors.Is(err, ErrBusy) {
		t.Errorf("the file that replaced the first is not locked: %v, want ErrBusy", err)
	}
}

// A database that has reached its size makes room: of what goes, the sums stay.
func TestMaxBytes(t *testing.T) {
	ctx := context.Background()
	s, err := Open(t.TempDir(), Options{MaxBytes: 256 << 10})
	must(t, err)
	defer checkSound(t, s)
	const stored = 3000
	for seq := uint32(0); seq < stored; seq += 10 {
		must(t, s.Append(ctx, samples(1, seq, seq+10)...))
	}
	count := func() (n, settings int) {
		sums, err := s.Aggregates(ctx, Filter{})
		must(t, err)
		n = len(collectRecords(t, s, Filter{}))
		for _, sum := range sums {
			n += sum.Statuses[StatusOK]
		}
		return n, len(sums)
	}
	info, err := os.Stat(s.databasePath())
	must(t, err)
	if n, settings := count(); n != stored || settings != 7 || info.Size() > 512<<10 {
		t.Errorf("%d records there or summed up, want %d; sums of %d settings, want 7; %d bytes", n, stored, settings, info.Size())
	}
	must(t, s.Append(ctx, samples(1, 0, 10)...)) // a retry of what was summed up
	if _, err := s.Prune(ctx, Retention{PerCell: keptPerCell}); err != nil {
		t.Error(err)
	}
	if n, _ := count(); n != stored {
		t.Errorf("%d records there or summed up after a retry, want %d: nothing counts twice", n, stored)
	}
}

func TestNetworkFilesystemWarning(t *testing.T) {
	if err := filesystemWarning("/mnt/x", 0x6969); err == nil || !strings.Contains(err.Error(), "/mnt/x is on NFS") {
		t.Errorf("NFS: %v", err)
	}
	const ext4 = 0xEF53
	if err := filesystemWarning("/x", ext4); err != nil {
		t.Errorf("ext4: %v", err)
	}
}
