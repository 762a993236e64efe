package report

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// title is what the board is of, in a line.
func (b *Board) title() string {
	return fmt.Sprintf("%s, %s, %s", plural(len(b.Strategies), "strategy", "strategies"), plural(len(b.Spaces), "space", "spaces"), b.seeds())
}

// seeds is which seeds were played, in words.
func (b *Board) seeds() string {
	if b.Seeds == 1 {
		return fmt.Sprintf("seed %d", b.Seed)
	}
	return fmt.Sprintf("seeds %d to %d", b.Seed, b.Seed+uint64(b.Seeds)-1)
}

func plural(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// WriteText prints the board for people: a column for each strategy.
func (b *Board) WriteText(w io.Writer) {
	fmt.Fprintf(w, "%s: %d runs in %s\n", b.title(), b.Runs, time.Duration(b.ElapsedSeconds*float64(time.Second)).Round(100*time.Millisecond))
	if missing := b.Missing(); missing != "" {
		fmt.Fprintln(w, missing)
	}
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	width := len("standard error")
	for _, space := range b.Spaces {
		width = max(width, len(space.Name))
	}
	line := func(head string, cell func(Strategy) string) {
		fmt.Fprintf(tab, "%-*s", width, head)
		for _, s := range b.Strategies {
			fmt.Fprintf(tab, "\t%s", cell(s))
		}
		fmt.Fprintln(tab, "\t")
	}
	fmt.Fprintln(w, "\nscore: 0 is random search, 1 knows the answer")
	line("", func(s Strategy) string { return s.Name })
	line("mean", func(s Strategy) string { return s.Score.String() })
	line("standard error", func(s Strategy) string { return s.StandardError.String() })
	line("worst space", func(s Strategy) string { return s.WorstScore.String() })
	for _, space := range b.Spaces {
		line(space.Name, func(s Strategy) string { return s.ScoreBySpace[space.Name].String() })
	}
	tab.Flush()
	fmt.Fprintln(w, "\nevaluations until within 5 % / 1 % of the optimum (median of the runs; a dash where half of them never were)")
	line("", func(s Strategy) string { return s.Name })
	for _, space := range b.Spaces {
		line(space.Name, func(s Strategy) string {
			return fmt.Sprintf("%s/%s", s.Within5BySpace[space.Name], s.Within1BySpace[space.Name])
		})
	}
	tab.Flush()
	fmt.Fprintln(w)
	b.writeSpaces(w, width)
}

func (b *Board) writeSpaces(w io.Writer, width int) {
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(tab, "%-*s\tpoints\tfailed\tparameters\tmedian/optimum\tmedian cost\tbudget\tevaluations of median cost\t\n", width, "space")
	for _, s := range b.Spaces {
		fmt.Fprintf(tab, "%-*s\t%d\t%d\t%d\t%.2f\t%.2f s\t%.0f s\t%.0f\t\n", width, s.Name, s.Points, s.Failed, s.Parameters, s.MedianMs/s.OptimumMs, s.MedianCostSeconds, s.BudgetSeconds, s.BudgetEvaluations)
	}
	tab.Flush()
}

// WriteMarkdown prints the board as tables of Markdown: a row for each strategy.
func (b *Board) WriteMarkdown(w io.Writer) {
	fmt.Fprintf(w, "%s.\n\n", b.title())
	if missing := b.Missing(); missing != "" {
		fmt.Fprintf(w, "%s.\n\n", missing)
	}
	names := make([]string, len(b.Spaces))
	for i, s := range b.Spaces {
		names[i] = s.Name
	}
	head := func(first ...string) {
		fmt.Fprintf(w, "| %s |\n|%s\n", strings.Join(append(first, names...), " | "), strings.Repeat("---|", len(first)+len(names)))
	}
	head("strategy", "mean")
	for _, s := range b.Strategies {
		fmt.Fprintf(w, "| %s | %s |", s.Name, s.Score)
		for _, name := range names {
			fmt.Fprintf(w, " %s |", s.ScoreBySpace[name])
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w)
	head("evaluations to 5 % / 1 %")
	for _, s := range b.Strategies {
		fmt.Fprintf(w, "| %s |", s.Name)
		for _, name := range names {
			fmt.Fprintf(w, " %s / %s |", s.Within5BySpace[name], s.Within1BySpace[name])
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w, "\n| space | points | median / optimum | median cost | evaluations at median cost |\n|---|---|---|---|---|")
	for _, s := range b.Spaces {
		fmt.Fprintf(w, "| %s | %d | %.2f | %.2f s | %.0f to %.0f |\n", s.Name, s.Points, s.MedianMs/s.OptimumMs, s.MedianCostSeconds, s.StartSeconds/s.MedianCostSeconds, s.BudgetEvaluations)
	}
}
