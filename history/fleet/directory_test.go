package fleet

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// here opens a fleet in a new directory, and returns the directory of the files of keyOf(1)'s entry.
func here(t *testing.T) (f *Fleet, root, dir string) {
	root = t.TempDir()
	dir = filepath.Join(root, "v1", path.Dir(entryPath(keyOf(1))))
	return open(t, Options{URL: "dir://" + root}), root, dir
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var list []string
	for _, entry := range entries {
		list = append(list, entry.Name())
	}
	return list
}

func TestDirectoryIsAway(t *testing.T) {
	f := open(t, Options{URL: "dir://" + filepath.Join(t.TempDir(), "not mounted")})
	allFail(t, f, "want it made, or mounted, before it is used", ErrUnavailable)
}

// disk mounts a small file system of its own.
func disk(t *testing.T, flags uintptr) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", flags, "size=256k"); err != nil {
		unavailable(t, "mount", err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

func TestDirectoryIsReadOnly(t *testing.T) {
	dir := disk(t, 0)
	f := open(t, Options{URL: "dir://" + dir})
	push(t, f, entryOf(1, 4, 20))
	_, err := f.Claim(t.Context(), keyOf(1), "tuner", 10*time.Minute)
	must(t, err)
	must(t, syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	if got := pull(t, f, 1); len(got) != 1 {
		t.Errorf("pulled %v", got)
	}
	if st, err := f.Status(t.Context()); err != nil || st.Entries != 1 || len(st.Claims) != 1 {
		t.Errorf("status %+v, %v", st, err)
	}
	if _, err := f.Push(t.Context(), entryOf(1, 4, 21)); !errors.Is(err, ErrDenied) || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("push: %v", err)
	}
	if _, err := f.Claim(t.Context(), keyOf(2), "tuner", time.Minute); !errors.Is(err, ErrDenied) {
		t.Errorf("claim: %v", err)
	}
}

func TestDirectoryIsFull(t *testing.T) {
	dir := disk(t, 0)
	f := open(t, Options{URL: "dir://" + dir})
	e := entryOf(1, 4, 20)
	e.Config = fmt.Appendf(nil, `{"threads":4,"filler":%q}`, strings.Repeat("x", 30_000))
	stored, full := 0, error(nil)
	for n := 0; n < 100 && full == nil; n++ {
		e.Model = fmt.Sprintf("%032x", n)
		if _, full = f.Push(t.Context(), e); full == nil {
			stored++
		}
	}
	if !errors.Is(full, ErrFull) || strings.Contains(full.Error(), "\n") {
		t.Fatalf("after %d entries: %v", stored, full)
	}
	got, report, err := f.Pull(t.Context(), Query{Class: e.Class})
	if err != nil || len(got) != stored || stored == 0 || len(report.Refused) > 0 {
		t.Errorf("pulled %d of %d: %v, %v", len(got), stored, report, err)
	}
	t.Logf("full after %d entries of 30 KB: %v", stored, full)
}

// What the file system says is told apart.
func TestDirectoryFailures(t *testing.T) {
	d := &directory{dir: "/shared"}
	for errno, want := range map[syscall.Errno]error{syscall.ENOSPC: ErrFull, syscall.EDQUOT: ErrFull, syscall.EACCES: ErrDenied, syscall.EPERM: ErrDenied,
		syscall.EROFS: ErrDenied, syscall.EIO: ErrUnavailable, syscall.ESTALE: ErrUnavailable, syscall.ENOENT: ErrUnavailable} {
		err := d.failure(&os.LinkError{Op: "link", Old: "a", New: "b", Err: errno})
		if !errors.Is(err, want) || !strings.HasPrefix(err.Error(), "directory /shared: link: "+errno.Error()) {
			t.Errorf("%v: %v, want %v", errno, err, want)
		}
	}
}

// A file system that does not come back keeps nobody longer than the timeout.
func TestDirectoryHangs(t *testing.T) {
	d := &directory{dir: t.TempDir(), timeout: 20 * time.Millisecond}
	free := make(chan struct{})
	defer close(free)
	_, err := within(t.Context(), d, func(*os.Root) (int, error) { <-free; return 0, nil })
	if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "no answer within 20ms") {
		t.Error(err)
	}
}

func TestDirectoryKeepsTwoRevisions(t *testing.T) {
	f, root, dir := here(t)
	for n := range 5 {
		push(t, f, entryOf(1, 4, n))
	}
	if got := fmt.Sprint(names(t, dir)); got != "[mixed@4.json mixed@5.json]" {
		t.Error(got)
	}
	if got := fmt.Sprint(names(t, root)); got != "[v1]" {
		t.Error(got)
	}
}

