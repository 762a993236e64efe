package history

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"runtime/debug"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"
)

// bbolt trusts its file: it maps it, follows page numbers without a bound, and a damaged one ends the process by
// SIGBUS, by a stack without end, or by an allocation of any size. So the shape of the file is checked first with
// plain reads, what still goes wrong while it is mapped is turned into an error, and nobody waits for it without a
// bound.

// guard is one use of a database by bbolt.
type guard struct {
	path     string
	readOnly bool
	maxBytes int
	limit    time.Duration // how long it may take
}

// useLimit is how long one use of the database may take. It reads or writes a few megabytes at most, so even a disk
// that is busy with other things is done long before.
const useLimit = time.Minute

// longUse is how long making, copying or compacting a whole database may take: 10 million records on a slow disk.
const longUse = 30 * time.Minute

// cancelGrace is how long a use that is under way is waited for once its context has ended, so that whoever cancels a
// commit learns how it ended.
const cancelGrace = time.Second

// run opens the database, runs fn on it and closes it, all in one goroutine in which a fault is a panic and a panic is
// an error. With an error that wraps errStuck that goroutine is left behind, and bbolt's lock with it, which keeps
// every process from the file while it lasts: what fn writes must then not be read, nor written by others.
func (g guard) run(ctx context.Context, fn func(*bolt.DB) error) error {
	done := make(chan error, 1)
	go func() { done <- g.use(fn) }()
	limit := time.NewTimer(g.limit)
	defer limit.Stop()
	select {
	case err := <-done:
		return err
	case <-limit.C:
		return fmt.Errorf("%w: %w within %s", ErrCorrupt, errStuck, g.limit)
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(min(cancelGrace, g.limit)):
		return fmt.Errorf("%w, and %w", ctx.Err(), errStuck)
	}
}

// use is run without a bound.
func (g guard) use(fn func(*bolt.DB) error) (err error) {
	var file *os.File
	debug.SetPanicOnFault(true) // for this goroutine, which ends with this call
	defer func() {
		if cause := recover(); cause != nil {
			unlock(file)
			err = fmt.Errorf("%w: %w: %v", ErrCorrupt, errFault, cause)
		}
	}()
	db, err := bolt.Open(g.path, 0o600, &bolt.Options{
		ReadOnly:     g.readOnly,
		Timeout:      foreignLockTimeout,
		FreelistType: bolt.FreelistMapType,
		MaxSize:      g.maxBytes,
		NoStatistics: true,
		OpenFile: func(name string, flag int, perm os.FileMode) (*os.File, error) {
			var err error
			file, err = os.OpenFile(name, flag&^os.O_CREATE, perm)
			return file, err
		},
	})
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return fmt.Errorf("%w: another program has it open", ErrBusy)
	case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrChecksum), errors.Is(err, berrors.ErrVersionMismatch), err != nil && g.short():
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	case err != nil:
		return err
	}
	return errors.Join(fn(db), db.Close())
}

// short reports whether the file is less than the two pages below which bbolt maps nothing; its error for that has no
// type. It is met where a file is cut between its validation and its opening.
func (g guard) short() bool {
	info, err := os.Stat(g.path)
	return err == nil && info.Size() < int64(2*os.Getpagesize())
}

// errFault marks a panic of bbolt: the mapping of that file is lost to this process. errStuck marks a use that was
// given up while it was under way.
var (
	errFault = errors.New("bbolt gave up")
	errStuck = errors.New("bbolt did not come to an end")
)

// foreignLockTimeout is how long bbolt waits for its own lock, which only a program that ignores ours can hold.
const foreignLockTimeout = 500 * time.Millisecond

// unlock releases bbolt's lock after a panic. Closing the file would not: the mapping, which nothing can undo any
// more, keeps its description alive.
func unlock(file *os.File) {
	if file != nil {
		unix.Flock(int(file.Fd()), unix.LOCK_UN)
	}
}

// bbolt's file format, as far as preflight reads it. Numbers are in the byte order of the host, which is little-endian
// on every platform that this package is built for.
const (
	pageHeaderBytes = 16
	elementBytes    = 16 // of branch and of leaf pages
	metaBytes       = 64
	bucketBytes     = 16

	boltMagic   = 0xED0CDAED
	boltVersion = 2

	flagBranch   = 0x01
	flagLeaf     = 0x02
	flagFreelist = 0x10
	flagBucket   = 0x01 // of a leaf element

	noFreelist = 1<<64 - 1 // where a meta page says that the list of free pages is not stored

	maxPageBytes = 1 << 16
	maxOverflow  = 16 // pages that continue the leaf of the buckets
	maxDepth     = 16
)

