package history

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// injected are system calls that fail, by strace.
var injected = []struct {
	call, failure string
}{
	{"fdatasync", "EIO"}, {"fsync", "EIO"}, {"pwrite64", "ENOSPC"}, {"pwrite64", "EIO"}, {"ftruncate", "ENOSPC"},
	{"renameat", "EIO"}, {"renameat", "ENOSPC"}, {"linkat", "EPERM"}, {"mkdirat", "ENOSPC"}, {"flock", "ENOLCK"},
}

// injectedAt says when: the n-th time, or from then on.
var injectedAt = []string{"1", "2", "3", "4", "6", "9", "1+", "5+"}

// childInject appends, publishes, spools, backs up and compacts once each, goes on after errors, and says which records
// were acknowledged.
func childInject(ctx context.Context, args []string) error {
	s, err := Open(args[0], Options{})
	if err != nil {
		return err
	}
	seq := uint32(0)
	step := func(store func(recs []Record) error) {
		if err := store(samples(1, seq, seq+3)); err != nil {
			fmt.Println("failed", err)
		} else {
			fmt.Println("kept", seq)
		}
		seq += 3
	}
	appended := func(recs []Record) error { return s.Append(ctx, recs...) }
	step(appended)
	if err := s.Publish(ctx, learned(modelA, "decode", 1)); err == nil {
		fmt.Println("published")
	}
	step(func(recs []Record) error { return s.spool(spooledSamples(recs)) })
	step(appended)
	s.Backup(ctx, "")
	s.Compact(ctx)
	step(appended)
	s.Prune(ctx, Retention{})
	return nil
}

// straced returns a command under strace with one failure, or skips the test.
func straced(t *testing.T, inject string, inner *exec.Cmd) *exec.Cmd {
	t.Helper()
	strace, err := exec.LookPath("strace")
	if err == nil {
		err = exec.Command(strace, "-f", "-o", "/dev/null", "-e", "inject=fdatasync:error=EIO:when=9", "true").Run()
	}
	if err != nil {
		unavailable(t, "strace", err)
	}
	argv := append([]string{"-f", "-o", "/dev/null", "-e", "inject=" + inject, inner.Path}, inner.Args[1:]...)
	return exec.CommandContext(t.Context(), strace, argv...)
}

// Whatever fails and whenever: what was acknowledged is there, and the database is sound without a repair.
func TestInjectedErrors(t *testing.T) {
	points, failed, kept := 0, 0, 0
	for _, f := range injected {
		for _, when := range injectedAt {
			inject := fmt.Sprintf("%s:error=%s:when=%s", f.call, f.failure, when)
			dir := t.TempDir()
			openTest(t, dir)
			out, err := straced(t, inject, child(t, "inject", dir)).CombinedOutput()
			if bytes.Contains(out, []byte("panic")) || bytes.Contains(out, []byte("fatal error")) {
				t.Errorf("%s: %v: %s", inject, err, out)
			}
			points++
			failed += strings.Count(string(out), "failed")
			kept += checkInjected(t, inject, dir, string(out))
		}
	}
	t.Logf("%d injected failures: %d steps failed, %d acknowledged and all there", points, failed, kept)
}

// checkInjected expects what was acknowledged, and returns how many steps that were.
func checkInjected(t *testing.T, inject, dir, out string) (kept int) {
	t.Helper()
	s, err := Open(dir, Options{})
	if err != nil {
		t.Errorf("%s: Open: %v", inject, err)
		return 0
	}
	must(t, s.Append(t.Context(), sample(2, 1))) // takes what is in the spool
	there := map[uint32]bool{}
	for _, r := range collectRecords(t, s, Filter{Run: 1}) {
		there[r.Seq] = true
	}
	for lines := bufio.NewScanner(strings.NewReader(out)); lines.Scan(); {
		var seq uint32
		if n, _ := fmt.Sscanf(lines.Text(), "kept %d", &seq); n == 1 {
			kept++
			if !there[seq] || !there[seq+1] || !there[seq+2] {
				t.Errorf("%s: records %d to %d were acknowledged and are not there", inject, seq, seq+2)
			}
		}
	}
	if snap, err := ReadSnapshot(dir); strings.Contains(out, "published") && (err != nil || len(snap.Learned) != 1) {
		t.Errorf("%s: published, but the snapshot is %+v, %v", inject, snap, err)
	}
	for _, w := range s.Warnings() {
		if strings.Contains(w.Error(), "quarantine") {
			t.Errorf("%s: %v", inject, w)
		}
	}
	checkSound(t, s)
	return kept
}

// An error of a commit does not say whether the change is there. strace makes the two syncs of a commit fail in turn.
func TestCommitErrorIsResolvedByReading(t *testing.T) {
	for _, test := range []struct {
		name   string
		when   int
		stored bool
	}{
		{"the sync of the data fails", 1, false},
		{"the sync of the meta page fails", 2, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			s := openTest(t, dir)
			out, err := straced(t, fmt.Sprintf("fdatasync:error=EIO:when=%d", test.when), child(t, "append", dir, 1, 1)).CombinedOutput()
			if got := len(collectRecords(t, s, Filter{})); (got == 1) != test.stored || (err == nil) != test.stored {
				t.Errorf("%d records, child: %v: %s", got, err, out)
			}
			if !test.stored && !strings.Contains(string(out), "input/output error") {
				t.Errorf("child: %s", out)
			}
		})
	}
}
