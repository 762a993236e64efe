package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bitnet-autotune/bitnet-autotune/history"
	"github.com/bitnet-autotune/bitnet-autotune/history/t4"
)

// The formats of an export. An import tells them apart by itself.
const (
	asJSONL = "jsonl"
	asT4    = "t4"
	asCache = "kernel-tuner"
)

type export struct {
	as            string
	learned, sums bool
	filter        history.Filter
}

func (a *app) historyExport() *cobra.Command {
	var e export
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write measurements to stdout as JSONL, T4 or a Kernel Tuner cache, or what was learned as a site prior",
		Long: `Write every measurement to stdout as JSONL, or those of one host, model and regime as a file that other tuners read:
T4 results, or a cache of Kernel Tuner. history import takes all three back without loss; settings of which no sample
counted are in the JSONL alone. --learned writes what was learned as a site prior.`,
		Example: `  bitnet-autotune history export >measurements.jsonl
  bitnet-autotune history export --as t4 --regime decode >decode.t4.json
  bitnet-autotune history export --as kernel-tuner --regime decode >decode.json
  bitnet-autotune history export --learned >/etc/bitnet-autotune/prior.json
  bitnet-autotune history export --aggregates`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.export(cmd, e) },
	}
	f := cmd.Flags()
	f.StringVar(&e.as, "as", asJSONL, "format: "+strings.Join([]string{asJSONL, asT4, asCache}, ", "))
	f.StringVar(&e.filter.Model, "model-fingerprint", "", "only this model's, by its 32 hex digits")
	f.StringVar(&e.filter.Host, "host", "", "only this host's, by its 32 hex digits")
	f.StringVar(&e.filter.Target, "target", "", "only what was measured there, such as cpu")
	f.StringVar(&e.filter.Regime, "regime", "", "only this regime: decode, small_batch or prefill")
	f.BoolVar(&e.learned, "learned", false, "the learned configs, as a document for --prior")
	f.BoolVar(&e.sums, "aggregates", false, "what is known of pruned measurements, as JSONL")
	cmd.MarkFlagsMutuallyExclusive("learned", "aggregates", "as")
	completeFlag(cmd, "as", words(asJSONL, asT4, asCache))
	completeFlag(cmd, "regime", words("decode", "small_batch", "prefill"))
	return cmd
}

func (a *app) export(cmd *cobra.Command, e export) error {
	if e.learned {
		return a.exportLearned(e.filter.Model)
	}
	formats := map[string]t4.Format{asT4: t4.Results, asCache: t4.Cache}
	format, foreign := formats[e.as]
	if !foreign && e.as != asJSONL {
		return usage(fmt.Errorf("history: export --as %q: one of %s, %s, %s", e.as, asJSONL, asT4, asCache))
	}
	store, err := a.readHistory()
	switch {
	case err != nil:
		return err
	case e.sums:
		return a.exportSums(cmd, store, e.filter)
	case foreign:
		return a.exportEntries(cmd, store, e, format)
	}
	return store.Export(cmd.Context(), a.out, e.filter)
}

// exportLearned writes what is published as a prior. It does not need the database.
func (a *app) exportLearned(model string) error {
	snap, err := history.ReadSnapshot(a.store)
	if errors.Is(err, history.ErrNoSnapshot) {
		snap, err = &history.Snapshot{}, nil
	}
	if err != nil {
		return err
	}
	list := []history.Learned{}
	for _, l := range snap.Learned {
		if model == "" || l.Model == model {
			list = append(list, l)
		}
	}
	if len(list) == 0 {
		return coded{exitInconclusive, fmt.Errorf("history: nothing learned in %q to export: run tune first", a.store)}
	}
	return history.WritePrior(a.out, list)
}

func (a *app) exportSums(cmd *cobra.Command, store *history.Store, filter history.Filter) error {
	sums, err := store.Aggregates(cmd.Context(), filter)
	enc := json.NewEncoder(a.out)
	for _, sum := range sums {
		if err := enc.Encode(sum); err != nil {
			return err
		}
	}
	return err
}

