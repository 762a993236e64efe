package history

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

var (
	contenders = flag.Int("contenders", 32, "how many processes TestContention starts")
	contend    = flag.Int("contend", 10, "how many records each process of TestContention appends")
)

// childContend appends records one by one with hardly any patience, so that many of them go to the spool.
func childContend(ctx context.Context, args []string) error {
	run, _ := strconv.ParseUint(args[1], 10, 64)
	count, _ := strconv.Atoi(args[2])
	patience, _ := time.ParseDuration(args[3])
	s, err := Open(args[0], Options{Timeout: time.Minute})
	if err != nil {
		return err
	}
	spooled := 0
	for seq := range count {
		ctx, cancel := context.WithTimeout(ctx, patience)
		before := len(s.Warnings())
		err := s.Append(ctx, sample(run, uint32(seq)))
		cancel()
		if err != nil {
			return err
		}
		if len(s.Warnings()) > before {
			spooled++
		}
	}
	fmt.Println(spooled)
	return nil
}

// Each of many processes at once gets every record that it was told is kept into the history, by the lock or by the
// spool, and each record once.
func TestContention(t *testing.T) {
	for _, patience := range []time.Duration{time.Minute, 2 * time.Millisecond} {
		t.Run(fmt.Sprint("patience=", patience), func(t *testing.T) { contention(t, patience) })
	}
}

func contention(t *testing.T, patience time.Duration) {
	s := openTest(t, t.TempDir())
	start := time.Now()
	var out []*bytes.Buffer
	var cmds []*exec.Cmd
	for run := range *contenders {
		cmd := child(t, "contend", s.dir, run+1, *contend, patience)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		must(t, cmd.Start())
		out, cmds = append(out, &stdout, &stderr), append(cmds, cmd)
	}
	waited := 0
	for i, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			t.Errorf("process %d: %v: %s", i, err, out[2*i+1])
		}
		n, _ := strconv.Atoi(strings.TrimSpace(out[2*i].String()))
		waited += n
	}
	took := time.Since(start)
	must(t, s.Append(t.Context(), sample(1, 0))) // takes what is left in the spool
	for len(spoolFiles(t, s.dir)) > 0 && !t.Failed() {
		must(t, s.Append(t.Context(), sample(1, 0)))
	}
	seen := map[string]int{}
	for _, r := range collectRecords(t, s, Filter{}) {
		seen[fmt.Sprint(r.Run, "/", r.Seq)]++
	}
	for run := 1; run <= *contenders; run++ {
		for seq := range *contend {
			if n := seen[fmt.Sprint(run, "/", seq)]; n != 1 {
				t.Errorf("run %d seq %d is there %d times", run, seq, n)
			}
		}
	}
	t.Logf("%d processes, %d records each in %s: all there once; about %d by way of the spool", *contenders, *contend, took.Round(time.Millisecond), waited)
}

// childServe loads the snapshot until its standard input ends, as a library that plans does, and says how long loads took.
func childServe(ctx context.Context, args []string) error {
	stopped := make(chan struct{})
	go func() {
		bufio.NewReader(os.Stdin).ReadByte()
		close(stopped)
	}()
	r := NewReader(args[0])
	var took []time.Duration
	for {
		select {
		case <-stopped:
			slices.Sort(took)
			if len(took) == 0 {
				return errors.New("no load")
			}
			fmt.Println(len(took), int64(took[len(took)/2]), int64(took[len(took)*99/100]), int64(took[len(took)-1]))
			return nil
		case <-time.After(500 * time.Microsecond):
		}
		start := time.Now()
		if snap, err := r.Load(); err != nil || len(snap.Learned) == 0 {
			return fmt.Errorf("snapshot %+v: %w", snap, err)
		}
		took = append(took, time.Since(start))
	}
}

// Two writers that append and publish, four readers of what is published: nobody waits for anybody.
func TestReadersDoNotWaitForWriters(t *testing.T) {
	const writers, readers, appends = 2, 4, 300
	s := openTest(t, t.TempDir())
	must(t, s.Publish(t.Context(), learned(modelA, "decode", 1)))
	type process struct {
		*exec.Cmd
		out, err bytes.Buffer
	}
	start := func(cmd *exec.Cmd) *process {
		p := &process{Cmd: cmd}
		p.Stdout, p.Stderr = &p.out, &p.err
		return p
	}
	var all []*process
	var stops []func() error
	for range readers {
		p := start(child(t, "serve", s.dir))
		stdin, err := p.StdinPipe()
		must(t, err)
		must(t, p.Start())
		all, stops = append(all, p), append(stops, stdin.Close)
	}
	var writing []*process
	for run := range writers {
		p := start(child(t, "append", s.dir, run+1, appends))
		must(t, p.Start())
		writing = append(writing, p)
	}
	for _, p := range writing {
		if err := p.Wait(); err != nil {
			t.Errorf("%v: %s", err, p.err.String())
		}
		t.Log(strings.TrimSpace(p.out.String()))
	}
	for i, p := range all {
		must(t, stops[i]())
		if err := p.Wait(); err != nil {
			t.Errorf("%v: %s", err, p.err.String())
			continue
		}
		var n int
		var p50, p99, most time.Duration
		fmt.Sscan(p.out.String(), &n, (*int64)(&p50), (*int64)(&p99), (*int64)(&most))
		t.Logf("reader: %d loads, p50 %s, p99 %s, max %s", n, p50, p99, most)
		if *paranoid && p99 > time.Millisecond {
			t.Errorf("reader: p99 %s, want less than 1 ms (on a machine that does nothing else)", p99)
		}
	}
}
