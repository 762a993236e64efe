package history

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

var kills = flag.Int("kills", 60, "how many child processes TestKilled kills")

// childAppend appends count records one by one as run, and publishes now and then.
func childAppend(ctx context.Context, args []string) error {
	dir := args[0]
	run, _ := strconv.ParseUint(args[1], 10, 64)
	count, _ := strconv.Atoi(args[2])
	s, err := Open(dir, Options{Timeout: time.Minute})
	if err != nil {
		return err
	}
	var took []time.Duration
	for seq := range count {
		start := time.Now()
		if err := s.Append(ctx, sample(run, uint32(seq))); err != nil {
			return err
		}
		took = append(took, time.Since(start))
		if seq%50 == 49 {
			l := learned(modelA, "decode", seq)
			l.Target = fmt.Sprintf("engine:%d", run)
			if err := s.Publish(ctx, l); err != nil {
				return err
			}
		}
	}
	fmt.Println("append", quantiles(took))
	return nil
}

// childRead loads the snapshot and scans one regime until its standard input ends.
func childRead(ctx context.Context, args []string) error {
	s, err := Open(args[0], Options{Timeout: time.Minute, ReadOnly: true})
	if err != nil {
		return err
	}
	stopped := make(chan struct{})
	go func() {
		bufio.NewReader(os.Stdin).ReadByte()
		close(stopped)
	}()
	r := NewReader(args[0])
	var loads, scans []time.Duration
	for {
		select {
		case <-stopped:
			fmt.Println("load", quantiles(loads), "scan", quantiles(scans))
			return nil
		case <-time.After(time.Millisecond):
		}
		start := time.Now()
		if _, err := r.Load(); err != nil && !errors.Is(err, ErrNoSnapshot) {
			return err
		}
		loads = append(loads, time.Since(start))
		start = time.Now()
		if err := s.Records(ctx, Filter{Host: hostA, Model: modelA, Target: "cpu", Regime: "decode", Run: 1}, func(Record) error { return nil }); err != nil {
			return err
		}
		scans = append(scans, time.Since(start))
	}
}

func quantiles(took []time.Duration) string {
	slices.Sort(took)
	if len(took) == 0 {
		return "none"
	}
	return fmt.Sprintf("n %d p50 %s p99 %s max %s", len(took), took[len(took)/2], took[len(took)*99/100], took[len(took)-1])
}

func TestManyProcesses(t *testing.T) {
	const writers, appends, readers = 4, 200, 4
	dir := t.TempDir()
	s := openTest(t, dir)
	type process struct {
		cmd      *exec.Cmd
		out, err bytes.Buffer
	}
	start := func(p *process) {
		p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
		must(t, p.cmd.Start())
	}
	wait := func(p *process) {
		if err := p.cmd.Wait(); err != nil {
			t.Errorf("%v: %s", err, p.err.String())
		}
		t.Log(strings.TrimSpace(p.out.String()))
	}
	var reading, writing []*process
	var stops []func() error
	for range readers {
		p := &process{cmd: child(t, "read", dir)}
		stdin, err := p.cmd.StdinPipe()
		must(t, err)
		start(p)
		reading, stops = append(reading, p), append(stops, stdin.Close)
	}
	for run := 1; run <= writers; run++ {
		p := &process{cmd: child(t, "append", dir, run, appends)}
		start(p)
		writing = append(writing, p)
	}
	for _, p := range writing {
		wait(p)
	}
	for i, p := range reading {
		must(t, stops[i]())
		wait(p)
	}

	seen := map[string]int{}
	for _, r := range collectRecords(t, s, Filter{}) {
		seen[fmt.Sprint(r.Run, "/", r.Seq)]++
	}
	for run := 1; run <= writers; run++ {
		for seq := range appends {
			if n := seen[fmt.Sprint(run, "/", seq)]; n != 1 {
				t.Errorf("run %d seq %d is there %d times", run, seq, n)
			}
		}
	}
	if len(seen) != writers*appends {
		t.Errorf("%d records, want %d", len(seen), writers*appends)
	}
	snap, err := ReadSnapshot(dir)
	must(t, err)
	if len(snap.Learned) != writers {
		t.Errorf("%d learned configs in the snapshot, want one of each of %d writers", len(snap.Learned), writers)
	}
}

// childKilled appends, spools, publishes, backs up and compacts without end, and says what was acknowledged.
func childKilled(ctx context.Context, args []string) error {
	run, _ := strconv.ParseUint(args[1], 10, 64)
	s, err := Open(args[0], Options{Timeout: time.Minute})
	if err != nil {
		return err
	}
	for seq := uint32(0); ; seq += 3 {
		recs := samples(run, seq, seq+3)
		var err error
		switch seq / 3 % 5 {
		case 1:
			err = s.spool(spooledSamples(recs))
		case 2:
			_, err = s.Backup(ctx, "")
			err = errors.Join(err, s.Append(ctx, recs...))
		case 3:
			_, _, err = s.Compact(ctx)
			err = errors.Join(err, s.Append(ctx, recs...))
		default:
			err = s.Append(ctx, recs...)
		}
		if err != nil {
			return err
		}
		fmt.Printf("appended %d\n", seq+3)
		if seq%4 == 0 {
			if err := s.Publish(ctx, learned(modelA, "decode", int(seq)+1)); err != nil {
				return err
			}
			fmt.Printf("published %d\n", seq+1)
		}
	}
}