// pages reads the pages of a bbolt file.
type pages struct {
	file io.ReaderAt
	size uint64 // of a page
	high uint64 // the first page number that is not in use
	seen []bool // pages that something points to
}

// preflight checks, by reading alone, that the file is a bbolt database which bbolt can walk: that one of its metas is
// good, that the file is as long as it says, that the list of free pages is no longer than the file, and that every
// pointer of its trees leads to a page inside the file that nothing else points to, to a branch above the leaves and
// to a leaf below. Of a leaf it reads the header alone, 16 bytes. What stands on the leaves it does
// not check. A warning says that one meta is damaged, which happens when the power fails during a commit that nobody
// was told of, but also hides the last commit when it happens later.
func preflight(path string) (warning, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: it is not a regular file", ErrForeign)
	}
	m, warning, err := readMetas(file)
	if err != nil {
		return nil, err
	}
	if m.high > uint64(info.Size())/m.pageSize {
		return nil, fmt.Errorf("%w: %d pages of %d bytes do not fit in %d bytes: the file was cut short", ErrCorrupt, m.high, m.pageSize, info.Size())
	}
	p := &pages{file: file, size: m.pageSize, high: m.high, seen: make([]bool, m.high)}
	if _, err := p.freelist(m.freelist); err != nil {
		return nil, err
	}
	roots, err := p.tree(m.root)
	if err != nil {
		return nil, err
	}
	return warning, p.bucketTrees(roots)
}

// boltMeta is what a meta page says.
type boltMeta struct{ pageSize, root, freelist, high, txid uint64 }

// readMetas returns the newer of the two metas.
func readMetas(file io.ReaderAt) (newest boltMeta, warning, err error) {
	first, err0 := readMeta(file, 0)
	pageSize := first.pageSize
	if err0 != nil {
		pageSize = uint64(os.Getpagesize())
	}
	second, err1 := readMeta(file, pageSize)
	switch {
	case err0 != nil && err1 != nil:
		return boltMeta{}, nil, err0
	case err0 != nil:
		return second, fmt.Errorf("first meta page: %w; the last commit may be lost", err0), nil
	case err1 != nil:
		return first, fmt.Errorf("second meta page: %w; the last commit may be lost", err1), nil
	case second.txid > first.txid:
		return second, nil, nil
	}
	return first, nil, nil
}

// readMeta reads the meta page at an offset.
func readMeta(file io.ReaderAt, offset uint64) (boltMeta, error) {
	var page [pageHeaderBytes + metaBytes]byte
	if _, err := file.ReadAt(page[:], int64(offset)); err != nil {
		return boltMeta{}, fmt.Errorf("%w: too short for a bbolt database", ErrCorrupt)
	}
	raw := page[pageHeaderBytes:]
	if binary.LittleEndian.Uint32(raw) != boltMagic || binary.LittleEndian.Uint32(raw[4:]) != boltVersion {
		return boltMeta{}, fmt.Errorf("%w: not a bbolt database", ErrCorrupt)
	}
	sum := fnv.New64a()
	sum.Write(raw[:56])
	m := boltMeta{
		pageSize: uint64(binary.LittleEndian.Uint32(raw[8:])),
		root:     binary.LittleEndian.Uint64(raw[16:]),
		freelist: binary.LittleEndian.Uint64(raw[32:]),
		high:     binary.LittleEndian.Uint64(raw[40:]),
		txid:     binary.LittleEndian.Uint64(raw[48:]),
	}
	if sum.Sum64() != binary.LittleEndian.Uint64(raw[56:]) || m.pageSize < 1024 || m.pageSize > maxPageBytes || m.pageSize&(m.pageSize-1) != 0 {
		return boltMeta{}, fmt.Errorf("%w: checksum differs", ErrCorrupt)
	}
	return m, nil
}

// claim notes that something points to a page; a second pointer to it, or one outside the file, is damage.
func (p *pages) claim(id uint64) error {
	if id < 2 || id >= p.high || p.seen[id] {
		return fmt.Errorf("%w: a pointer to page %d of %d is wrong", ErrCorrupt, id, p.high)
	}
	p.seen[id] = true
	return nil
}

