package history

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

var corruptions = flag.Int("corruptions", 6, "how many files TestCorruptFiles makes of each kind of damage")

// victim is what the damage is done to: the current file, and an older version of it for stale pages.
type victim struct{ now, old []byte }

const pageSize = 4096

func (v victim) page(r *rand.Rand) int { return r.IntN(len(v.now) / pageSize) }

// pagesOf lists the pages of one kind.
func (v victim) pagesOf(flag uint16) (ids []int) {
	for id := range len(v.now) / pageSize {
		if binary.LittleEndian.Uint16(v.now[id*pageSize+8:]) == flag && binary.LittleEndian.Uint64(v.now[id*pageSize:]) == uint64(id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// reached reads the file as preflight does and says which pages something points to.
func (v victim) reached() []bool {
	file := bytes.NewReader(v.now)
	m, _, err := readMetas(file)
	if err != nil {
		panic(err)
	}
	p := &pages{file: file, size: m.pageSize, high: m.high, seen: make([]bool, m.high)}
	roots, err := p.tree(m.root)
	if err != nil {
		panic(err)
	}
	if err := p.bucketTrees(roots); err != nil {
		panic(err)
	}
	return p.seen
}

// misled returns, for one kind of page, every branch of the tree and every page of that kind that is not in the tree.
func (v victim) misled(flag uint16) (branches, targets []int) {
	reached := v.reached()
	for _, id := range v.pagesOf(flagBranch) {
		if reached[id] {
			branches = append(branches, id)
		}
	}
	for _, id := range v.pagesOf(flag) {
		if !reached[id] {
			targets = append(targets, id)
		}
	}
	return branches, targets
}

// mislead points an element of a branch of the tree at a page that is not in the tree.
func mislead(flag uint16) func(v victim, f []byte, r *rand.Rand) []byte {
	return func(v victim, f []byte, r *rand.Rand) []byte {
		branches, targets := v.misled(flag)
		at := branches[r.IntN(len(branches))] * pageSize
		element := r.IntN(int(binary.LittleEndian.Uint16(f[at+10:])))
		binary.LittleEndian.PutUint64(f[at+16+16*element+8:], uint64(targets[r.IntN(len(targets))]))
		return f
	}
}

func fill(r *rand.Rand, b []byte) {
	for i := range b {
		b[i] = byte(r.Uint32())
	}
}

// forge changes a field of the newest meta and gives it a good checksum.
func forge(file []byte, r *rand.Rand, offset int, value uint64) {
	at := pageHeaderBytes
	if binary.LittleEndian.Uint64(file[pageSize+pageHeaderBytes+48:]) > binary.LittleEndian.Uint64(file[pageHeaderBytes+48:]) {
		at += pageSize
	}
	binary.LittleEndian.PutUint64(file[at+offset:], value)
	sum := fnv.New64a()
	sum.Write(file[at : at+56])
	binary.LittleEndian.PutUint64(file[at+56:], sum.Sum64())
}

// damages are the kinds of damage. Each returns the damaged file.
var damages = []struct {
	name string
	do   func(v victim, file []byte, r *rand.Rand) []byte
}{
	{"one bit", func(v victim, f []byte, r *rand.Rand) []byte { f[r.IntN(len(f))] ^= 1 << r.IntN(8); return f }},
	{"sixteen bytes", func(v victim, f []byte, r *rand.Rand) []byte { fill(r, f[r.IntN(len(f)-16):][:16]); return f }},
	{"zeroed sector", func(v victim, f []byte, r *rand.Rand) []byte { clear(f[r.IntN(len(f)/512)*512:][:512]); return f }},
	{"zeroed page", func(v victim, f []byte, r *rand.Rand) []byte { clear(f[v.page(r)*pageSize:][:pageSize]); return f }},
	{"random page", func(v victim, f []byte, r *rand.Rand) []byte { fill(r, f[v.page(r)*pageSize:][:pageSize]); return f }},
	{"stale page", func(v victim, f []byte, r *rand.Rand) []byte {
		at := r.IntN(len(v.old)/pageSize) * pageSize
		copy(f[at:at+pageSize], v.old[at:])
		return f
	}},
	{"swapped pages", func(v victim, f []byte, r *rand.Rand) []byte {
		a, b := v.page(r)*pageSize, v.page(r)*pageSize
		copy(f[a:a+pageSize], v.now[b:])
		copy(f[b:b+pageSize], v.now[a:])
		return f
	}},
	{"page header", func(v victim, f []byte, r *rand.Rand) []byte {
		f[v.page(r)*pageSize+r.IntN(16)] ^= byte(1 + r.IntN(255))
		return f
	}},
	{"page element", func(v victim, f []byte, r *rand.Rand) []byte {
		f[v.page(r)*pageSize+16+r.IntN(16*20)] ^= byte(1 + r.IntN(255))
		return f
	}},
	{"pointer of a branch", func(v victim, f []byte, r *rand.Rand) []byte {
		branches := v.pagesOf(flagBranch)
		id := branches[r.IntN(len(branches))]
		element := r.IntN(int(binary.LittleEndian.Uint16(f[id*pageSize+10:])))
		target := []int{id, v.page(r), branches[r.IntN(len(branches))], 1 << 40}[r.IntN(4)]
		binary.LittleEndian.PutUint64(f[id*pageSize+16+16*element+8:], uint64(target))
		return f
	}},
	{"branch to a list of free pages", mislead(flagFreelist)},
	{"branch to a stale branch", mislead(flagBranch)},
	{"branch to a stale leaf", mislead(flagLeaf)},
	{"continuation of a page", func(v victim, f []byte, r *rand.Rand) []byte {
		binary.LittleEndian.PutUint32(f[v.page(r)*pageSize+12:], r.Uint32()>>r.IntN(32))
		return f
	}},
	{"size of an element", func(v victim, f []byte, r *rand.Rand) []byte {
		leaves := v.pagesOf(flagLeaf)
		id := leaves[r.IntN(len(leaves))]
		binary.LittleEndian.PutUint32(f[id*pageSize+16+16*r.IntN(6)+4*r.IntN(4):], r.Uint32()>>r.IntN(32))
		return f
	}},
	{"count of a page", func(v victim, f []byte, r *rand.Rand) []byte {
		binary.LittleEndian.PutUint16(f[v.page(r)*pageSize+10:], uint16(r.Uint32()))
		return f
	}},
	{"list of free pages", func(v victim, f []byte, r *rand.Rand) []byte {
		for _, id := range v.pagesOf(flagFreelist) {
			binary.LittleEndian.PutUint16(f[id*pageSize+10:], []uint16{0xFFFF, 500, 3}[r.IntN(3)])
			binary.LittleEndian.PutUint64(f[id*pageSize+16:], r.Uint64()>>r.IntN(64))
		}
		return f
	}},
	{"one meta page", func(v victim, f []byte, r *rand.Rand) []byte { fill(r, f[r.IntN(2)*pageSize:][:pageSize]); return f }},
	{"both meta pages", func(v victim, f []byte, r *rand.Rand) []byte { fill(r, f[:2*pageSize]); return f }},
	{"forged root", func(v victim, f []byte, r *rand.Rand) []byte { forge(f, r, 16, uint64(v.page(r))); return f }},
	{"forged free list", func(v victim, f []byte, r *rand.Rand) []byte {
		forge(f, r, 32, []uint64{uint64(v.page(r)), noFreelist}[r.IntN(2)])
		return f
	}},
	{"forged end", func(v victim, f []byte, r *rand.Rand) []byte { forge(f, r, 40, r.Uint64()>>r.IntN(64)); return f }},
	{"cut short", func(v victim, f []byte, r *rand.Rand) []byte { return f[:r.IntN(len(f))] }},
	{"cut at a page", func(v victim, f []byte, r *rand.Rand) []byte { return f[:v.page(r)*pageSize] }},
	{"rubbish", func(v victim, f []byte, r *rand.Rand) []byte { fill(r, f); return f }},
	{"zeroed tail", func(v victim, f []byte, r *rand.Rand) []byte { clear(f[r.IntN(len(f)):]); return f }},
}

// damaged returns the file of one kind and number.
func (v victim) damaged(kind, number int) []byte {
	return damages[kind].do(v, bytes.Clone(v.now), rand.New(rand.NewPCG(uint64(kind), uint64(number))))
}

// victimRecords is enough for a tree of three levels.
const victimRecords = 600

// makeVictim makes a store with a history of its own.
func makeVictim(t *testing.T, dir string) {
	t.Helper()
	ctx := context.Background()
	s := openTest(t, dir)
	recs := samples(1, 0, victimRecords)
	for i := 0; i < len(recs); i += 100 {
		if i == 400 {
			old, err := os.ReadFile(s.databasePath())
			must(t, err)
			must(t, os.WriteFile(filepath.Join(dir, "old"), old, 0o600))
		}
		must(t, s.Append(ctx, recs[i:i+100]...))
		must(t, s.PutRun(ctx, Run{ID: uint64(i + 1), Host: hostA, Model: modelA}))
	}
	must(t, s.Publish(ctx, learned(modelA, "decode", 1)))
	must(t, s.Publish(ctx, learned(modelA, "decode", 2)))
}

// tally counts how uses of damaged files ended.
type tally struct{ refused, told, same, repaired, lost, served int }

func (sum *tally) add(one tally) {
	sum.refused, sum.told, sum.same = sum.refused+one.refused, sum.told+one.told, sum.same+one.same
	sum.repaired, sum.lost, sum.served = sum.repaired+one.repaired, sum.lost+one.lost, sum.served+one.served
}

// childCorrupt uses every damaged file of one kind for reading, checking, writing and repairing, each on a copy of its own.
func childCorrupt(ctx context.Context, args []string) error {
	var v victim
	var err error
	if v.now, err = os.ReadFile(filepath.Join(args[0], databaseName)); err != nil {
		return err
	}
	if v.old, err = os.ReadFile(filepath.Join(args[0], "old")); err != nil {
		return err
	}
	snapshot, err := os.ReadFile(filepath.Join(args[0], snapshotName))
	if err != nil {
		return err
	}
	kind, _ := strconv.Atoi(args[2])
	count, _ := strconv.Atoi(args[3])
	var sum tally
	for number := range count {
		damaged := v.damaged(kind, number)
		for _, use := range []func(context.Context, string, *tally) error{useRead, useCheck, useWrite, useRepair} {
			dir, err := os.MkdirTemp(args[1], "")
			if err != nil {
				return err
			}
			if err := errors.Join(os.WriteFile(filepath.Join(dir, databaseName), damaged, 0o600), os.WriteFile(filepath.Join(dir, snapshotName), snapshot, 0o600)); err != nil {
				return err
			}
			fmt.Fprintf(os.Stderr, "%s, number %d\n", damages[kind].name, number)
			if err := use(ctx, dir, &sum); err != nil {
				return fmt.Errorf("%s, number %d: %w", damages[kind].name, number, err)
			}
			if snap, err := ReadSnapshot(dir); err != nil || len(snap.Learned) == 0 {
				return fmt.Errorf("%s, number %d: snapshot: %v", damages[kind].name, number, err)
			}
			sum.served++
			os.RemoveAll(dir)
		}
	}
	fmt.Println(sum.refused, sum.told, sum.same, sum.repaired, sum.lost, sum.served)
	return nil
}

// original returns what was stored.
var original = sync.OnceValue(func() []Record { return samples(1, 0, victimRecords) })

// intact scans the store and returns how many records it delivers, every one of which must be what was stored.
func intact(ctx context.Context, s *Store) (n int, err error) {
	err = s.Records(ctx, Filter{Run: 1}, func(r Record) error {
		n++
		if want := original()[r.Seq]; !reflect.DeepEqual(r, want) {
			return fmt.Errorf("WRONG VALUE: got %+v, want %+v", r, want)
		}
		return nil
	})
	return n, err
}

func wrong(err error) bool { return err != nil && strings.Contains(err.Error(), "WRONG VALUE") }

func useRead(ctx context.Context, dir string, sum *tally) error {
	s, err := Open(dir, Options{ReadOnly: true})
	if err != nil {
		sum.refused++
		return nil
	}
	_, err = intact(ctx, s)
	if wrong(err) {
		return err
	}
	sum.told++
	return nil
}

// useCheck demands that a Check which finds nothing is right.
func useCheck(ctx context.Context, dir string, sum *tally) error {
	s, err := Open(dir, Options{ReadOnly: true})
	if err != nil {
		sum.refused++
		return nil
	}
	report, err := s.Check(ctx)
	if err != nil || !report.OK {
		sum.told++
		return nil
	}
	if n, err := intact(ctx, s); n != victimRecords || err != nil {
		return fmt.Errorf("Check says ok, but there are %d records, %v", n, err)
	}
	sum.same++
	return nil
}

func useWrite(ctx context.Context, dir string, sum *tally) error {
	s, err := Open(dir, Options{})
	if err != nil {
		sum.refused++
		return nil
	}
	acknowledged := true
	for i := range uint32(5) {
		r := sample(2, i)
		r.Model = modelB
		if err := s.Append(ctx, r); err != nil {
			acknowledged = false
		}
	}
	if _, err := intact(ctx, s); wrong(err) {
		return err
	}
	if acknowledged {
		sum.same++
		if err := keptFive(ctx, s); err != nil {
			return err
		}
	} else {
		sum.told++
	}
	return nil
}

// keptFive demands that the five acknowledged records are there, after a repair where only reading finds the damage.
func keptFive(ctx context.Context, s *Store) error {
	for {
		n := 0
		err := s.Records(ctx, Filter{Run: 2}, func(Record) error { n++; return nil })
		if err == nil && n == 5 {
			return nil
		}
		done, cause := s.Repair(ctx)
		if cause != nil {
			return fmt.Errorf("%d of 5 acknowledged records are there, %w; repair: %w", n, err, cause)
		}
		if done.Path == "" {
			return fmt.Errorf("%d of 5 acknowledged records are there after %s, %w", n, done, err)
		}
	}
}

// useRepair demands a sound database afterwards, and that a repair which lost nothing by its own account has not.
func useRepair(ctx context.Context, dir string, sum *tally) error {
	s, err := Open(dir, Options{})
	if err != nil && !errors.Is(err, ErrCorrupt) {
		sum.refused++
		return nil
	}
	report, err := s.Check(ctx)
	if err == nil && report.OK {
		sum.same++
		return nil
	}
	done, err := s.Repair(ctx)
	if err != nil {
		return fmt.Errorf("Repair of %v: %w", report.Problems, err)
	}
	if report, err = s.Check(ctx); err != nil || !report.OK {
		return fmt.Errorf("after %s: %+v, %w", done, report, err)
	}
	n, err := intact(ctx, s)
	if err != nil {
		return err
	}
	if done.Stored == victimRecords && n+done.Lost != victimRecords {
		return fmt.Errorf("%d records after %s", n, done)
	}
	sum.repaired++
	sum.lost += victimRecords - n
	return nil
}

func TestCorruptFiles(t *testing.T) {
	dir := t.TempDir()
	makeVictim(t, dir)
	var sum tally
	kinds := 0
	for kind := range damages {
		t.Run(damages[kind].name, func(t *testing.T) {
			kinds++
			sum.add(corruptFiles(t, dir, kind))
		})
	}
	if want := kinds * *corruptions * 4; sum.served != want {
		t.Errorf("%d uses, want %d", sum.served, want)
	}
	t.Logf("%d damaged files x {read, check, write, repair}: no crash, no hang, no wrong value unnoticed: %+v", kinds**corruptions, sum)
}

// corruptFiles lets a child process use files of one kind of damage.
func corruptFiles(t *testing.T, dir string, kind int) (sum tally) {
	cmd := child(t, "corrupt", dir, t.TempDir(), kind, *corruptions)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	must(t, cmd.Start())
	hang := time.AfterFunc(time.Minute+time.Duration(*corruptions)*2*time.Second, func() { cmd.Process.Kill() })
	err := cmd.Wait()
	hang.Stop()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
		t.Fatalf("%v\n%.3000s", err, strings.Join(lines[max(0, len(lines)-30):], "\n"))
	}
	fmt.Sscan(out.String(), &sum.refused, &sum.told, &sum.same, &sum.repaired, &sum.lost, &sum.served)
	t.Logf("%+v", sum)
	return sum
}
