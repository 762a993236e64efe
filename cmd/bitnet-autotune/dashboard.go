package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"

	"github.com/bitnet-autotune/bitnet-autotune/tuner"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/advisor"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/daemon"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/dashboard"
)

// noPage is the --listen of a daemon without a page.
const noPage = "off"

// runShown runs a daemon, and beside it the page that shows it: from when this is the one daemon of the host until it ends.
// A page that breaks down ends the daemon, or nobody would notice.
func (a *app) runShown(ctx context.Context, opt daemon.Options, shown dashboard.Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var serving sync.WaitGroup
	var broken error // why the page ended
	var d *daemon.Daemon
	opt.Ready = func() error {
		shown.Daemon, shown.Tuner, shown.Store, shown.Log, shown.Build = d, opt.Tuner, opt.Store, opt.Log, thisBuild().Version
		shown.Advise = a.adviseOn(opt.Tuner)
		server, err := dashboard.New(shown)
		if err == nil {
			err = server.Listen()
		}
		if err != nil {
			return fmt.Errorf("daemon: --%w", err)
		}
		serving.Go(func() {
			defer cancel()
			if err := server.Serve(ctx); err != nil {
				broken = fmt.Errorf("daemon: the page: %w", err)
			}
		})
		return nil
	}
	if shown.Listen == noPage {
		opt.Ready = nil
	}
	d, err := daemon.New(opt)
	if err != nil {
		return usage(err)
	}
	err = d.Run(ctx)
	cancel()
	serving.Wait()
	return errors.Join(err, broken)
}

// adviseOn advises as the advise verb does, for a service that runs a model with this program's kernels as the plan says.
func (a *app) adviseOn(t *tuner.Tuner) func(context.Context, string) (advisor.Report, error) {
	return func(ctx context.Context, model string) (advisor.Report, error) {
		rules, err := advisor.New(advisor.Options{})
		if err != nil {
			return advisor.Report{}, err
		}
		plan, err := t.Plan(ctx, model)
		if err != nil {
			return advisor.Report{}, err
		}
		s, err := a.survey(ctx, os.DirFS("/"), adviceRequest{model: model, current: settingsIn(plan.Config), constants: defaultConstants()})
		if err != nil {
			return advisor.Report{}, err
		}
		defer s.close()
		return s.advise(ctx, rules), nil
	}
}

// settingsIn are the settings of a config as the rules name them.
func settingsIn(c tuner.Config) advisor.Settings {
	s := advisor.Settings{"mode": "inference", "engine": "bitnet-autotune", "layout": string(c.Layout), "kernel": c.Decode.Kernel}
	for key, n := range map[string]int{"threads": c.Decode.Threads, "prefill_batch": c.Prefill.Batch} {
		if n > 0 {
			s[key] = strconv.Itoa(n)
		}
	}
	return s
}
