// The table of the experiment in README.md, made from scores.csv:
//
//	go run ./experiments/2026-11-auto-hyperparameters
package main

import (
	_ "embed"
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

//go:embed scores.csv
var recorded string

func main() {
	if err := run(strings.NewReader(recorded), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "auto-hyperparameters:", err)
		os.Exit(1)
	}
}

// scores are mean scores by setting and space.
type scores struct {
	settings, spaces []string
	of               map[[2]string]float64
}

func run(in io.Reader, out io.Writer) error {
	s, err := read(in)
	if err != nil {
		return err
	}
	s.print(out)
	s.leaveOneOut(out)
	return nil
}

func read(in io.Reader) (*scores, error) {
	rows, err := csv.NewReader(in).ReadAll()
	if err != nil {
		return nil, err
	}
	s := &scores{of: map[[2]string]float64{}}
	for i, row := range rows {
		score, err := strconv.ParseFloat(row[len(row)-1], 64)
		if err != nil || len(row) != 3 {
			return nil, fmt.Errorf("scores.csv: line %d: %q; want setting,space,score", i+1, row)
		}
		s.settings, s.spaces = append(s.settings, row[0]), append(s.spaces, row[1])
		s.of[[2]string{row[0], row[1]}] = score
	}
	for _, names := range []*[]string{&s.settings, &s.spaces} {
		slices.Sort(*names)
		*names = slices.Compact(*names)
	}
	if len(s.of) != len(s.settings)*len(s.spaces) {
		return nil, fmt.Errorf("scores.csv: %d scores; want one for each of %d settings and %d spaces", len(s.of), len(s.settings), len(s.spaces))
	}
	return s, nil
}

// mean is the mean score of a setting over the spaces, without one of them.
func (s *scores) mean(setting, without string) float64 {
	sum, n := 0.0, 0.0
	for _, space := range s.spaces {
		if space != without {
			sum, n = sum+s.of[[2]string{setting, space}], n+1
		}
	}
	return sum / n
}

// best is the setting with the best mean over the spaces without one of them.
func (s *scores) best(without string) string {
	return slices.MaxFunc(s.settings, func(a, b string) int {
		if s.mean(a, without) < s.mean(b, without) {
			return -1
		}
		return 1
	})
}

func (s *scores) print(out io.Writer) {
	fmt.Fprintf(out, "| setting | mean | %s |\n|---|---|%s\n", strings.Join(s.spaces, " | "), strings.Repeat("---|", len(s.spaces)))
	for _, setting := range s.settings {
		fmt.Fprintf(out, "| %s | %.3f |", setting, s.mean(setting, ""))
		for _, space := range s.spaces {
			fmt.Fprintf(out, " %.2f |", s.of[[2]string{setting, space}])
		}
		fmt.Fprintln(out)
	}
}

// leaveOneOut prints what the setting that is best on the other spaces scores on each space.
func (s *scores) leaveOneOut(out io.Writer) {
	fmt.Fprint(out, "\n| left out | best on the others | scores | best possible |\n|---|---|---|---|\n")
	sum := 0.0
	for _, space := range s.spaces {
		setting, most := s.best(space), 0.0
		for _, other := range s.settings {
			most = max(most, s.of[[2]string{other, space}])
		}
		score := s.of[[2]string{setting, space}]
		sum += score
		fmt.Fprintf(out, "| %s | %s | %.2f | %.2f |\n", space, setting, score, most)
	}
	fmt.Fprintf(out, "| mean | | %.3f | |\n", sum/float64(len(s.spaces)))
}
