// Command 2026-11-background measures what background tuning costs a service on the same host: see README.md.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
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
	rate    float64
	pairs   int
	length  time.Duration // of half a pair
	settle  time.Duration // left out at the beginning of each
	dir     string
}

// half is one half of a pair.
type half struct {
	Pair       int       `json:"pair"`
	Tuner      bool      `json:"tuner"`
	Latencies  []float64 `json:"latencies_ms"` // from the moment at which a request was due
	CPUSeconds float64   `json:"tuner_cpu_seconds"`
	Log        string    `json:"tuner_log,omitempty"`
}

func main() {
	var s study
	flag.StringVar(&s.command, "command", "bin/bitnet-autotune", "the command whose daemon tunes")
	flag.StringVar(&s.served, "serve", "bitnet-embedding-270m", "model of the service")
	flag.StringVar(&s.tuned, "tune", "bitnet-b1.58-large", "model that the daemon tunes")
	flag.Float64Var(&s.rate, "rate", 5, "requests a second")
	flag.IntVar(&s.pairs, "pairs", 10, "how many minutes with and without the tuner")
	flag.DurationVar(&s.length, "length", time.Minute, "of each")
	flag.DurationVar(&s.settle, "settle", 3*time.Second, "left out at the beginning of each")
	out := flag.String("out", "halves.jsonl", "file for the latencies; one that is there is only evaluated")
	svg := flag.String("svg", "latency.svg", "file for the picture")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	halves, err := readHalves(*out)
	if err == nil && len(halves) == 0 {
		halves, err = s.run(ctx, *out)
	}
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(*svg, []byte(picture(halves)), 0o644); err != nil {
		log.Fatal(err)
	}
	fmt.Print(table(halves))
}

// run measures all pairs, each in an order by lot.
func (s study) run(ctx context.Context, out string) ([]half, error) {
	serve, err := s.service(ctx)
	if err != nil {
		return nil, err
	}
	if s.dir, err = os.MkdirTemp("", "background"); err != nil {
		return nil, err
	}
	defer os.RemoveAll(s.dir)
	file, err := os.Create(out)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var halves []half
	for pair := range s.pairs {
		first := rand.IntN(2) == 0
		for _, with := range []bool{first, !first} {
			h, err := s.half(ctx, serve, pair, with)
			if err != nil {
				return nil, err
			}
			if err := json.NewEncoder(file).Encode(h); err != nil {
				return nil, err
			}
			log.Printf("pair %d, tuner %t: %d requests, p99 %.2f ms, %.1f CPU s of tuning", pair, with, len(h.Latencies), quantile(h.Latencies, 0.99), h.CPUSeconds)
			halves = append(halves, h)
		}
	}
	return halves, nil
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
	return func(ctx context.Context) error { _, err := subject.Run(ctx, 1); return err }, nil
}

// half serves requests at a fixed rate. A request that waits for the one before it waits on the clock: what is reported is
// the time since it was due.
func (s study) half(ctx context.Context, serve func(context.Context) error, pair int, with bool) (half, error) {
	h := half{Pair: pair, Tuner: with}
	var d *daemon
	if with {
		var err error
		if d, err = s.daemon(pair); err != nil {
			return h, err
		}
	}
	begin := time.Now()
	for i := 0; ; i++ {
		due := begin.Add(time.Duration(float64(i) / s.rate * float64(time.Second)))
		if due.Sub(begin) >= s.length {
			break
		}
		time.Sleep(time.Until(due))
		if err := serve(ctx); err != nil {
			return h, err
		}
		if due.Sub(begin) >= s.settle {
			h.Latencies = append(h.Latencies, float64(time.Since(due).Microseconds())/1000)
		}
	}
	var err error
	if d != nil {
		h.CPUSeconds, h.Log, err = d.end()
	}
	return h, err
}

// daemon is a daemon that has something to do at every moment.
type daemon struct {
	cmd   *exec.Cmd
	store string
	log   *os.File
}

func (s study) daemon(pair int) (*daemon, error) {
	d := &daemon{store: filepath.Join(s.dir, fmt.Sprint(pair))}
	var err error
	if d.log, err = os.Create(d.store + ".log"); err != nil {
		return nil, err
	}
	d.cmd = exec.Command(s.command, "--store", d.store, "daemon", "--model", s.tuned, "--quiet-for", "1s", "--step", "20s",
		"--check-every", "1s", "--cpu-per-day", "10h", "--host-lock", d.store+".lock")
	d.cmd.Stderr = d.log
	return d, d.cmd.Start()
}

// end ends the daemon and returns what it spent and said.
func (d *daemon) end() (cpuSeconds float64, said string, err error) {
	_ = d.cmd.Process.Signal(syscall.SIGTERM)
	if err := d.cmd.Wait(); err != nil {
		return 0, "", err
	}
	d.log.Close()
	var account struct {
		Charges []struct {
			Used time.Duration `json:"cpu_ns"`
		}
	}
	data, err := os.ReadFile(filepath.Join(d.store, tuner.LedgerName))
	if err == nil {
		err = json.Unmarshal(data, &account)
	}
	for _, c := range account.Charges {
		cpuSeconds += c.Used.Seconds()
	}
	text, _ := os.ReadFile(d.log.Name())
	if os.IsNotExist(err) { // it never found the host idle
		err = nil
	}
	return cpuSeconds, string(text), err
}
