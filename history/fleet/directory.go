package fleet

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// directory keeps each value in a file of its own that is never written again: DIR/v1/PATH@REVISION.json. A new one is
// complete under a hidden name before link(2), which fails where the name is taken, makes it the next revision: that is
// the compare-and-swap, and nobody holds a lock that he could die with. The greatest revision stands; the one before it
// is kept for those who have just seen it in a listing.
type directory struct {
	dir     string
	timeout time.Duration
}

func newDirectory(dir string, opt Options) (*directory, error) {
	if !filepath.IsAbs(dir) {
		return nil, errors.New("want three slashes, dir:///PATH")
	}
	if opt.CA != "" || opt.Cert != "" || opt.Key != "" || opt.User != "" || opt.Password != "" {
		return nil, errors.New("a directory knows no certificate, user or password")
	}
	return &directory{filepath.Clean(dir), opt.Timeout}, nil
}

func (d *directory) close() {}

// within does f in the directory, and gives up on it after the timeout: on a network that is away it may never end.
// The goroutine stays behind until it does.
func within[T any](ctx context.Context, d *directory, f func(root *os.Root) (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		root, err := os.OpenRoot(d.dir)
		if err != nil {
			done <- result{err: err}
			return
		}
		defer root.Close()
		value, err := f(root)
		done <- result{value, err}
	}()
	timer := time.NewTimer(d.timeout)
	defer timer.Stop()
	var none T
	select {
	case r := <-done:
		return r.value, d.failure(r.err)
	case <-timer.C:
		return none, fail(ErrUnavailable, "directory %s: no answer within %v", d.dir, d.timeout)
	case <-ctx.Done():
		return none, &failure{[]error{ErrUnavailable, ctx.Err()}, "directory " + d.dir + ": no answer in the time that was left"}
	}
}

// failure says which of the failures an error of the file system is.
func (d *directory) failure(err error) error {
	if err == nil {
		return nil
	}
	var known *failure
	if errors.As(err, &known) || errors.Is(err, ErrClaimed) {
		return err
	}
	var at *fs.PathError
	var link *os.LinkError
	text := err.Error()
	if errors.As(err, &at) {
		text = at.Op + ": " + at.Err.Error()
	} else if errors.As(err, &link) {
		text = link.Op + ": " + link.Err.Error()
	}
	kind, want := ErrUnavailable, ""
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EMLINK):
		kind = ErrFull
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		kind = ErrDenied
	case errors.Is(err, fs.ErrNotExist):
		want = ": want it made, or mounted, before it is used"
	}
	return fail(kind, "directory %s: %s%s", d.dir, text, want)
}

func (d *directory) base() string { return fmt.Sprintf("v%d", formatVersion) }

const suffix = ".json"

// file is the name of a revision of a path.
func (d *directory) file(p string, revision int64) string {
	return path.Join(d.base(), p) + "@" + strconv.FormatInt(revision, 10) + suffix
}

// revision is the inverse of file. No path has an @ in it.
func revision(name string) (p string, n int64, ok bool) {
	p, number, ok := strings.Cut(name, "@")
	number, ends := strings.CutSuffix(number, suffix)
	n, err := strconv.ParseInt(number, 10, 64)
	return p, n, ok && ends && err == nil && n > 0 && strconv.FormatInt(n, 10) == number
}

func (d *directory) list(ctx context.Context, prefix string) ([]string, error) {
	return within(ctx, d, func(root *os.Root) ([]string, error) {
		seen := map[string]bool{}
		err := fs.WalkDir(root.FS(), path.Join(d.base(), prefix), func(file string, entry fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // nothing yet, or replaced meanwhile
			}
			if err != nil {
				return err
			}
			p, _, ok := revision(strings.TrimPrefix(file, d.base()+"/"))
			if ok {
				seen[p] = true
			}
			if len(seen) == maxListed {
				return fs.SkipAll
			}
			return nil
		})
		return slices.Sorted(maps.Keys(seen)), err
	})
}