// What hosts that died left behind is removed in time, and what may still be in use is not.
func TestDirectoryRemovesWhatIsAbandoned(t *testing.T) {
	f, _, dir := here(t)
	push(t, f, entryOf(1, 4, 1))
	old, young := filepath.Join(dir, ".tmp-old"), filepath.Join(dir, ".tmp-young")
	must(t, os.WriteFile(old, []byte("half a docu"), 0o666))
	must(t, os.WriteFile(young, []byte("half a docu"), 0o666))
	must(t, os.Chtimes(old, time.Time{}, time.Now().Add(-2*abandoned)))
	push(t, f, entryOf(1, 4, 2))
	if got := fmt.Sprint(names(t, dir)); got != "[.tmp-young mixed@1.json mixed@2.json]" {
		t.Error(got)
	}
}

// A host that sleeps between reading and writing, while others write and prune, neither overwrites them nor believes
// that it was stored.
func TestDirectorySleeper(t *testing.T) {
	f, _, dir := here(t)
	for n := range 5 {
		push(t, f, entryOf(1, 4, n))
	}
	d := f.backend.(*directory)
	e := entryOf(1, 9, 100)
	doc, err := e.encode()
	must(t, err)
	root, err := os.OpenRoot(d.dir)
	must(t, err)
	defer root.Close()
	// It saw revision 1, and wakes up now: its next step is the link to revision 2, which was pruned.
	if ok, err := d.link(root, entryPath(e.Key), 1, doc); ok || err != nil {
		t.Errorf("the sleeper stored revision 2: %v, %v", ok, err)
	}
	if got := fmt.Sprint(names(t, dir)); got != "[mixed@4.json mixed@5.json]" {
		t.Error(got)
	}
	if outcome := push(t, f, e); outcome != Merged || string(pull(t, f, 1)[0].Config) != `{"threads":9}` {
		t.Errorf("the sleeper's next attempt: %s", outcome)
	}
}

// Things that are no files, or lead elsewhere, are neither waited for nor followed.
func TestDirectoryTraps(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(secret, []byte("secret"), 0o600))
	for name, set := range map[string]func(file string) error{
		"a pipe":      func(file string) error { return syscall.Mkfifo(file, 0o666) },
		"a directory": func(file string) error { return os.Mkdir(file, 0o777) },
		"a link out":  func(file string) error { return os.Symlink(secret, file) },
		"a link up":   func(file string) error { return os.Symlink("../../../../../../../etc/passwd", file) },
		"a huge file": func(file string) error {
			return errors.Join(os.WriteFile(file, nil, 0o666), os.Truncate(file, 1<<40))
		},
	} {
		f, _, dir := here(t)
		push(t, f, entryOf(1, 4, 1))
		must(t, set(filepath.Join(dir, "mixed@2.json")))
		got, report, err := f.Pull(t.Context(), Query{Class: keyOf(1).Class})
		if len(got) != 0 || err != nil || len(report.Refused) != 1 || !strings.HasPrefix(report.Refused[0], "fleet: entry ") {
			t.Errorf("%s: pulled %v, %v, %v", name, got, report, err)
		}
	}
}

// Hosts whose clocks disagree judge a claim by the clock of the file system.
func TestDirectoryClaimAge(t *testing.T) {
	f, root, _ := here(t)
	c, err := f.Claim(t.Context(), keyOf(1), "tuner", 10*time.Minute)
	must(t, err)
	file := filepath.Join(root, "v1", claimPath(keyOf(1))+"@1.json")
	for name, age := range map[string]time.Duration{"new": 0, "nine minutes": 9 * time.Minute, "a clock ahead": -9 * time.Minute} {
		must(t, os.Chtimes(file, time.Time{}, time.Now().Add(-age)))
		if _, err := f.Claim(t.Context(), keyOf(1), "other", time.Minute); !isClaimedBy(err, "tuner") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, age := range map[string]time.Duration{"an hour": time.Hour, "from the future": -time.Hour} {
		must(t, os.Chtimes(file, time.Time{}, time.Now().Add(-age)))
		if _, err := f.Await(t.Context(), keyOf(1)); !isFree(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t, c.Release(t.Context()))
}

// A revision after which there can be none ends a claim with an error, and no goroutine goes on trying.
func TestDirectoryLastRevision(t *testing.T) {
	f, root, _ := here(t)
	file := filepath.Join(root, "v1", claimPath(keyOf(1))+"@9223372036854775807.json")
	must(t, os.MkdirAll(filepath.Dir(file), 0o777))
	must(t, os.WriteFile(file, []byte(`{"holder":""}`), 0o666))
	d := f.backend.(*directory)
	d.timeout = 10 * time.Minute // it ends by itself
	if _, err := f.Claim(t.Context(), keyOf(1), "tuner", time.Minute); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "changed under") {
		t.Error(err)
	}
}
