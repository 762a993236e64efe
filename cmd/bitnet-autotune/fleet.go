package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/bitnet-autotune/bitnet-autotune/history/fleet"
	"github.com/bitnet-autotune/bitnet-autotune/tuner"
)

// fleetPassword is the variable that holds the password of --fleet-user. A flag would show it to every process.
const fleetPassword = "BITNET_AUTOTUNE_FLEET_PASSWORD"

// fleetFlags adds what names the fleet to a verb.
func (a *app) fleetFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&a.fleet.URL, "fleet", "", "where hosts share what they learned: etcd://HOST:PORT[,…][/PREFIX], etcds://… for TLS, or dir:///PATH")
	f.StringVar(&a.fleet.CA, "fleet-ca", "", "PEM file of who signed the fleet's certificate (default: the system's)")
	f.StringVar(&a.fleet.Cert, "fleet-cert", "", "PEM file of the certificate that the fleet asks of this host")
	f.StringVar(&a.fleet.Key, "fleet-key", "", "PEM file of its key")
	f.StringVar(&a.fleet.User, "fleet-user", "", "user of etcd; the password is in "+fleetPassword)
	f.DurationVar(&a.fleet.Timeout, "fleet-timeout", 0, "how long a request to the fleet may take (default 500ms, of a directory 5s)")
}

// openFleet opens the fleet that the flags name.
func (a *app) openFleet(ctx context.Context) (*fleet.Fleet, error) {
	if a.fleet.URL == "" {
		return nil, usage(errors.New("--fleet: an address such as etcd://10.0.0.5:2379 or dir:///mnt/shared/bitnet-autotune"))
	}
	opt := a.fleet
	opt.Password = os.Getenv(fleetPassword)
	opt.Contributor = machineID()
	f, err := fleet.Open(ctx, opt)
	if err != nil {
		return nil, usage(err)
	}
	return f, nil
}

// machineID tells this machine from others of its kind; "" where nothing does. The fleet is told a keyed hash of it.
func machineID() string {
	id, err := os.ReadFile("/etc/machine-id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

func (a *app) fleetVerb() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fleet",
		Short: "Share learned configs with other hosts, through etcd or a shared directory",
		Long: `Hosts of one class (the same processor, and as many usable cores) share what they learned about a model: the config
and its figures, never measurements, names or paths. What comes from another host is a hint: it is checked on this one,
bit for bit and in pairs with the default, before it is ever the answer, and below what was measured here.`,
		Example: `  bitnet-autotune fleet status --fleet etcd://10.0.0.5:2379
  bitnet-autotune tune --model bitnet-b1.58-2b-4t --fleet etcd://10.0.0.5:2379
  bitnet-autotune fleet pull --model bitnet-b1.58-2b-4t --fleet dir:///mnt/shared/bitnet-autotune`,
	}
	cmd.AddCommand(a.fleetPush(), a.fleetPull(), a.fleetStatus())
	return cmd
}

func (a *app) fleetPush() *cobra.Command {
	var model string
	cmd := &cobra.Command{
		Use:   "push",
		Short: "Offer the fleet what was learned on this host",
		Long: `Offers every config that runs on this host decided with this build's kernels, and the settings of every engine that was
tuned here, or those for one model. Where the fleet has one with more evidence, that one stays. Of an engine the settings of its
flags are told, with the hash of its program, and no command, path or name of a file; where the value of a knob of engine exec
may be one, nothing is. Exit 3: nothing was learned here yet. tune --fleet pushes by itself.`,
		Example: `  bitnet-autotune fleet push --fleet etcd://10.0.0.5:2379,10.0.0.6:2379
  bitnet-autotune fleet push --model bitnet-b1.58-2b-4t --fleet dir:///mnt/shared/bitnet-autotune`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withFleet(cmd.Context(), tuner.Options{}, func(t *tuner.Tuner) error {
				list, err := t.Share(cmd.Context(), model)
				if len(list) == 0 && err != nil {
					return err
				}
				if perr := a.print(list, func(w io.Writer) { writeShared(w, list) }); perr != nil {
					return perr
				}
				return err
			})
		},
	}
	optionalModelFlag(cmd, &model, "only what was learned about this model")
	a.fleetFlags(cmd)
	return cmd
}