// newest is the greatest revision of a path, 0 for none, and the older ones.
func (d *directory) newest(root *os.Root, p string) (newest int64, older []int64, err error) {
	dir, name := path.Split(path.Join(d.base(), p))
	entries, err := fs.ReadDir(root.FS(), path.Clean(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil, nil
	}
	if err != nil {
		return 0, nil, err
	}
	for _, entry := range entries {
		if its, n, ok := revision(entry.Name()); ok && its == name {
			older = append(older, n)
		}
	}
	slices.Sort(older)
	if len(older) > 0 {
		newest, older = older[len(older)-1], older[:len(older)-1]
	}
	return newest, older, nil
}

func (d *directory) read(ctx context.Context, p string) (item, error) {
	return within(ctx, d, func(root *os.Root) (item, error) { return d.get(root, p) })
}

// get reads the newest revision, also while others replace it.
func (d *directory) get(root *os.Root, p string) (item, error) {
	var gone error
	for range maxAttempts {
		n, _, err := d.newest(root, p)
		if err != nil || n == 0 {
			return item{}, err
		}
		it, err := d.open(root, p, n)
		if !errors.Is(err, fs.ErrNotExist) {
			return it, err
		}
		gone = err
	}
	return item{}, gone
}

// open reads a revision. What is no file, such as a pipe or a link, is empty.
func (d *directory) open(root *os.Root, p string, n int64) (item, error) {
	info, err := root.Lstat(d.file(p, n))
	if err != nil || !info.Mode().IsRegular() {
		return item{revision: n}, err
	}
	file, err := root.OpenFile(d.file(p, n), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return item{}, err
	}
	defer file.Close()
	value, err := io.ReadAll(io.LimitReader(file, maxEntryBytes+1))
	return item{revision: n, value: value, at: info.ModTime()}, err
}

func (d *directory) swap(ctx context.Context, p string, was int64, value []byte) (bool, error) {
	return within(ctx, d, func(root *os.Root) (bool, error) { return d.replace(root, p, was, value) })
}

func (d *directory) replace(root *os.Root, p string, was int64, value []byte) (bool, error) {
	if n, _, err := d.newest(root, p); err != nil || n != was {
		return false, err
	}
	return d.link(root, p, was, value)
}

// link makes a value the revision after was, if there is none yet.
func (d *directory) link(root *os.Root, p string, was int64, value []byte) (bool, error) {
	dir := path.Dir(path.Join(d.base(), p))
	if err := makeAll(root, dir); err != nil {
		return false, err
	}
	temporary, now, err := d.temporary(root, dir, value)
	if err != nil {
		return false, err
	}
	defer root.Remove(temporary)
	target := d.file(p, was+1)
	if err := root.Link(temporary, target); err != nil && !sameFile(root, temporary, target) {
		if errors.Is(err, fs.ErrExist) {
			return false, nil
		}
		return false, err
	}
	// A host that slept since it looked may have made a revision that was pruned long ago. Only the greatest one stands.
	n, older, err := d.newest(root, p)
	if err != nil {
		return false, err
	}
	if n != was+1 {
		root.Remove(target)
		return false, nil
	}
	d.prune(root, p, older, now)
	return true, syncDir(root, dir)
}

// sameFile reports whether a link that failed was made after all: over a network the answer may have been lost.
func sameFile(root *os.Root, a, b string) bool {
	ia, erra := root.Stat(a)
	ib, errb := root.Stat(b)
	return erra == nil && errb == nil && os.SameFile(ia, ib)
}

// temporary writes a value under a hidden name, and returns the time by the clock of the file system.
func (d *directory) temporary(root *os.Root, dir string, value []byte) (name string, now time.Time, err error) {
	name = path.Join(dir, ".tmp-"+rand.Text())
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return "", now, err
	}
	_, err = file.Write(value)
	synced := file.Sync()
	info, known := file.Stat()
	if err = cmp.Or(err, synced, known, file.Close()); err != nil {
		root.Remove(name)
		return "", now, err
	}
	return name, info.ModTime(), nil
}

// abandoned is how old a hidden file is that nobody will link any more.
const abandoned = time.Hour

// prune removes all older revisions but one, and what hosts that died left behind. What cannot be removed does no harm.
func (d *directory) prune(root *os.Root, p string, older []int64, now time.Time) {
	for i := 0; i < len(older)-1; i++ {
		root.Remove(d.file(p, older[i]))
	}
	dir := path.Dir(path.Join(d.base(), p))
	entries, err := fs.ReadDir(root.FS(), dir)
	if err != nil {
		return
	}
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && strings.HasPrefix(entry.Name(), ".tmp-") && now.Sub(info.ModTime()) > abandoned {
			root.Remove(path.Join(dir, entry.Name()))
		}
	}
}

// now is the time by the clock of the file system.
func (d *directory) now(root *os.Root) (time.Time, error) {
	name := ".tmp-" + rand.Text()
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return time.Time{}, err
	}
	defer root.Remove(name)
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return time.Time{}, err
	}
	return info.ModTime(), nil
}

// makeAll makes a directory and syncs those that are new into their parents.
func makeAll(root *os.Root, dir string) error {
	if _, err := root.Stat(dir); err == nil || dir == "." {
		return nil
	}
	parent := path.Dir(dir)
	if err := makeAll(root, parent); err != nil {
		return err
	}
	if err := root.Mkdir(dir, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(root, parent)
}

func syncDir(root *os.Root, dir string) error {
	file, err := root.Open(dir)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := file.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) { // some network file systems know no such thing
		return err
	}
	return nil
}

func (d *directory) describe(_ context.Context, s *Status) {
	s.Backend, s.Endpoint = "directory", d.dir
}
