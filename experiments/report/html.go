package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strconv"
	"strings"
)

//go:embed report.html.tmpl
var pageText string

var page = template.Must(template.New("report").Parse(pageText))

// pageData is what the page shows.
type pageData struct {
	*Board
	Title, Seeds string
	Leader       string
	Series       []int // the numbers of the strategies
	Summary      []pageFigure
	Sections     []section
}

// pageFigure is a figure as the page shows it.
type pageFigure struct {
	Name, Title, Caption string
	Wide                 bool
	SVG                  template.HTML
}

// section is what the page shows of a space.
type section struct {
	Space
	ID      string
	Figures []pageFigure
}

// WriteHTML writes the report as one page that needs nothing else: no script, no network.
func (r *Report) WriteHTML(w io.Writer) error {
	d := pageData{Board: r.Board, Title: r.Board.title(), Seeds: r.Board.seeds(), Leader: r.leader()}
	for i := range r.x.Strategies {
		d.Series = append(d.Series, i)
	}
	var err error
	if d.Summary, err = inlined(r.summary()); err != nil {
		return err
	}
	for t, space := range r.Board.Spaces {
		figures, err := inlined(r.ofSpace(t))
		if err != nil {
			return err
		}
		d.Sections = append(d.Sections, section{space, "space-" + strconv.Itoa(t+1), figures})
	}
	if err := page.Execute(w, d); err != nil {
		return fmt.Errorf("report: write HTML: %w", err)
	}
	return nil
}

func inlined(figures []Figure) ([]pageFigure, error) {
	var list []pageFigure
	for _, f := range figures {
		svg, err := f.inline()
		if err != nil {
			return nil, err
		}
		list = append(list, pageFigure{f.Name, f.Title, f.Caption, f.width > curvesWidth, svg})
	}
	return list, nil
}

// leader says in a sentence which strategy is best.
func (r *Report) leader() string {
	rows := r.Board.Strategies
	if rows[0].Score.String() == none {
		return "No strategy was played on every space."
	}
	text := fmt.Sprintf("%s is best, with a mean score of %s", rows[0].Name, rows[0].Score)
	if len(rows) > 1 && rows[1].Score.String() != none {
		text += fmt.Sprintf("; next is %s with %s", rows[1].Name, rows[1].Score)
	}
	return strings.TrimSpace(text) + "."
}

// Ratio is the median over the optimum.
func (s Space) Ratio() string { return fmt.Sprintf("%.2f", s.MedianMs/s.OptimumMs) }

// Optimum is the optimum with its unit.
func (s Space) Optimum() string { return shortFloat(s.OptimumMs) + " ms" }

// Cost is the median cost with its unit.
func (s Space) Cost() string { return fmt.Sprintf("%.2f s", s.MedianCostSeconds) }

// Budget is the end of the clock with its unit.
func (s Space) Budget() string { return fmt.Sprintf("%.0f s", s.BudgetSeconds) }

// Evaluations are how many of median cost the clock has room for.
func (s Space) Evaluations() string { return fmt.Sprintf("%.0f", s.BudgetEvaluations) }

// Best reports whether no strategy has a better score on a space, with two digits.
func (b *Board) Best(s Strategy, space string) bool {
	score := s.ScoreBySpace[space].String()
	for _, other := range b.Strategies {
		if other.ScoreBySpace[space] > s.ScoreBySpace[space] && other.ScoreBySpace[space].String() != score {
			return false
		}
	}
	return score != none
}
