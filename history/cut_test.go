package history

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
)

// A file that is cut while bbolt has it mapped is a fault in the middle of a read. It must be an error.
func TestCutWhileMapped(t *testing.T) {
	for _, readOnly := range []bool{true, false} {
		t.Run(fmt.Sprint("readOnly=", readOnly), func(t *testing.T) {
			ctx := context.Background()
			dir := t.TempDir()
			makeVictim(t, dir)
			s, err := Open(dir, Options{})
			must(t, err)
			err = guard{s.databasePath(), readOnly, 0, useLimit}.run(ctx, func(db *bolt.DB) error {
				walk := func(tx *bolt.Tx) error {
					must(t, os.Truncate(s.databasePath(), 2*pageSize))
					return tx.Bucket(bucketSample).ForEach(func(k, v []byte) error { return nil })
				}
				if readOnly {
					return db.View(walk)
				}
				return db.Update(walk)
			})
			if !errors.Is(err, errFault) || !errors.Is(err, ErrCorrupt) {
				t.Errorf("error %v, want a fault that is damage", err)
			}
			must(t, s.Append(ctx, sample(7, 1))) // repairs it
			checkSound(t, s)
			if snap, err := ReadSnapshot(dir); err != nil || len(snap.Learned) != 1 {
				t.Errorf("snapshot: %+v, %v", snap, err)
			}
		})
	}
}

// childCut reads and writes a store until its standard input ends, whatever becomes of the file.
func childCut(ctx context.Context, args []string) error {
	s, err := Open(args[0], Options{Timeout: time.Minute})
	if err != nil {
		return err
	}
	fmt.Println("open")
	stopped := make(chan struct{})
	go func() {
		bufio.NewReader(os.Stdin).ReadByte()
		close(stopped)
	}()
	ok, failed := 0, 0
	for seq := uint32(0); ; seq++ {
		select {
		case <-stopped:
			fmt.Println(ok, failed)
			return nil
		default:
		}
		err := s.Append(ctx, sample(9, seq))
		if err == nil {
			err = s.Records(ctx, Filter{}, func(Record) error { return nil })
		}
		if ok++; err != nil {
			ok, failed = ok-1, failed+1
		}
	}
}

// TestCutToAStub: bbolt's error for a file of less than two pages has no type of its own.
func TestCutToAStub(t *testing.T) {
	dir := t.TempDir()
	makeVictim(t, dir)
	whole, err := os.ReadFile(dir + "/" + databaseName)
	must(t, err)
	for _, size := range []int{1, 4095, 4096, 6116, 8191} {
		stub := t.TempDir() + "/stub.db"
		must(t, os.WriteFile(stub, whole[:size], 0o600))
		if err := (guard{path: stub, limit: time.Minute}).run(t.Context(), func(*bolt.DB) error { return nil }); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%d bytes: %v, want ErrCorrupt", size, err)
		}
	}
}

// A file that somebody cuts again and again ends no process that uses it, and the last word is a sound database.
func TestCutUnderUse(t *testing.T) {
	dir := t.TempDir()
	makeVictim(t, dir)
	cmd := child(t, "cut", dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdin, err := cmd.StdinPipe()
	must(t, err)
	stdout, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	lines := bufio.NewScanner(stdout)
	lines.Scan() // it is open
	random := rand.New(rand.NewPCG(5, 6))
	path := dir + "/" + databaseName
	const cuts = 40
	for range cuts {
		time.Sleep(time.Duration(random.IntN(15)) * time.Millisecond)
		if info, err := os.Stat(path); err == nil {
			os.Truncate(path, random.Int64N(info.Size()+1))
		}
	}
	must(t, stdin.Close())
	lines.Scan()
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %.3000s", err, stderr.String())
	}
	var ok, failed int
	fmt.Sscan(lines.Text(), &ok, &failed)
	s, err := Open(dir, Options{})
	if errors.Is(err, ErrCorrupt) {
		_, err = s.Repair(t.Context())
	}
	must(t, err)
	checkSound(t, s)
	t.Logf("cut %d times under use: %d rounds went well, %d ended with an error, no process did", cuts, ok, failed)
}