// exportEntries writes the measurements of one host, model, target and regime as a file of other tuners.
func (a *app) exportEntries(cmd *cobra.Command, store *history.Store, e export, format t4.Format) error {
	var group t4.Records
	var first history.Record
	err := store.Records(cmd.Context(), e.filter, func(r history.Record) error {
		if first.Run == 0 {
			first = r
		}
		for _, field := range [][3]string{
			{"host", first.Host, r.Host}, {"model-fingerprint", first.Model, r.Model}, {"target", first.Target, r.Target}, {"regime", first.Regime, r.Regime},
		} {
			if field[1] != field[2] {
				return usage(fmt.Errorf("history: export --as %s: measurements of %s and of %s: choose one with --%s", e.as, field[1], field[2], field[0]))
			}
		}
		return group.Add(r)
	})
	if err != nil {
		return err
	}
	entries := group.Entries()
	if len(entries) == 0 {
		return coded{exitInconclusive, fmt.Errorf("history: export --as %s: no measurement in %q that was asked for", e.as, a.store)}
	}
	if err := rename(cmd, store, first.Run, &group); err != nil {
		return err
	}
	w, err := t4.NewWriter(a.out, format, group.Header())
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if err := w.Write(entry); err != nil {
			return err
		}
	}
	return w.Close()
}

// rename gives what was imported from another tuner its names back.
func rename(cmd *cobra.Command, store *history.Store, run uint64, group *t4.Records) error {
	runs, err := store.Runs(cmd.Context())
	if i := slices.IndexFunc(runs, func(r history.Run) bool { return r.ID == run }); i >= 0 && runs[i].Facts["kernel_name"] != "" {
		group.Name(runs[i].Facts["device_name"], runs[i].Facts["kernel_name"])
	}
	return err
}

func (a *app) historyImport() *cobra.Command {
	return &cobra.Command{
		Use:   "import FILE",
		Short: "Add measurements from a JSONL, T4 or Kernel Tuner cache file; those already there stay as they are",
		Long: `Add the measurements of a file to the history: JSONL as history export writes it, T4 results, or a cache of Kernel
Tuner, plain or gzipped, also one that a killed run left unfinished. What other tuners measured becomes a run of its own
under target "recorded", and bears on no plan.`,
		Example: `  bitnet-autotune history import measurements.jsonl
  bitnet-autotune history import convolution-A100.json.gz`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			file, err := os.Open(args[0])
			if err != nil {
				return err
			}
			defer file.Close()
			return a.writeHistory(true, func(store *history.Store) error {
				n, err := a.importFile(cmd, store, bufio.NewReaderSize(file, 64<<10))
				if err != nil {
					return fmt.Errorf("%s: %w", args[0], err)
				}
				return a.print(map[string]int{"imported": n}, func(w io.Writer) { fmt.Fprintf(w, "imported %d measurements\n", n) })
			})
		},
	}
}

func (a *app) importFile(cmd *cobra.Command, store *history.Store, file *bufio.Reader) (int, error) {
	if isJSONL(file) {
		return store.Import(cmd.Context(), file)
	}
	reader, err := t4.NewReader(file)
	if err != nil {
		return 0, err
	}
	list := t4.NewImport(reader)
	n, err := store.ImportRecords(cmd.Context(), list.All())
	if run, ok := list.Run(); ok && err == nil {
		err = store.PutRun(cmd.Context(), run)
	}
	if err == nil && reader.Torn() {
		a.log.Warn().Msg("history: import: the file ends early, as that of a killed run does: its whole entries were read")
	}
	return n, err
}

// isJSONL reports whether a file begins with a record on a line of its own, or with what is no JSON object at all, of which
// the reader of JSONL says what is wrong. Only the names of the first object count: results that history export wrote carry
// records deeper down, and a file may be one line.
func isJSONL(file *bufio.Reader) bool {
	head, _ := file.Peek(file.Size())
	if bytes.HasPrefix(head, []byte{0x1f, 0x8b}) { // gzip
		return false
	}
	dec := json.NewDecoder(bytes.NewReader(head))
	if first, err := dec.Token(); err != nil || first != json.Delim('{') {
		return true
	}
	for {
		var value json.RawMessage
		name, err := dec.Token()
		switch {
		case err != nil || name == json.Delim('}'):
			return false
		case name == "run" || name == "regime":
			return true
		case dec.Decode(&value) != nil: // it goes on beyond the head
			return false
		}
	}
}
