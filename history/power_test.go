package history

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	states    = flag.Int("states", 300, "how many states of a power failure TestPowerFailure makes")
	powerSeed = flag.Uint64("powerseed", 1, "which ones")
)

// A power failure leaves what was synced, any part of what was written since, and the names as they were at the last
// sync of the directory or at any later moment. strace tells what a process wrote and synced; from that every state
// that a failure could have left can be made, without root and without a special filesystem.

// childPower makes a store and uses it, and says which records were acknowledged.
func childPower(ctx context.Context, args []string) error {
	s, err := Open(args[0], Options{})
	if err != nil {
		return err
	}
	seq := uint32(0)
	kept := func(err error) error {
		if err != nil {
			return err
		}
		seq += 3
		_, err = fmt.Printf("kept %d\n", seq)
		return err
	}
	for i := range 24 {
		recs := samples(1, seq, seq+3)
		switch i % 6 {
		case 2:
			err = kept(s.spool(spooledSamples(recs)))
		case 3:
			if _, err = s.Backup(ctx, ""); err == nil {
				err = kept(s.Append(ctx, recs...))
			}
		case 4:
			if err = s.Publish(ctx, learned(modelA, "decode", i)); err == nil {
				fmt.Printf("published %d\n", i)
				err = kept(s.Append(ctx, recs...))
			}
		case 5:
			if _, _, err = s.Compact(ctx); err == nil {
				err = kept(s.Append(ctx, recs...))
			}
		default:
			err = kept(s.Append(ctx, recs...))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// event is one system call of the traced process.
type event struct {
	call   string
	inode  int    // of a write, truncate, sync or create
	offset int64  // of a write; the size of a truncate
	data   []byte // of a write
	names  [2]string
}

// tracePower runs childPower under strace and returns its events. Names are relative to the directory.
func tracePower(t *testing.T) []event {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	log := filepath.Join(t.TempDir(), "log")
	inner := child(t, "power", dir)
	straced(t, "copy_file_range:error=ENOSYS", inner) // skips where there is none
	argv := append([]string{"-f", "-xx", "-s", "4194304", "-o", log, "-e", "inject=copy_file_range:error=ENOSYS",
		"-e", "trace=openat,close,pwrite64,write,ftruncate,fsync,fdatasync,renameat,renameat2,linkat,unlinkat,mkdirat", inner.Path}, inner.Args[1:]...)
	if out, err := exec.CommandContext(t.Context(), "strace", argv...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	file, err := os.Open(log)
	must(t, err)
	defer file.Close()
	p := tracer{dir: dir, files: map[string]int{}, fds: map[string]int{}, dirs: map[string]string{}, open: map[string]string{}}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		p.line(lines.Text())
	}
	must(t, lines.Err())
	if p.lost > 0 {
		t.Fatalf("%d writes to files that were never opened: the trace was not understood", p.lost)
	}
	return p.events
}

// tracer reads the lines of strace.
type tracer struct {
	dir    string
	events []event
	files  map[string]int    // inode by name
	fds    map[string]int    // inode by file descriptor
	dirs   map[string]string // directory by file descriptor
	open   map[string]string // by thread: the call that has not returned
	inodes int
	lost   int // writes to a file that is not known
}

// line reads "PID CALL(ARGUMENTS) = RESULT", which strace splits where another thread comes in between.
func (p *tracer) line(line string) {
	pid, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	if call, ok := strings.CutSuffix(rest, " <unfinished ...>"); ok {
		p.open[pid] = call
		if fd, ok := strings.CutPrefix(call, "close("); ok { // it may be another file's before this returns
			p.call("close", []string{fd}, "0")
			p.open[pid] = ""
		}
		return
	}
	if strings.HasPrefix(rest, "<... ") {
		_, end, _ := strings.Cut(rest, " resumed>")
		rest = p.open[pid] + end
	}
	at := strings.LastIndex(rest, " = ")
	if at < 0 {
		return
	}
	name, args, ok := strings.Cut(strings.TrimSuffix(strings.TrimSpace(rest[:at]), ")"), "(")
	if result, _, _ := strings.Cut(rest[at+3:], " "); ok && result != "-1" {
		p.call(name, strings.Split(args, ", "), result)
	}
}

// text reads a string that strace has written in hex digits.
func text(arg string) []byte {
	arg = strings.Trim(arg, `"`)
	b := make([]byte, 0, len(arg)/4)
	for i := 0; i+4 <= len(arg); i += 4 {
		n, _ := strconv.ParseUint(arg[i+2:i+4], 16, 8)
		b = append(b, byte(n))
	}
	return b
}

// name is a path relative to the directory, "" outside it.
func (p *tracer) name(arg string) string {
	name, err := filepath.Rel(p.dir, string(text(arg)))
	if err != nil || strings.HasPrefix(name, "..") {
		return ""
	}
	return name
}

func (p *tracer) call(call string, args []string, result string) {
	e := event{call: call}
	switch call {
	case "openat":
		p.opened(p.name(args[1]), args[2], result)
		return
	case "close":
		delete(p.fds, args[0])
		delete(p.dirs, args[0])
		return
	case "mkdirat":
		e.names[0] = p.name(args[1])
	case "unlinkat":
		e.names[0] = p.name(args[1])
		delete(p.files, e.names[0])
	case "renameat", "renameat2", "linkat":
		e.names = [2]string{p.name(args[1]), p.name(args[3])}
		p.files[e.names[1]] = p.files[e.names[0]]
		if call != "linkat" {
			e.call = "renameat"
			delete(p.files, e.names[0])
		}
	case "write":
		if args[0] != "1" {
			e.inode, e.offset = p.fds[args[0]], -1 // appends
		}
		e.data = text(args[1])
	default:
		e.inode = p.fds[args[0]]
		if call == "pwrite64" && e.inode == 0 {
			p.lost++
		}
		if dir, ok := p.dirs[args[0]]; ok {
			e.call, e.names[0] = "syncdir", dir
		}
		if call == "pwrite64" {
			e.data = text(args[1])
			e.offset, _ = strconv.ParseInt(args[3], 10, 64)
		} else if call == "ftruncate" {
			e.offset, _ = strconv.ParseInt(args[1], 10, 64)
		}
	}
	if e.names[0] != "" || e.inode > 0 || call == "write" && args[0] == "1" {
		p.events = append(p.events, e)
	}
}

// opened notes what a file descriptor stands for, and a file that was made or emptied.
func (p *tracer) opened(name, flags, fd string) {
	delete(p.fds, fd)
	delete(p.dirs, fd)
	inode, there := p.files[name]
	switch {
	case name == "":
		return
	case strings.Contains(flags, "O_CREAT") && !there:
		p.inodes++
		inode = p.inodes
		p.files[name] = inode
		p.events = append(p.events, event{call: "create", inode: inode, names: [2]string{name}})
	case !there:
		p.dirs[fd] = name
		return
	case strings.Contains(flags, "O_TRUNC"):
		p.events = append(p.events, event{call: "ftruncate", inode: inode})
	}
	p.fds[fd] = inode
}

// disk is what stands on a disk: the content of inodes and the names in the directory.
type disk struct {
	content map[int][]byte
	names   map[string]int // 0 is a directory
}

func newDisk() disk { return disk{map[int][]byte{}, map[string]int{}} }

// apply carries a call out. Of a write, keep says which blocks of 512 bytes reach the disk.
func (d disk) apply(e event, keep func(block int) bool) {
	switch e.call {
	case "create":
		d.names[e.names[0]] = e.inode
	case "mkdirat":
		d.names[e.names[0]] = 0
	case "unlinkat":
		delete(d.names, e.names[0])
	case "renameat", "linkat":
		if inode, ok := d.names[e.names[0]]; ok {
			d.names[e.names[1]] = inode
			if e.call == "renameat" {
				delete(d.names, e.names[0])
			}
		}
	case "ftruncate":
		d.content[e.inode] = resized(d.content[e.inode], e.offset)
	case "pwrite64", "write":
		offset := e.offset
		if offset < 0 {
			offset = int64(len(d.content[e.inode]))
		}
		content := resized(d.content[e.inode], max(int64(len(d.content[e.inode])), offset+int64(len(e.data))))
		for block := 0; block*512 < len(e.data); block++ {
			if part := e.data[block*512 : min(len(e.data), block*512+512)]; keep(block) {
				copy(content[offset+int64(block*512):], part)
			}
		}
		d.content[e.inode] = content
	}
}

func resized(b []byte, size int64) []byte {
	if int64(len(b)) >= size {
		return slices.Clone(b[:size])
	}
	return append(slices.Clone(b), make([]byte, size-int64(len(b)))...)
}

func aboutNames(call string) bool {
	return slices.Contains([]string{"create", "mkdirat", "unlinkat", "renameat", "linkat"}, call)
}

// failure makes the state that a power failure after some events leaves: what is synced, and of the rest a part by lot.
// Changes of names reach the disk in their order, as in a journal.
func failure(events []event, random *rand.Rand) disk {
	d := newDisk()
	var names []event
	writes := map[int][]event{}
	everything := func(int) bool { return true }
	for _, e := range events {
		switch {
		case aboutNames(e.call):
			names = append(names, e)
		case e.call == "syncdir":
			synced := 0
			for i, n := range names { // what came before the last change of that directory is in the journal before it
				if filepath.Dir(n.names[0]) == e.names[0] {
					synced = i + 1
				}
			}
			for _, n := range names[:synced] {
				d.apply(n, everything)
			}
			names = names[synced:]
		case e.call == "fsync", e.call == "fdatasync":
			for _, w := range writes[e.inode] {
				d.apply(w, everything)
			}
			writes[e.inode] = nil
		case e.inode > 0:
			writes[e.inode] = append(writes[e.inode], e)
		}
	}
	for _, n := range names[:random.IntN(len(names)+1)] {
		d.apply(n, everything)
	}
	share := []float64{0, 0.1, 0.5, 0.9, 1}[random.IntN(5)]
	torn := random.IntN(2) == 0 // pages in parts, or whole
	for _, inode := range slices.Sorted(maps.Keys(writes)) {
		for _, w := range writes[inode] {
			whole := random.Float64() < share
			if !whole && w.call == "ftruncate" {
				continue
			}
			last, page := false, -1
			d.apply(w, func(block int) bool {
				if torn || block/8 != page {
					page, last = block/8, random.Float64() < share
				}
				return whole || last
			})
		}
	}
	return d
}

// write puts a state into a directory.
func (d disk) write(dir string) error {
	for name, inode := range d.names {
		path := filepath.Join(dir, name)
		if inode == 0 {
			if err := os.MkdirAll(path, 0o700); err != nil {
				return err
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, d.content[inode], 0o600); err != nil {
			return err
		}
	}
	return nil
}

// acknowledged returns how many records and which config events say are kept.
func acknowledged(events []event) (records, published int) {
	for _, e := range events {
		if e.call == "write" && e.inode == 0 {
			for line := range bytes.Lines(e.data) {
				fmt.Sscanf(string(line), "kept %d", &records)
				fmt.Sscanf(string(line), "published %d", &published)
			}
		}
	}
	return records, published
}

// survives opens what a power failure left, and wants what was acknowledged without a repair.
func survives(ctx context.Context, dir string, records, published int) error {
	s, err := Open(dir, Options{BackupEvery: -1})
	if err != nil {
		return err
	}
	if err := s.PutRun(ctx, Run{ID: 99, Host: hostA, Model: modelA}); err != nil { // takes what is in the spool
		return err
	}
	seen := map[uint32]bool{}
	if err := s.Records(ctx, Filter{Run: 1}, func(r Record) error { seen[r.Seq] = true; return nil }); err != nil {
		return err
	}
	for seq := range uint32(records) {
		if !seen[seq] {
			return fmt.Errorf("record %d of %d acknowledged ones is not there", seq, records)
		}
	}
	snap, err := ReadSnapshot(dir)
	if published > 0 && (err != nil || snap.Learned[0].Evaluations < published) {
		return fmt.Errorf("config %d was published: %+v, %w", published, snap, err)
	}
	if _, err := os.Stat(filepath.Join(dir, quarantineName)); !errors.Is(err, fs.ErrNotExist) {
		return errors.New("something went to quarantine")
	}
	report, err := s.Check(ctx)
	if err != nil || !report.OK {
		return fmt.Errorf("%+v, %w", report, err)
	}
	return nil
}

// memoryDir is a directory in memory, where syncs cost nothing.
func memoryDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "history")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// failAt makes one state of a power failure, and returns what is wrong with it.
func failAt(t *testing.T, base string, events []event, random *rand.Rand) error {
	t.Helper()
	until := random.IntN(len(events) + 1)
	dir, err := os.MkdirTemp(base, "")
	must(t, err)
	defer os.RemoveAll(dir)
	must(t, failure(events[:until], random).write(dir))
	records, published := acknowledged(events[:until])
	if err := survives(t.Context(), dir, records, published); err != nil {
		return fmt.Errorf("after event %d of %d: %w", until, len(events), err)
	}
	return nil
}

func TestPowerFailure(t *testing.T) {
	events := tracePower(t)
	if n, _ := acknowledged(events); n != 72 {
		t.Fatalf("the trace of %d events says that %d records were kept, want 72", len(events), n)
	}
	base := memoryDir(t)
	random := rand.New(rand.NewPCG(*powerSeed, 1))
	for state := range *states {
		if err := failAt(t, base, events, random); err != nil {
			t.Fatalf("state %d: %v", state, err)
		}
	}
	t.Logf("%d states of a power failure within %d writes, syncs and renames: every acknowledged record there, none damaged", *states, len(events))
}

// Without its syncs the same trace leaves damage: the states above are not all harmless.
func TestPowerFailureWithoutSyncs(t *testing.T) {
	events := tracePower(t)
	events = slices.DeleteFunc(events, func(e event) bool { return e.call == "fsync" || e.call == "fdatasync" || e.call == "syncdir" })
	base, bad := memoryDir(t), 0
	random := rand.New(rand.NewPCG(1, 1))
	const states = 60
	for range states {
		if failAt(t, base, events, random) != nil {
			bad++
		}
	}
	if bad < states/2 {
		t.Errorf("%d of %d states without a sync are bad, want at least half", bad, states)
	}
	t.Logf("without syncs %d of %d states are bad", bad, states)
}
