// Command 2026-11-background measures what background tuning costs a service on the same host: see README.md.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/tuner"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/measure"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

// study is what is asked for.
type study struct {
	command string // the bitnet-autotune to run
	served  string // the model of the service
	tuned   string // that of the daemon
	share   float64
	rate    float64
	pairs   int
	length  time.Duration // of half a pair
	settle  time.Duration // left out at the beginning of each
	alone   time.Duration // that the tuner has before the first
	aborts  int
	whole   bool
	dir     string
}

// half is one half of a pair.
type half struct {
	Pair      int       `json:"pair"`
	Tuner     bool      `json:"tuner"`
	Begin     int64     `json:"begin_us"`     // when the first request that counts was due, since 1970
	Latencies []float64 `json:"latencies_ms"` // from the moment at which a request was due
	Met       []int     `json:"met,omitempty"`
	Seconds   float64   `json:"seconds"`            // from the first request that counts
	Worked    float64   `json:"worked_seconds"`     // by children of the daemon
	ChildCPU  float64   `json:"child_cpu_seconds"`  // that they used
	DaemonCPU float64   `json:"daemon_cpu_seconds"` // and the daemon itself
}

func main() {
	var s study
	flag.StringVar(&s.command, "command", "bin/bitnet-autotune", "the command whose daemon tunes")
	flag.StringVar(&s.served, "serve", "bitnet-embedding-270m", "model of the service")
	flag.StringVar(&s.tuned, "tune", "bitnet-b1.58-large", "model that the daemon tunes")
	flag.Float64Var(&s.share, "burst-share", 0, "share of the time that the daemon may work beside the service (default: its own)")
	flag.Float64Var(&s.rate, "rate", 11, "requests a second") // whose period is no multiple of the kernel's tick
	flag.IntVar(&s.pairs, "pairs", 10, "how many halves with and without the tuner")
	flag.DurationVar(&s.length, "length", time.Minute, "of each half")
	flag.DurationVar(&s.settle, "settle", 3*time.Second, "left out at the beginning of each")
	flag.DurationVar(&s.alone, "alone", 40*time.Second, "that the tuner works before there is a service")
	flag.IntVar(&s.aborts, "aborts", 0, "measure nothing but how soon a child is gone when load arrives, so many times")
	flag.BoolVar(&s.whole, "complete", false, "measure nothing but how long the daemon takes beside the service until it has decided")
	out := flag.String("out", ".", "directory for halves.jsonl, distribution.txt and latency.svg; halves that are there are evaluated and not measured")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := s.main(ctx, *out); err != nil {
		log.Fatal(err)
	}
}

func (s study) main(ctx context.Context, out string) (err error) {
	if s.rate <= 0 || s.pairs < 1 || s.length <= s.settle {
		return fmt.Errorf("-rate %v, -pairs %d, -length %v: want positive ones, and a length above -settle %v", s.rate, s.pairs, s.length, s.settle)
	}
	if s.dir, err = os.MkdirTemp("", "background"); err != nil {
		return err
	}
	defer os.RemoveAll(s.dir)
	switch {
	case s.aborts > 0:
		return print(s.abort(ctx))
	case s.whole:
		return print(s.complete(ctx))
	}
	if err := os.MkdirAll(out, 0o755); err != nil { // before half an hour of measuring
		return err
	}
	file := filepath.Join(out, "halves.jsonl")
	halves, err := readHalves(file)
	if err == nil && len(halves) == 0 {
		if halves, err = s.run(ctx); err == nil {
			err = os.WriteFile(file, jsonLines(halves), 0o644)
		}
	}
	if err != nil {
		return err
	}
	text := table(halves)
	fmt.Print(text)
	return errors.Join(os.WriteFile(filepath.Join(out, "distribution.txt"), []byte(text), 0o644),
		os.WriteFile(filepath.Join(out, "latency.svg"), []byte(picture(halves)), 0o644))
}

// print prints what was found out, if anything was.
func print(text string, err error) error {
	fmt.Print(text)
	return err
}

func jsonLines(halves []half) []byte {
	var b bytes.Buffer
	lines := json.NewEncoder(&b)
	for _, h := range halves {
		if lines.Encode(h) != nil {
			panic("background: a half always marshals")
		}
	}
	return b.Bytes()
}

