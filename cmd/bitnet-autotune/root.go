package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/bitnet-autotune/bitnet-autotune/history/fleet"
	"github.com/bitnet-autotune/bitnet-autotune/tuner"
)

// app is what every verb works with.
type app struct {
	out, err io.Writer
	log      zerolog.Logger
	store    string
	prior    string
	format   string
	level    string
	quiet    bool
	mode     string
	frozen   []string
	fleet    fleet.Options
}

// run executes one command line and returns the exit code. Everything the process says goes through out and err.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	a := &app{out: out, err: errs}
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	if !errors.Is(err, errSilent) {
		fmt.Fprintln(errs, "bitnet-autotune: "+oneLine(err))
	}
	return exitCode(err)
}

// oneLine keeps an error to a single line, whatever was wrapped in it.
func oneLine(err error) string {
	return strings.Join(strings.Fields(err.Error()), " ")
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "bitnet-autotune",
		Short: "Find, prove and remember the fastest way to run a 1.58-bit (BitNet) model on this host",
		Long: `bitnet-autotune measures real ternary kernels on this host, proves the best setting against the default,
remembers it, and answers with it from then on.

Values come from, first wins: flag, environment (BITNET_AUTOTUNE_<FLAG>), config file, what was learned, site prior, heuristic.
The config file is $BITNET_AUTOTUNE_CONFIG or $XDG_CONFIG_HOME/bitnet-autotune/config.json, one key per flag.

Exit codes: 0 done, 1 error, 2 usage, 3 inconclusive or nothing learned, 4 busy or no budget, 5 verification failed.`,
		Example: `  bitnet-autotune tune --model bitnet-b1.58-2b-4t --budget 60s
  bitnet-autotune config --model bitnet-b1.58-2b-4t --for llama.cpp
  bitnet-autotune explain --model bitnet-b1.58-2b-4t`,
		Version:           thisBuild().Version,
		SilenceUsage:      true,
		SilenceErrors:     true,
		PersistentPreRunE: a.settle,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage(err) })
	flags := root.PersistentFlags()
	flags.StringVar(&a.store, "store", defaultStore(), "state directory")
	flags.StringVar(&a.prior, "prior", "/etc/bitnet-autotune/prior.json", "learned configs that an image or a site ships (history export --learned); below what is learned here")
	flags.StringVar(&a.format, "format", "text", "what to print: text or json; bench also csv or markdown, replay also markdown, advise also md")
	flags.StringVar(&a.level, "log-level", "info", "least level of log lines on stderr: "+strings.Join(logLevels, ", "))
	flags.BoolVar(&a.quiet, "quiet", false, "no progress and no log lines below error")
	flags.StringVar(&a.mode, "mode", string(tuner.ModeTune), "how much may be done: off (nothing learned is used), use (nothing is measured), advise (nothing is changed), tune or frozen")
	flags.StringSliceVar(&a.frozen, "frozen", nil, "with --mode frozen: hashes of the configs that may answer, as explain prints them; any other fails with code 5")
	root.AddCommand(a.probeVerb(), a.modelsVerb(), a.inspectVerb(), a.tuneVerb(), a.configVerb(), a.explainVerb(),
		a.verifyVerb(), a.adviseVerb(), a.benchVerb(), a.replayVerb(), a.historyVerb(), a.pinVerb(), a.unpinVerb(), a.rollbackVerb(),
		a.daemonVerb(), a.stepVerb(), a.manVerb(), a.fleetVerb(), a.classifyVerb(), a.recommendVerb(), a.placeVerb(), a.gpuVerb(), a.versionVerb())
	completeFlag(root, "format", func(verb *cobra.Command) []string { return formatsOf(verb) })
	completeFlag(root, "log-level", words(logLevels...))
	completeFlag(root, "mode", words(modeNames()...))
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.InitDefaultCompletionCmd() // keeps the writer it finds
	for _, verb := range root.Commands() {
		if verb.HasSubCommands() {
			wantVerb(verb)
		}
	}
	return root
}