// claimRest claims the pages that continue a page, given its header. bbolt frees each of them when it writes the page
// anew, so a damaged number of them would take memory without a bound.
func (p *pages) claimRest(id uint64, header []byte) error {
	for rest := uint64(binary.LittleEndian.Uint32(header[12:])); rest > 0; rest-- {
		id++
		if err := p.claim(id); err != nil {
			return fmt.Errorf("continuation: %w", err)
		}
	}
	return nil
}

// read returns the first bytes of the page of that number, and its kind.
func (p *pages) read(id uint64, bytes uint64) (page []byte, flags uint16, err error) {
	if id < 2 || id >= p.high {
		return nil, 0, fmt.Errorf("%w: page %d of %d does not exist", ErrCorrupt, id, p.high)
	}
	page = make([]byte, bytes)
	if _, err := p.file.ReadAt(page, int64(id*p.size)); err != nil {
		return nil, 0, fmt.Errorf("page %d: %w", id, err)
	}
	if got := binary.LittleEndian.Uint64(page); got != id {
		return nil, 0, fmt.Errorf("%w: page %d says that it is page %d", ErrCorrupt, id, got)
	}
	return page, binary.LittleEndian.Uint16(page[8:]), nil
}

// freelist checks that the list of free pages at id fits in the pages that it has, so that bbolt neither reads nor
// allocates without a bound, and returns how many it names.
func (p *pages) freelist(id uint64) (count uint64, err error) {
	if id == noFreelist {
		return 0, fmt.Errorf("%w: its list of free pages is not stored, and ours always is", ErrForeign)
	}
	page, flags, err := p.read(id, p.size)
	if err == nil {
		err = p.claim(id)
	}
	if err == nil {
		err = p.claimRest(id, page)
	}
	if err != nil {
		return 0, fmt.Errorf("list of free pages: %w", err)
	}
	count = uint64(binary.LittleEndian.Uint16(page[10:]))
	if count == 0xFFFF {
		count = 1 + binary.LittleEndian.Uint64(page[pageHeaderBytes:])
	}
	room := ((1+uint64(binary.LittleEndian.Uint32(page[12:])))*p.size - pageHeaderBytes) / 8
	if flags != flagFreelist || count > room || count > p.high {
		return 0, fmt.Errorf("%w: list of free pages: %d entries on a page of kind %#x", ErrCorrupt, count, flags)
	}
	return count, nil
}

// freePages returns how many pages of a sound database are free, and how many it has.
func freePages(path string) (free, all uint64, err error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, 0, err
	}
	defer file.Close()
	m, _, err := readMetas(file)
	if err != nil {
		return 0, 0, err
	}
	p := &pages{file: file, size: m.pageSize, high: m.high, seen: make([]bool, m.high)}
	free, err = p.freelist(m.freelist)
	return free, m.high, err
}

// tree walks the branch pages under root and returns the numbers of the leaves.
func (p *pages) tree(root uint64) ([]uint64, error) {
	if err := p.claim(root); err != nil {
		return nil, err
	}
	level := []uint64{root}
	for range maxDepth {
		_, flags, err := p.read(level[0], pageHeaderBytes)
		if err != nil {
			return nil, err
		}
		if flags == flagLeaf {
			return level, p.leaves(level) // they all lie on one level
		}
		var below []uint64
		for _, id := range level {
			if below, err = p.children(below, id); err != nil {
				return nil, err
			}
		}
		level = below
	}
	return nil, fmt.Errorf("%w: tree of more than %d levels", ErrCorrupt, maxDepth)
}

// leaves checks that each page of a level is a leaf: bbolt takes what is none for a branch, and follows what it finds
// there for ever.
func (p *pages) leaves(level []uint64) error {
	for _, id := range level {
		header, flags, err := p.read(id, pageHeaderBytes)
		if err != nil {
			return err
		}
		if flags != flagLeaf {
			return fmt.Errorf("%w: page %d: kind %#x where a leaf belongs", ErrCorrupt, id, flags)
		}
		if err := p.claimRest(id, header); err != nil {
			return fmt.Errorf("page %d: %w", id, err)
		}
	}
	return nil
}