// perhapsWithFleet opens a tuner, with the fleet if there is one.
func (a *app) perhapsWithFleet(ctx context.Context, opt tuner.Options, use func(*tuner.Tuner) error) error {
	if a.fleet.URL != "" {
		return a.withFleet(ctx, opt, use)
	}
	t, err := a.open(opt)
	if err != nil {
		return err
	}
	defer t.Close()
	return use(t)
}

// withFleet opens the fleet and a tuner that has it.
func (a *app) withFleet(ctx context.Context, opt tuner.Options, use func(*tuner.Tuner) error) error {
	f, err := a.openFleet(ctx)
	if err != nil {
		return err
	}
	defer f.Close()
	opt.Fleet = f
	t, err := a.open(opt)
	if err != nil {
		return err
	}
	defer t.Close()
	return use(t)
}

func writeShared(w io.Writer, list []tuner.Shared) {
	words := map[fleet.Outcome]string{
		fleet.Stored: "the first for hosts of this class",
		fleet.Merged: "added to what was there",
		fleet.Kept:   "what was there has as much evidence, and stays",
	}
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, s := range list {
		outcome, why := string(s.Outcome), words[s.Outcome]
		if outcome == "" {
			outcome, why = "left out", oneLine(errors.New(s.Reason))
		}
		fmt.Fprintf(tab, "%s\t%s\t%s\t%s\t%s\n", outcome, s.Model, s.Target, s.Objective, why)
	}
	tab.Flush()
}

func (a *app) fleetPull() *cobra.Command {
	var model, target string
	var e tuner.EngineBudget
	cmd := &cobra.Command{
		Use:   "pull --model M",
		Short: "Take what hosts of this class learned about a model, and check it on this one",
		Long: `Takes the configs for this host's class, model and kernels, and checks each on this host within the budget: whether it
is possible here, right bit for bit, and not slower than the default. What passes is the answer of config from then on,
unless something was measured here; what does not is refused, and not checked again.

With --target engine:… it takes what was learned of an engine of the very same build with the same model file, and compares
that engine with its own settings in pairs: give it minutes. Only settings of flags come from the fleet, and none that changes
what a model answers; which program runs, this host says (--engine-command, or what was tuned here before). Where there is none,
what the fleet has is kept as a proposal, which config and explain tell of and nobody uses.
Exit 3: the fleet has nothing for this host, or proposals only; 5: everything that it has was refused.`,
		Example: `  bitnet-autotune fleet pull --model bitnet-b1.58-2b-4t --fleet etcd://10.0.0.5:2379
  bitnet-autotune fleet pull --target engine:llama-bench --engine-command ./llama-bench --model ./model.gguf --budget 10m --fleet etcd://10.0.0.5:2379`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.needStore(); err != nil {
				return err
			}
			if target == "" {
				return a.pullConfigs(cmd.Context(), model, e.Time)
			}
			var err error
			if e.Engine, err = engineOf(target); err != nil {
				return err
			}
			if cmd.Flags().Changed("engine-command") {
				if e.Command, err = lookUpEngine(e.Command); err != nil {
					return err
				}
			}
			return a.pullEngine(cmd.Context(), model, e)
		},
	}
	a.modelFlag(cmd, &model)
	cmd.Flags().DurationVar(&e.Time, "budget", 20*time.Second, "time for the check")
	targetFlag(cmd, &target)
	engineProgramFlags(cmd, &e)
	a.fleetFlags(cmd)
	return cmd
}

// pullConfigs takes what was learned with our own kernels.
func (a *app) pullConfigs(ctx context.Context, model string, budget time.Duration) error {
	p := newProgress(a)
	return a.withFleet(ctx, tuner.Options{Progress: p.show}, func(t *tuner.Tuner) error {
		got, err := t.Receive(ctx, model, budget)
		p.clear()
		if got != nil {
			a.warn(got.Warnings)
		}
		if err != nil {
			return err
		}
		if err := a.print(got, func(w io.Writer) { writeReceived(w, got.Received); writePlan(w, got.Plan) }); err != nil {
			return err
		}
		return allRefused(got.Received)
	})
}

