package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/bitnet-autotune/bitnet-autotune/history"
	"github.com/bitnet-autotune/bitnet-autotune/tuner"
)

func (a *app) historyVerb() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "history",
		Short: "The record of every run and measurement",
		Example: `  bitnet-autotune history list
  bitnet-autotune history show RUN
  bitnet-autotune history export >measurements.jsonl
  bitnet-autotune history check --repair
  bitnet-autotune history backup`,
	}
	cmd.AddCommand(a.historyList(), a.historyShow(), a.historyExport(), a.historyImport(), a.historyCheck(),
		a.historyBackup(), a.historyRestore(), a.historyCompact(), a.historyPrune())
	return cmd
}

// readHistory opens the store for reading; it never creates one.
func (a *app) readHistory() (*history.Store, error) {
	store, err := history.Open(a.store, history.Options{ReadOnly: true})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("history: no history in %q: run tune first, or name another --store (%w)", a.store, fs.ErrNotExist)
	}
	a.logWarnings(store)
	return store, err
}

// writeHistory opens the store for writing and uses it. It makes none where there is none, unless the verb fills it.
func (a *app) writeHistory(fills bool, use func(*history.Store) error) error {
	if err := a.needStore(); err != nil {
		return err
	}
	if !fills {
		if _, err := os.Stat(a.store); err != nil {
			return fmt.Errorf("history: no history in %q: run tune first, or name another --store (%w)", a.store, fs.ErrNotExist)
		}
	}
	store, err := history.Open(a.store, history.Options{})
	defer a.logWarnings(store)
	if err != nil {
		return err
	}
	return use(store)
}

// logWarnings logs what is doubtful about a store and what was done about it, a line each.
func (a *app) logWarnings(store *history.Store) {
	if store == nil {
		return
	}
	for _, w := range store.Warnings() {
		a.log.Warn().Msg(oneLine(w))
	}
}

func (a *app) historyList() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the runs, newest last",
		Example: "  bitnet-autotune history list --format json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			store, err := a.readHistory()
			if err != nil {
				return err
			}
			runs, err := store.Runs(cmd.Context())
			if err != nil {
				return err
			}
			docs := make([]runDoc, len(runs))
			for i, r := range runs {
				docs[i] = newRunDoc(r)
			}
			return a.print(docs, func(w io.Writer) { writeRuns(w, runs) })
		},
	}
}

// runDoc is a run with its id as all verbs print it. The history's own JSON has decimals, which stay what they are.
type runDoc struct {
	ID string `json:"id"` // in place of Run.ID
	history.Run
}

func newRunDoc(r history.Run) runDoc { return runDoc{ID: runID(r.ID), Run: r} }

// recordDoc is a record likewise.
type recordDoc struct {
	Run string `json:"run"` // in place of Record.Run
	history.Record
}

// runID spells a run's id as history list and the certificate do.
func runID(id uint64) string { return fmt.Sprintf("%016x", id) }

// parseRunID reads an id of 16 hex digits, or the longer decimal that history export writes.
func parseRunID(s string) (uint64, error) {
	base := 16
	if len(s) > 16 {
		base = 10
	}
	id, err := strconv.ParseUint(s, base, 64)
	if err != nil {
		return 0, usage(fmt.Errorf("run %q: 16 hex digits as history list prints them, or the decimal of history export", s))
	}
	return id, nil
}

func writeRuns(w io.Writer, runs []history.Run) {
	if len(runs) == 0 {
		fmt.Fprintln(w, "no runs yet")
		return
	}
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "run\tstarted\ttook\tverdict\ttarget\tobjective\tmodel")
	for _, r := range runs {
		fmt.Fprintf(tab, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", runID(r.ID), r.Started.Local().Format(time.DateTime), took(r), orUnknown(r.Verdict), r.Target, r.Objective, modelName(r))
	}
	tab.Flush()
}

// took is how long a run lasted; one that was killed has no end.
func took(r history.Run) string {
	if r.Finished.IsZero() {
		return "unfinished"
	}
	return fmt.Sprintf("%.0f s", r.Finished.Sub(r.Started).Seconds())
}

// modelName is the name in a run's certificate, or where it has none the beginning of the model's fingerprint.
func modelName(r history.Run) string {
	var cert struct{ Model string }
	if json.Unmarshal(r.Certificate, &cert) == nil && cert.Model != "" {
		return cert.Model
	}
	return fmt.Sprintf("%.12s", r.Model)
}

func (a *app) historyShow() *cobra.Command {
	return &cobra.Command{
		Use:     "show RUN",
		Short:   "Show a run: its certificate and its measurements",
		Example: "  bitnet-autotune history show 1a2b3c4d5e6f7081",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := parseRunID(args[0])
			if err != nil {
				return err
			}
			store, err := a.readHistory()
			if err != nil {
				return err
			}
			return a.showRun(cmd, store, id)
		},
	}
}

// runReport is a run with its measurements.
type runReport struct {
	Run     runDoc      `json:"run"`
	Records []recordDoc `json:"records"`
}

func (a *app) showRun(cmd *cobra.Command, store *history.Store, id uint64) error {
	runs, err := store.Runs(cmd.Context())
	if err != nil {
		return err
	}
	for _, r := range runs {
		if r.ID != id {
			continue
		}
		report := runReport{Run: newRunDoc(r), Records: []recordDoc{}}
		err := store.Records(cmd.Context(), history.Filter{Run: id}, func(rec history.Record) error {
			report.Records = append(report.Records, recordDoc{runID(rec.Run), rec})
			return nil
		})
		if err != nil {
			return err
		}
		return a.print(report, func(w io.Writer) { writeRun(w, report) })
	}
	return fmt.Errorf("history: no run %s in %s: see history list", runID(id), a.store)
}

func writeRun(w io.Writer, r runReport) {
	writeRuns(w, []history.Run{r.Run.Run})
	fmt.Fprintln(w)
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "#\tregime\tstatus\tcost to heuristic\tsetting")
	for _, rec := range r.Records {
		fmt.Fprintf(tab, "%d\t%s\t%s\t%s\t%s\n", rec.Seq, rec.Regime, rec.Status, costs(rec.Costs), settingText(rec.Record))
	}
	tab.Flush()
}

func costs(list []float64) string {
	if len(list) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3f (%d)", tuner.Median(list), len(list))
}

func settingText(rec history.Record) string {
	if rec.Note != "" {
		return string(rec.Config) + ": " + rec.Note
	}
	return string(rec.Config)
}
