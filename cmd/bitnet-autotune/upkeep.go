package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/bitnet-autotune/bitnet-autotune/history"
)

func (a *app) historyCheck() *cobra.Command {
	var repair bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check every record's checksum and the published snapshot; --repair keeps what is intact",
		Long: `Check reads everything and says what is damaged. With --repair it then makes the database anew of every intact
value in its file, the backups and the snapshot, says what was lost, and keeps the damaged file in quarantine.`,
		Example: `  bitnet-autotune history check
  bitnet-autotune history check --repair --format json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			report, err := a.check(cmd)
			if err != nil {
				return err
			}
			if report.OK || !repair {
				return a.reportCheck(checkDoc{CheckReport: report})
			}
			return a.repair(cmd, report)
		},
	}
	cmd.Flags().BoolVar(&repair, "repair", false, "make a damaged database anew of what is intact")
	return cmd
}

// checkDoc is what check prints.
type checkDoc struct {
	history.CheckReport
	Repaired *history.Repaired `json:"repaired,omitempty"`
	Found    []string          `json:"found,omitempty"` // the problems before the repair
}

// check checks a history; one that is too damaged to open is a report as well.
func (a *app) check(cmd *cobra.Command) (history.CheckReport, error) {
	store, err := a.readHistory()
	if err == nil {
		var report history.CheckReport
		if report, err = store.Check(cmd.Context()); err == nil {
			return report, nil
		}
	}
	if errors.Is(err, history.ErrCorrupt) {
		return history.CheckReport{Problems: []string{err.Error()}}, nil
	}
	return history.CheckReport{}, err
}

// repair repairs a history and checks it again.
func (a *app) repair(cmd *cobra.Command, found history.CheckReport) error {
	store, err := history.Open(a.store, history.Options{})
	if store == nil || err != nil && !errors.Is(err, history.ErrCorrupt) {
		return err
	}
	done, err := store.Repair(cmd.Context())
	if err != nil {
		return err
	}
	a.log.Warn().Msg("history: " + done.String())
	report, err := store.Check(cmd.Context())
	if err != nil {
		return err
	}
	return a.reportCheck(checkDoc{report, &done, found.Problems})
}

// reportCheck prints a report; one of damage is exit code 1.
func (a *app) reportCheck(doc checkDoc) error {
	if err := a.print(doc, func(w io.Writer) { writeCheck(w, doc) }); err != nil || doc.OK {
		return err
	}
	return silently(exitError)
}

func writeCheck(w io.Writer, doc checkDoc) {
	for _, p := range doc.Found {
		fmt.Fprintf(w, "found: %s\n", p)
	}
	if doc.Repaired != nil {
		fmt.Fprintf(w, "repaired: %s\n", doc.Repaired)
	}
	verdict := "ok"
	if !doc.OK {
		verdict = "DAMAGED"
	}
	fmt.Fprintf(w, "%s: %d records\n", verdict, doc.Records)
	for _, p := range doc.Problems {
		fmt.Fprintf(w, "  %s\n", p)
	}
	if !doc.OK && doc.Repaired == nil {
		fmt.Fprintln(w, "  history check --repair keeps what is intact and says what was lost")
	}
}

func (a *app) historyBackup() *cobra.Command {
	return &cobra.Command{
		Use:   "backup [FILE]",
		Short: "Copy the database, to history.bak in the store or to a new file",
		Long: `Backup copies the database while others use it. Without FILE the copy is history.bak in the store, and the one
before stays as history.bak.1; writing makes such a copy by itself once an hour, and tune when it ends.`,
		Example: `  bitnet-autotune history backup
  bitnet-autotune history backup /var/backups/bitnet-autotune.db`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.writeHistory(false, func(store *history.Store) error {
				path, err := store.Backup(cmd.Context(), argument(args))
				if err != nil {
					return err
				}
				return a.print(map[string]string{"backup": path}, func(w io.Writer) { fmt.Fprintln(w, path) })
			})
		},
	}
}

// argument is the one argument of a verb, "" if there is none.
func argument(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

func (a *app) historyRestore() *cobra.Command {
	return &cobra.Command{
		Use:   "restore [FILE]",
		Short: "Put a backup in place of the database, which goes to quarantine",
		Long: `Restore takes FILE, or the newest good backup in the store, and publishes what it holds. What was measured or
learned after the backup is then only in the file in quarantine. For a damaged database, check --repair keeps more.`,
		Example: `  bitnet-autotune history restore
  bitnet-autotune history restore /var/backups/bitnet-autotune.db --format json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.needStore(); err != nil {
				return err
			}
			store, err := history.Open(a.store, history.Options{})
			if store == nil || err != nil && !errors.Is(err, history.ErrCorrupt) {
				return err
			}
			done, err := store.Restore(cmd.Context(), argument(args))
			if err != nil {
				return err
			}
			return a.print(done, func(w io.Writer) {
				fmt.Fprintf(w, "restored %d records from %s; what was there before is %s\n", done.Records, done.From, done.Aside)
			})
		},
	}
}

// compaction is what compact prints.
type compaction struct {
	Before int64 `json:"bytes_before"`
	After  int64 `json:"bytes_after"`
}

func (a *app) historyCompact() *cobra.Command {
	return &cobra.Command{
		Use:     "compact",
		Short:   "Write the database anew without its free pages",
		Example: "  bitnet-autotune history compact",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.writeHistory(false, func(store *history.Store) error {
				before, after, err := store.Compact(cmd.Context())
				if err != nil {
					return err
				}
				return a.print(compaction{before, after}, func(w io.Writer) { fmt.Fprintf(w, "%d bytes before, %d after\n", before, after) })
			})
		},
	}
}

func (a *app) historyPrune() *cobra.Command {
	var r history.Retention
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Sum up old measurements and remove them",
		Long: `Prune keeps the newest measurements of each setting and removes the others and those that are too old; the last four
of a setting stay however old they are. What was removed stays summed up: see history export --aggregates.`,
		Example: `  bitnet-autotune history prune
  bitnet-autotune history prune --keep 16 --older-than 168h --format json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.writeHistory(false, func(store *history.Store) error {
				done, err := store.Prune(cmd.Context(), r)
				if err != nil {
					return err
				}
				return a.print(done, func(w io.Writer) { writePruned(w, done) })
			})
		},
	}
	cmd.Flags().IntVar(&r.PerCell, "keep", history.DefaultPerCell, "newest measurements of each setting that stay")
	cmd.Flags().DurationVar(&r.MaxAge, "older-than", history.DefaultMaxAge, "age at which the others go")
	return cmd
}

func writePruned(w io.Writer, done history.Pruned) {
	fmt.Fprintf(w, "removed %d measurements, kept %d\n", done.Removed, done.Kept)
	if done.Damaged > 0 {
		fmt.Fprintf(w, "%d settings have a damaged measurement and were left: history check --repair\n", done.Damaged)
	}
	if done.Compacted {
		fmt.Fprintln(w, "compacted: more than half of the file was free")
	}
}
