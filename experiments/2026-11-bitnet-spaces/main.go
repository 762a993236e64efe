// Command 2026-11-bitnet-spaces records the spaces that a live search searches, and judges strategies on the record.
//
//	go run ./experiments/2026-11-bitnet-spaces record -journal DIR
//	go run ./experiments/2026-11-bitnet-spaces pack -journal DIR -table table.jsonl.gz
//	go run ./experiments/2026-11-bitnet-spaces noise
//	go run ./experiments/2026-11-bitnet-spaces judge
//	go run ./experiments/2026-11-bitnet-spaces model
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/bitnet-autotune/bitnet-autotune/probe"
	"github.com/bitnet-autotune/bitnet-autotune/probe/model"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/target"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bitnet-spaces:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("want record, pack, noise, judge or model")
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	journal := flags.String("journal", "", "directory of the journals")
	models := flags.String("models", "bitnet-b1.58-2b-4t,falcon-e-1b,bitnet-b1.58-large,bitnet-embedding-270m", "presets, with commas between")
	regimes := flags.String("regimes", "decode,small_batch,prefill", "with commas between")
	table := flags.String("table", "experiments/2026-11-bitnet-spaces/table.jsonl.gz", "the table to write or to judge on")
	part := flags.String("spaces", "", "part of the names of the spaces to judge on; all if empty")
	names := flags.String("strategies", "auto,random,bisection,heuristic,default", "strategies to judge, with commas between")
	seeds := flags.Int("seeds", 100, "runs of each strategy on each space")
	workers := flags.Int("workers", runtime.NumCPU(), "runs at the same time")
	rounds := flags.Int("rounds", 8, "samples of each point")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	switch args[0] {
	case "record":
		var list []target.Regime
		for _, name := range strings.Split(*regimes, ",") {
			list = append(list, target.Regime(name))
		}
		host, err := probe.Local(ctx)
		for _, name := range strings.Split(*models, ",") {
			if err == nil {
				err = record(ctx, *journal, host, name, list, *rounds)
			}
		}
		return err
	case "pack":
		return pack(*journal, *table)
	case "noise":
		spaces, err := readTable(*table)
		if err != nil {
			return err
		}
		return noise(os.Stdout, spaces, *seeds)
	case "judge", "model":
		fields := modelled()
		if args[0] == "judge" {
			var err error
			if fields, err = recorded(*table); err != nil {
				return err
			}
		}
		fields = slices.DeleteFunc(fields, func(f field) bool { return !strings.Contains(f.name, *part) })
		list, err := choose(strings.Split(*names, ",")...)
		if err != nil {
			return err
		}
		verdicts, err := judge(ctx, fields, list, task{*seeds, *workers, judgedAt[len(judgedAt)-1]})
		if err != nil {
			return err
		}
		report(os.Stdout, verdicts)
		return nil
	}
	return fmt.Errorf("%q: want record, pack, noise, judge or model", args[0])
}

// recorded are the spaces of a table.
func recorded(table string) ([]field, error) {
	spaces, err := readTable(table)
	if err != nil {
		return nil, err
	}
	var fields []field
	for _, s := range spaces {
		fields = append(fields, field{s.Name, s.Live})
	}
	return fields, nil
}

// modelled are the spaces of the machines, of a model too large for any cache.
func modelled() []field {
	big, _ := model.Preset("falcon3-10b-1.58")
	var fields []field
	for _, m := range machines {
		for _, regime := range []target.Regime{target.Decode, target.Prefill} {
			fields = append(fields, m.field(big, regime))
		}
	}
	return fields
}
