package report

import (
	"fmt"
	"math"

	"gonum.org/v1/plot/palette/moreland"
)

// heat draws the score of every strategy on every space.
func (r *Report) heat() Figure {
	colours := moreland.SmoothBlueRed()
	colours.SetMin(-1)
	colours.SetMax(1)
	t := &tiles{key: colourKey{colours: colours, low: "-1 or less", high: "1: knows it", reversed: true}, cellWidth: 58, cellHeight: 22}
	for _, s := range r.Board.Strategies {
		t.columns = append(t.columns, s.Name)
	}
	for _, space := range r.Board.Spaces {
		t.rows = append(t.rows, space.Name)
		var row []tile
		for _, s := range r.Board.Strategies {
			row = append(row, t.key.score(s.ScoreBySpace[space.Name], s.Name+" on "+space.Name))
		}
		t.cells = append(t.cells, row)
	}
	mean := make([]tile, len(r.Board.Strategies))
	for i, s := range r.Board.Strategies {
		mean[i] = t.key.score(s.Score, s.Name+", mean of the spaces")
	}
	t.rows, t.cells = append(t.rows, "mean"), append(t.cells, mean)
	width, height := t.size()
	return Figure{
		Name: "score-by-space", Title: "Score of each strategy on each space",
		Caption: "Blue is better than random search, red worse, grey as good.",
		width:   width, height: height, draw: t.draw, tips: t.tips(),
	}
}

// score is the cell of a score.
func (k colourKey) score(s Score, what string) tile {
	if math.IsNaN(float64(s)) {
		return tile{fill: rule, text: none, tip: what + ": no run ended"}
	}
	return tile{fill: k.at((float64(s) + 1) / 2), text: s.String(), tip: fmt.Sprintf("%s: %.3f", what, float64(s))}
}
