// The tables of the experiment in README.md, made from scores.csv:
//
//	go run ./experiments/2026-11-strategies
package main

import (
	"cmp"
	_ "embed"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
)

//go:embed scores.csv
var recorded string

func main() {
	if err := run(strings.NewReader(recorded), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "strategies:", err)
		os.Exit(1)
	}
}

// row is what a strategy made of the spaces with the same seeds.
type row struct {
	strategy, seeds string
	scores, errors  map[string]float64 // by space
}

// mean is the mean score over the spaces, and its standard error.
func (r *row) mean() (score, wrong float64) {
	n := float64(len(r.scores))
	for space, s := range r.scores {
		score += s / n
		wrong += r.errors[space] * r.errors[space] / (n * n)
	}
	return score, math.Sqrt(wrong)
}

func run(in io.Reader, out io.Writer) error {
	rows, spaces, err := read(in)
	if err != nil {
		return err
	}
	seeds := ""
	for _, r := range rows {
		if r.seeds != seeds {
			seeds = r.seeds
			fmt.Fprintf(out, "\n| seeds %s | mean | %s |\n|---|---|%s\n", seeds, strings.Join(spaces, " | "), strings.Repeat("---|", len(spaces)))
		}
		score, wrong := r.mean()
		whole := "" // a mean of some spaces says nothing beside one of all
		if len(r.scores) == len(spaces) {
			whole = fmt.Sprintf("%.3f ± %.3f", score, wrong)
		}
		fmt.Fprintf(out, "| %s | %s |", r.strategy, whole)
		for _, space := range spaces {
			if s, ok := r.scores[space]; ok {
				fmt.Fprintf(out, " %.2f |", s)
			} else {
				fmt.Fprint(out, " – |")
			}
		}
		fmt.Fprintln(out)
	}
	return nil
}

// read returns the rows, those with the same seeds together and the best of them first, and the spaces.
func read(in io.Reader) (rows []*row, spaces []string, err error) {
	lines, err := csv.NewReader(in).ReadAll()
	if err != nil {
		return nil, nil, err
	}
	for i, line := range lines {
		if len(line) != 6 {
			return nil, nil, fmt.Errorf("scores.csv: line %d: %q; want strategy,space,first seed,seeds,score,standard error", i+1, line)
		}
		first, err1 := strconv.Atoi(line[2])
		count, err2 := strconv.Atoi(line[3])
		score, err3 := strconv.ParseFloat(line[4], 64)
		wrong, err4 := strconv.ParseFloat(line[5], 64)
		if err := cmp.Or(err1, err2, err3, err4); err != nil {
			return nil, nil, fmt.Errorf("scores.csv: line %d: %w", i+1, err)
		}
		seeds := fmt.Sprintf("%d to %d", first, first+count-1)
		at := slices.IndexFunc(rows, func(r *row) bool { return r.strategy == line[0] && r.seeds == seeds })
		if at < 0 {
			at = len(rows)
			rows = append(rows, &row{line[0], seeds, map[string]float64{}, map[string]float64{}})
		}
		rows[at].scores[line[1]], rows[at].errors[line[1]] = score, wrong
		if !slices.Contains(spaces, line[1]) {
			spaces = append(spaces, line[1])
		}
	}
	slices.Sort(spaces)
	slices.SortStableFunc(rows, func(a, b *row) int {
		x, _ := a.mean()
		y, _ := b.mean()
		return cmp.Or(cmp.Compare(a.seeds, b.seeds), cmp.Compare(y, x), cmp.Compare(a.strategy, b.strategy))
	})
	return rows, spaces, nil
}