// wantVerb makes a command that is nothing without a verb of its own refuse an unknown one. cobra prints help for any.
func wantVerb(cmd *cobra.Command) {
	var names []string
	for _, verb := range cmd.Commands() {
		names = append(names, verb.Name())
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usage(fmt.Errorf("%s %q: one of %s", cmd.Name(), args[0], strings.Join(names, ", ")))
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
}

// modeNames are the values of --mode.
func modeNames() []string {
	var names []string
	for _, m := range tuner.Modes() {
		names = append(names, string(m))
	}
	return names
}

// logLevels are the values of --log-level.
var logLevels = []string{"debug", "info", "warn", "error"}

// moreFormats is the annotation of a verb that prints in other formats besides text and json: their names, with commas.
const moreFormats = "formats"

// formatsOf are the values of --format that a verb knows.
func formatsOf(verb *cobra.Command) []string {
	formats := []string{"text", "json"}
	if more := verb.Annotations[moreFormats]; more != "" {
		formats = append(formats, strings.Split(more, ",")...)
	}
	return formats
}

// settle fills the flags that were not given from the environment and the config file, and sets the log up.
func (a *app) settle(cmd *cobra.Command, _ []string) error {
	sources, err := fillFlags(cmd, os.LookupEnv)
	if err != nil {
		return usage(err)
	}
	if formats := formatsOf(cmd); !slices.Contains(formats, a.format) {
		return usage(fmt.Errorf("--format %q: %s prints %s", a.format, cmd.CommandPath(), alternatives(formats)))
	}
	if _, err := tuner.ParseMode(a.mode); err != nil {
		return usage(fmt.Errorf("--mode: %w", err))
	}
	if (a.mode == string(tuner.ModeFrozen)) != (len(a.frozen) > 0) {
		return usage(fmt.Errorf("--mode %s --frozen %v: mode frozen wants the hashes of the configs, and no other mode does", a.mode, a.frozen))
	}
	level, err := zerolog.ParseLevel(a.level)
	if err != nil || a.level == "" {
		return usage(fmt.Errorf("--log-level %q: %s", a.level, alternatives(logLevels)))
	}
	if a.quiet {
		level = zerolog.ErrorLevel
	}
	a.log = zerolog.New(zerolog.ConsoleWriter{Out: a.err, NoColor: !isTerminal(a.err), TimeFormat: time.TimeOnly}).
		Level(level).With().Timestamp().Logger()
	for _, s := range sources {
		a.log.Debug().Str("flag", s.flag).Str("value", s.value).Str("source", s.source).Msg("value")
	}
	return nil
}

// defaultStore is where state belongs by the XDG base directory rules.
func defaultStore() string {
	if dir := os.Getenv("XDG_STATE_HOME"); dir != "" {
		return filepath.Join(dir, "bitnet-autotune")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "" // no home: plans come from facts alone, and verbs that keep something ask for --store
	}
	return filepath.Join(home, ".local", "state", "bitnet-autotune")
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// needStore refuses to go on where what the verb makes could not be kept.
func (a *app) needStore() error {
	if a.store == "" {
		return usage(errors.New("--store: no home directory to keep results in; name a directory"))
	}
	return nil
}

// open returns a tuner over the store.
func (a *app) open(opt tuner.Options) (*tuner.Tuner, error) {
	opt.Store, opt.Prior, opt.CUDA = a.store, a.prior, openCUDA
	opt.Mode, opt.Frozen = tuner.Mode(a.mode), a.frozen
	return tuner.Open(opt)
}

// print writes v as the one JSON document of this command, or as text.
func (a *app) print(v any, text func(io.Writer)) error {
	if a.format == "json" {
		return a.printJSON(v)
	}
	return a.printText(text)
}

// printText prints for people; a full disk or a closed pipe is an error here as it is for JSON.
func (a *app) printText(text func(io.Writer)) error {
	w := bufio.NewWriter(a.out)
	text(w)
	return w.Flush()
}

func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.out)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