// pullEngine takes what was learned of an engine.
func (a *app) pullEngine(ctx context.Context, model string, b tuner.EngineBudget) error {
	p := newProgress(a)
	return a.withFleet(ctx, engineOptions(p), func(t *tuner.Tuner) error {
		got, err := t.ReceiveEngine(ctx, model, b)
		p.clear()
		if got != nil {
			a.warn(got.Warnings)
		}
		if err != nil {
			return err
		}
		got.Plan.Evidence = nil // explain tells
		if err := a.print(got, func(w io.Writer) { writeReceived(w, got.Received); writeEnginePlan(w, got.Plan) }); err != nil {
			return err
		}
		return allRefused(got.Received)
	})
}

// warn logs a line each.
func (a *app) warn(warnings []string) {
	for _, warning := range warnings {
		a.log.Warn().Msg(warning)
	}
}

// allRefused ends with a code where nothing that was received may be used.
func allRefused(received []tuner.Received) error {
	code := exitUnverified
	for _, r := range received {
		switch r.Verdict {
		case tuner.Failed:
		case tuner.Proposed:
			code = exitInconclusive
		default:
			return nil
		}
	}
	return silently(code)
}

func writeReceived(w io.Writer, received []tuner.Received) {
	words := map[tuner.Outcome]string{tuner.Failed: "refused", tuner.Proposed: "proposed"}
	for _, r := range received {
		verdict := words[r.Verdict]
		if verdict == "" {
			verdict = "accepted"
		}
		fmt.Fprintf(w, "%s  %s, measured on %s by %s\n", verdict, r.Objective, r.MeasuredAt.Local().Format(time.DateOnly), hosts(r.Hosts))
		for _, c := range r.Regimes {
			if c.Reason != "" {
				fmt.Fprintf(w, "  %-12s %s: %s\n", regimeName(c.Regime), c.Verdict, c.Reason)
				continue
			}
			fmt.Fprintf(w, "  %-12s %s: %.3fx the default (%s)\n", regimeName(c.Regime), c.Verdict, c.Ratio.Estimate, interval(c.Ratio))
		}
		if r.Reason != "" {
			fmt.Fprintf(w, "  %s\n", r.Reason)
		}
	}
}

// hosts is a number of hosts in words.
func hosts(n int) string {
	if n == 1 {
		return "1 host"
	}
	return fmt.Sprintf("%d hosts", n)
}

func (a *app) fleetStatus() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Say which part of the fleet answers, how fast, what it holds, and who is tuning",
		Example: "  bitnet-autotune fleet status --fleet etcds://etcd.example:2379 --fleet-ca ca.pem --format json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, err := a.openFleet(cmd.Context())
			if err != nil {
				return err
			}
			defer f.Close()
			s, err := f.Status(cmd.Context())
			if err != nil {
				return err
			}
			return a.print(s, func(w io.Writer) { writeFleetStatus(w, s) })
		},
	}
	a.fleetFlags(cmd)
	return cmd
}

func writeFleetStatus(w io.Writer, s fleet.Status) {
	backend := s.Backend
	if s.Version != "" {
		backend += " " + s.Version
	}
	fmt.Fprintf(w, "%s at %s, answers in %.1f ms\n", backend, s.Endpoint, 1000*s.LatencySeconds)
	fmt.Fprintf(w, "%d configs for %d classes of hosts\n", s.Entries, len(s.Classes))
	for _, class := range sortedKeys(s.Classes) {
		fmt.Fprintf(w, "  %s  %d\n", class, s.Classes[class])
	}
	for _, target := range sortedKeys(s.Targets) {
		fmt.Fprintf(w, "  %s  %d\n", target, s.Targets[target])
	}
	for _, c := range s.Claims {
		fmt.Fprintf(w, "tuning now: %s for class %s, model %.12s, %s\n", c.Holder, c.Class, c.Model, c.Objective)
	}
	for _, warning := range s.Warnings {
		fmt.Fprintf(w, "warning: %s\n", warning)
	}
}