// children appends the pages that a branch page points to.
func (p *pages) children(below []uint64, id uint64) ([]uint64, error) {
	page, flags, err := p.read(id, p.size)
	if err != nil {
		return nil, err
	}
	count := int(binary.LittleEndian.Uint16(page[10:]))
	if flags != flagBranch || count == 0 || pageHeaderBytes+count*elementBytes > len(page) {
		return nil, fmt.Errorf("%w: page %d: %d elements, kind %#x, where a branch belongs", ErrCorrupt, id, count, flags)
	}
	if err := p.claimRest(id, page); err != nil {
		return nil, fmt.Errorf("page %d: %w", id, err)
	}
	for at := pageHeaderBytes; at < pageHeaderBytes+count*elementBytes; at += elementBytes {
		pos, ksize := binary.LittleEndian.Uint32(page[at:]), binary.LittleEndian.Uint32(page[at+4:])
		if uint64(at)+uint64(pos)+uint64(ksize) > uint64(len(page)) {
			return nil, fmt.Errorf("%w: page %d: a key does not fit", ErrCorrupt, id)
		}
		child := binary.LittleEndian.Uint64(page[at+8:])
		if err := p.claim(child); err != nil {
			return nil, fmt.Errorf("page %d: %w", id, err)
		}
		below = append(below, child)
	}
	return below, nil
}

// bucketTrees walks the tree of every bucket that the leaves of the root tree name.
func (p *pages) bucketTrees(leaves []uint64) error {
	for _, id := range leaves {
		roots, err := p.bucketRoots(id)
		if err != nil {
			return err
		}
		for _, root := range roots {
			if _, err := p.tree(root); err != nil {
				return err
			}
		}
	}
	return nil
}

// bucketRoots returns the root pages of the buckets on a leaf; small buckets lie inline and have none.
func (p *pages) bucketRoots(id uint64) ([]uint64, error) {
	header, flags, err := p.read(id, pageHeaderBytes)
	if err != nil {
		return nil, err
	}
	count, overflow := int(binary.LittleEndian.Uint16(header[10:])), uint64(binary.LittleEndian.Uint32(header[12:]))
	if flags != flagLeaf || overflow > maxOverflow || id+overflow >= p.high {
		return nil, fmt.Errorf("%w: page %d: kind %#x, %d pages more, where the leaf of the buckets belongs", ErrCorrupt, id, flags, overflow)
	}
	page, _, err := p.read(id, (1+overflow)*p.size)
	if err != nil {
		return nil, err
	}
	if pageHeaderBytes+count*elementBytes > len(page) {
		return nil, fmt.Errorf("%w: page %d: %d elements do not fit", ErrCorrupt, id, count)
	}
	var roots []uint64
	for at := pageHeaderBytes; at < pageHeaderBytes+count*elementBytes; at += elementBytes {
		value, err := bucketValue(page, at)
		if err != nil {
			return nil, fmt.Errorf("page %d: %w", id, err)
		}
		if root := binary.LittleEndian.Uint64(value); root != 0 {
			roots = append(roots, root)
		} else if err := inline(value[bucketBytes:]); err != nil {
			return nil, fmt.Errorf("page %d: %w", id, err)
		}
	}
	return roots, nil
}

// inline checks the page of a small bucket, which lies in the bucket's value: like any other it must be a leaf.
func inline(page []byte) error {
	if len(page) < pageHeaderBytes {
		return fmt.Errorf("%w: a small bucket of %d bytes", ErrCorrupt, len(page))
	}
	count, flags := int(binary.LittleEndian.Uint16(page[10:])), binary.LittleEndian.Uint16(page[8:])
	if flags != flagLeaf || pageHeaderBytes+count*elementBytes > len(page) {
		return fmt.Errorf("%w: a small bucket: %d elements, kind %#x, where a leaf belongs", ErrCorrupt, count, flags)
	}
	return nil
}

// bucketValue returns the value of the element at an offset of a leaf on which there are only buckets.
func bucketValue(page []byte, at int) ([]byte, error) {
	kind := binary.LittleEndian.Uint32(page[at:])
	from := uint64(at) + uint64(binary.LittleEndian.Uint32(page[at+4:])) + uint64(binary.LittleEndian.Uint32(page[at+8:]))
	size := uint64(binary.LittleEndian.Uint32(page[at+12:]))
	if kind != flagBucket || size < bucketBytes || from+size > uint64(len(page)) {
		return nil, fmt.Errorf("%w: an element is no bucket or does not fit", ErrCorrupt)
	}
	return page[from : from+size], nil
}