// spooledSamples are records as the spool keeps them.
func spooledSamples(recs []Record) []spooled {
	var list []spooled
	for _, r := range recs {
		key, value, err := r.encode()
		if err != nil {
			panic(err)
		}
		list = append(list, spooled{bucketSample, pair{key, value}})
	}
	return list
}

// childPruned appends and prunes without end, and says how many records were acknowledged.
func childPruned(ctx context.Context, args []string) error {
	s, err := Open(args[0], Options{Timeout: time.Minute})
	if err != nil {
		return err
	}
	for seq := uint32(0); ; seq += 14 {
		if err := s.Append(ctx, samples(1, seq, seq+14)...); err != nil {
			return err
		}
		fmt.Printf("appended %d\n", seq+14)
		if _, err := s.Prune(ctx, Retention{PerCell: keptPerCell}); err != nil {
			return err
		}
	}
}

// killAt starts a child, kills it at a random moment, and returns what it had acknowledged.
func killAt(t *testing.T, what, dir string, run int, moment time.Duration, afterFirst bool) (appended, published int) {
	t.Helper()
	cmd := child(t, what, dir, run)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	kill := func() { cmd.Process.Signal(syscall.SIGKILL) }
	if !afterFirst {
		time.AfterFunc(moment, kill)
	}
	lines := bufio.NewScanner(stdout)
	for first := true; lines.Scan(); first = false {
		if first && afterFirst {
			time.AfterFunc(moment, kill)
		}
		what, number, _ := strings.Cut(lines.Text(), " ")
		n, err := strconv.Atoi(number)
		must(t, err)
		if what == "appended" {
			appended = n
		} else {
			published = n
		}
	}
	cmd.Wait()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		t.Fatalf("the child ended by itself: %v: %s", cmd.ProcessState, stderr.String())
	}
	return appended, published
}

func TestKilled(t *testing.T) {
	ctx := context.Background()
	random := rand.New(rand.NewPCG(1, 2))
	shared := t.TempDir()
	openTest(t, shared)
	var acknowledged, unacknowledged int
	for run := 1; run <= *kills; run++ {
		dir, moment, afterFirst := shared, time.Duration(random.IntN(15_000))*time.Microsecond, true
		if run%5 == 0 { // while the store is being made
			dir, afterFirst = filepath.Join(t.TempDir(), "new"), false
		}
		appended, published := killAt(t, "killed", dir, run, moment, afterFirst)
		s, err := Open(dir, Options{})
		must(t, err)
		must(t, s.SetPin(ctx, Pin{Model: modelB, Config: json.RawMessage(fmt.Sprintf(`{"run":%d}`, run))})) // takes what is in the spool
		got := bySeq(collectRecords(t, s, Filter{Run: uint64(run)}))
		if len(got) < appended || len(got) > appended+3 {
			t.Fatalf("kill %d: %d records, acknowledged were %d", run, len(got), appended)
		}
		for i, r := range got {
			if r.Seq != uint32(i) {
				t.Fatalf("kill %d: record %d has number %d", run, i, r.Seq)
			}
		}
		if published > 0 {
			snap, err := ReadSnapshot(dir)
			must(t, err)
			if snap.Learned[0].Evaluations < published {
				t.Fatalf("kill %d: snapshot of %d, acknowledged was %d", run, snap.Learned[0].Evaluations, published)
			}
		}
		acknowledged += appended
		unacknowledged += len(got) - appended
		must(t, s.Append(ctx, samples(uint64(run), 0, uint32(len(got)+1))...)) // a retry of everything adds one
		if again := collectRecords(t, s, Filter{Run: uint64(run)}); len(again) != len(got)+1 {
			t.Fatalf("kill %d: %d records after a retry, want %d", run, len(again), len(got)+1)
		}
		if dir != shared || run%10 == 1 {
			checkSound(t, s)
		}
	}
	t.Logf("%d kills, %d records acknowledged and all there, %d more stored but not acknowledged", *kills, acknowledged, unacknowledged)
}

// Every acknowledged record is there or summed up, and none is both.
func TestKilledWhilePruning(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	shared, total := t.TempDir(), 0
	for kill := range *kills / 4 {
		dir := filepath.Join(shared, fmt.Sprint(kill))
		appended, _ := killAt(t, "pruned", dir, 1, time.Duration(random.IntN(30_000))*time.Microsecond, true)
		s, err := Open(dir, Options{})
		must(t, err)
		checkSound(t, s)
		n := len(collectRecords(t, s, Filter{}))
		sums, err := s.Aggregates(t.Context(), Filter{})
		must(t, err)
		for _, sum := range sums {
			n += sum.Statuses[StatusOK]
		}
		if n != appended && n != appended+14 {
			t.Fatalf("kill %d: %d records there or summed up, acknowledged were %d", kill, n, appended)
		}
		total += appended
	}
	t.Logf("%d kills while pruning, %d records acknowledged, each there or summed up", *kills/4, total)
}
