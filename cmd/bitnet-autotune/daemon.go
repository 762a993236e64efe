package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bitnet-autotune/bitnet-autotune/probe/gpu"
	"github.com/bitnet-autotune/bitnet-autotune/tuner"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/daemon"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/dashboard"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/idle"
)

func (a *app) daemonVerb() *cobra.Command {
	var opt daemon.Options
	var shown dashboard.Options
	var hours, target string
	var memory uint64
	rules := idle.DefaultRules
	cmd := &cobra.Command{
		Use:   "daemon --model M…",
		Short: "Tune in the background whenever this host is idle, check what was learned, take back what got worse",
		Long: `Works until it is told to end (SIGTERM, Ctrl-C). Whenever the host has been idle for a while it runs one short step in a child
process of the lowest priority: a tune that goes on where the last one stopped, or a check of what was learned against the
default. Load that arrives ends the child within 100 ms. What is measured is kept.

Where somebody else works, if only a little, a step works in bursts of some 10 ms that take --burst-share of the time, so that
hardly a request of a service meets one. A tune then takes many hours, most of which it sleeps, holding its weights in memory.

Modes: off does nothing; use measures nothing; advise checks and says what should be done; tune does it; frozen measures
nothing, and ends with code 5 as soon as a config answers whose hash is not among --frozen.

On --listen it shows what it does: a page, its JSON under /api/v1/, Prometheus metrics at /metrics, /healthz and /readyz. Pinning
and rolling back there demand a token, which is made in the store (dashboard.token) unless --token-file names another. An address
that other machines can reach demands --tls-cert and --tls-key, or --token-file; with that file, reading demands the token too.

A pinned model is left alone. Nothing is rolled back because the daemon ends. One daemon works on a host: a second one ends
with code 4.`,
		Example: `  bitnet-autotune daemon --model bitnet-b1.58-2b-4t
  bitnet-autotune daemon --model falcon3-1b-1.58 --model bitnet-b1.58-2b-4t --cpu-per-day 10m --hours 22:00-06:00
  bitnet-autotune daemon --model bitnet-b1.58-2b-4t --mode advise
  bitnet-autotune daemon --model bitnet-b1.58-2b-4t --listen 0.0.0.0:9470 --tls-cert cert.pem --tls-key key.pem`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.needStore(); err != nil {
				return err
			}
			var err error
			if rules.From, rules.To, err = parseHours(hours); err != nil {
				return usage(err)
			}
			if err := rules.Validate(); err != nil {
				return usage(err)
			}
			for _, name := range []string{"cpu-per-day", "step", "check-every", "check-budget"} {
				if d, _ := cmd.Flags().GetDuration(name); d <= 0 { // the library takes 0 for its default
					return usage(fmt.Errorf("--%s %v: want a positive duration such as %s", name, d, cmd.Flags().Lookup(name).DefValue))
				}
			}
			if shown.Listen != noPage {
				if _, err := dashboard.CheckListen(shown.Listen, shown.TLSCert, shown.TLSKey, shown.TokenFile); err != nil {
					return usage(fmt.Errorf("--%w", err)) // it begins with the name of the option
				}
			}
			if !slices.Contains(daemonTargets, target) {
				return usage(fmt.Errorf("--target %q: %s", target, alternatives(daemonTargets)))
			}
			opt.Rules, opt.Memory = rules, memory<<20
			return a.daemon(cmd, opt, shown, target)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&opt.Models, "model", nil, "a preset's name or a GGUF file; may be given several times")
	if err := cmd.RegisterFlagCompletionFunc("model", completeModel); err != nil {
		panic("cmd: completion for a flag just defined")
	}
	f.DurationVar(&opt.PerDay, "cpu-per-day", 30*time.Minute, "CPU time in any 24 hours, all cores together")
	f.DurationVar(&opt.Step, "step", 20*time.Second, "how long a tune lasts at first; it doubles until something is decided")
	f.DurationVar(&opt.Every, "check-every", 6*time.Hour, "how often to check what was learned")
	f.DurationVar(&opt.Check, "check-budget", 10*time.Second, "how long a check lasts")
	f.StringVar(&hours, "hours", "", "hours of the day in which to work, local time, such as 22:00-06:00 (default: always)")
	f.DurationVar(&rules.Quiet, "quiet-for", rules.Quiet, "how long the host must have been idle")
	f.Float64Var(&rules.Utilization, "max-utilization", rules.Utilization, "share of the CPUs that others may use")
	f.Float64Var(&rules.Idle, "idle-utilization", rules.Idle, "share of the CPUs up to which others' use means that nobody works; above it, work is done in bursts")
	f.Float64Var(&rules.BurstShare, "burst-share", rules.BurstShare, "share of the time that bursts may take")
	f.BoolVar(&rules.OnBattery, "on-battery", false, "also work on a battery")
	f.Uint64Var(&memory, "child-memory", 0, "most MiB that a step may take (default: half of what is available)")
	f.StringVar(&opt.Lock, "host-lock", idle.DefaultLock(), "file whose lock makes this the one daemon of the host")
	f.StringVar(&shown.Listen, "listen", dashboard.DefaultListen, "HOST:PORT of the page, the JSON API and the metrics, or "+noPage)
	f.StringVar(&shown.TLSCert, "tls-cert", "", "PEM file with the certificate of the page")
	f.StringVar(&shown.TLSKey, "tls-key", "", "PEM file with its key")
	f.StringVar(&shown.TokenFile, "token-file", "", "file with the token that changes on the page demand; made if absent (default dashboard.token in the store)")
	f.StringVar(&target, "target", "cpu", "what to measure on: "+alternatives(daemonTargets))
	completeFlag(cmd, "target", words(daemonTargets...))
	return cmd
}

// daemonTargets are the values of --target: what a step can tune.
var daemonTargets = []string{"cpu", "cuda", "auto"}

func (a *app) daemon(cmd *cobra.Command, opt daemon.Options, shown dashboard.Options, target string) error {
	if len(opt.Models) == 0 {
		return usage(errors.New("--model: name at least one model"))
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("daemon: %w", err)
	}
	t, err := a.open(tuner.Options{})
	if err != nil {
		return err
	}
	defer t.Close()
	for _, model := range opt.Models {
		if _, err := t.Plan(cmd.Context(), model); err != nil {
			return err
		}
	}
	opt.Tuner, opt.Store, opt.Log = t, a.store, a.log
	if target != "cpu" {
		gpus, err := gpu.NewReader(gpu.ReaderOptions{})
		if err != nil {
			a.log.Warn().Msg("how busy the GPUs are cannot be told, so it keeps nobody away: " + err.Error())
		} else {
			defer gpus.Close()
			opt.GPU = gpus.Utilization
		}
	}
	opt.Child = []string{self, "step", "--store", a.store, "--prior", a.prior, "--target", target, "--mode", "tune", "--quiet"}
	if err = a.runShown(cmd.Context(), opt, shown); errors.Is(err, idle.ErrHeld) {
		return coded{exitBusy, err}
	}
	return err
}

// parseHours reads "22:00-06:00"; "" is the whole day.
func parseHours(text string) (from, to time.Duration, err error) {
	if text == "" {
		return 0, 0, nil
	}
	first, last, ok := strings.Cut(text, "-")
	for part, at := range map[string]*time.Duration{first: &from, last: &to} {
		t, bad := time.Parse("15:04", part)
		if !ok || bad != nil {
			return 0, 0, fmt.Errorf("--hours %q: want times of day such as 22:00-06:00", text)
		}
		*at = time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute
	}
	return from, to, nil
}