// run measures all pairs, each in an order by lot. One daemon works throughout, and stands still in the halves without.
func (s study) run(ctx context.Context) ([]half, error) {
	serve, err := s.service(ctx)
	if err != nil {
		return nil, err
	}
	d, err := s.daemon("--quiet-for", "5s", "--step", "10m", "--cpu-per-day", "10h")
	if err != nil {
		return nil, err
	}
	defer d.kill()
	if err := sleep(ctx, s.alone); err != nil {
		return nil, err
	}
	var halves []half
	for pair := range s.pairs {
		first := rand.IntN(2) == 0
		for _, with := range []bool{first, !first} {
			h := half{Pair: pair, Tuner: with}
			if err := s.half(ctx, serve, d, &h); err != nil {
				return nil, err
			}
			log.Printf("pair %d, tuner %t: %d requests, p99 %.2f ms, %.2f CPU s of tuning", pair, with, len(h.Latencies), quantile(h.Latencies, 0.99), h.ChildCPU)
			halves = append(halves, h)
		}
	}
	if err := d.end(); err != nil {
		return nil, err
	}
	return halves, s.meet(halves, d)
}

// service returns a request: one token through all ternary matmuls of a model, on all cores, as facts alone say.
func (s study) service(ctx context.Context) (func(context.Context) error, error) {
	host, err := probe.Local(ctx)
	if err != nil {
		return nil, err
	}
	m, err := model.Load(s.served)
	if err != nil {
		return nil, err
	}
	arm := tuner.Problem{Host: host, Model: m, Target: "cpu", Objective: tuner.ObjectiveMixed}.Heuristic().Arm(target.Decode)
	arm.Threads = host.CPU.UsableCores
	shelf := target.NewShelf(host, m, []kernels.Layout{arm.Layout}, target.CPUOptions{Seed: 1})
	var subject measure.Subject
	if subject, err = shelf.Prepare(ctx, target.Decode, arm); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { _, err := subject.Run(ctx, m.Layers); return err }, nil
}

// half serves requests at a fixed rate. A request that waits for the one before it waits on the clock: what is reported is
// the time since it was due.
func (s study) half(ctx context.Context, serve func(context.Context) error, d *daemon, h *half) error {
	if err := d.let(h.Tuner); err != nil {
		return err
	}
	var child, own time.Duration
	begin := time.Now()
	for i := 0; ; i++ {
		due := begin.Add(time.Duration(float64(i) / s.rate * float64(time.Second)))
		if due.Sub(begin) >= s.length {
			break
		}
		if err := sleep(ctx, time.Until(due)); err != nil {
			return err
		}
		if h.Begin == 0 && due.Sub(begin) >= s.settle {
			h.Begin = due.UnixMicro()
			child, own = d.used()
		}
		if err := serve(ctx); err != nil {
			return err
		}
		if due.Sub(begin) >= s.settle {
			h.Latencies = append(h.Latencies, float64(time.Since(due).Microseconds())/1000)
		}
	}
	h.Seconds = float64(time.Now().UnixMicro()-h.Begin) / 1e6
	childAfter, ownAfter := d.used()
	h.ChildCPU, h.DaemonCPU = (childAfter - child).Seconds(), (ownAfter - own).Seconds()
	return nil
}

// meet takes down which requests a child's work fell on.
func (s study) meet(halves []half, d *daemon) error {
	worked, err := d.worked()
	if err != nil {
		return err
	}
	for i := range halves {
		h := &halves[i]
		if !h.Tuner {
			continue
		}
		period := 1e6 / s.rate
		end := h.Begin + int64(period*float64(len(h.Latencies)))
		for _, w := range worked {
			h.Worked += float64(max(0, min(w.to, end)-max(w.from, h.Begin))) / 1e6
		}
		for r, ms := range h.Latencies {
			due := h.Begin + int64(period*float64(r))
			for _, w := range worked {
				if w.from < due+int64(1000*ms) && w.to > due {
					h.Met = append(h.Met, r)
					break
				}
			}
		}
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
