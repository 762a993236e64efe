package report

import (
	"fmt"
	"image/color"
	"maps"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/plot/palette/moreland"
	"gonum.org/v1/plot/vg"

	"github.com/bitnet-autotune/bitnet-autotune/experiments/replay"
)

// mostValues is how many values of a parameter can still be told apart side by side.
const mostValues = 64

// steepest is how many times the optimum has the last colour: the slopes near the optimum are what searchers climb.
const steepest = 5.0

// landscape draws what a space looks like along the two parameters that matter most: the best that can be had with each
// pair of their values. False where none varies by few enough values.
func (r *Report) landscape(t int) (Figure, bool) {
	table := r.x.Tables[t]
	knobs := table.Space.Knobs()
	down, across := pairThatMatters(table)
	if across < 0 {
		return Figure{}, false
	}
	best, points := bestOfPairs(table, down, across)
	worst := 1.0
	for _, ratio := range best {
		if !math.IsInf(ratio, 1) {
			worst = max(worst, ratio)
		}
	}
	span := math.Log(min(worst, steepest))
	colours, err := moreland.NewLuminance([]color.Color{color.RGBA{0x08, 0x2a, 0x5e, 0xff}, color.RGBA{0x2b, 0x8c, 0xbe, 0xff}, color.RGBA{0xfd, 0xf6, 0xdc, 0xff}})
	if err != nil {
		return Figure{}, false
	}
	colours.SetMin(0)
	colours.SetMax(1)
	high := fmt.Sprintf("%.2f times", math.Exp(span))
	if worst > steepest {
		high = fmt.Sprintf("%g times or more", steepest)
	}
	m := &tiles{
		rows: knobs[down].Values, columns: knobs[across].Values, rowsName: knobs[down].Name, columnName: knobs[across].Name,
		key: colourKey{colours: colours, low: "optimum", high: high}, cellWidth: 44, cellHeight: 20,
	}
	if down == across {
		m.rows, m.rowsName = []string{""}, ""
	}
	m.cellWidth = min(m.cellWidth, 400/vg.Length(len(m.columns)))
	m.fit()
	columns := len(knobs[across].Values)
	m.cells = make([][]tile, len(m.rows))
	for i := range m.rows {
		m.cells[i] = make([]tile, columns)
		for j := range columns {
			m.cells[i][j] = m.pair(best[i*columns+j], points[i*columns+j], span, i, j)
		}
	}
	width, height := m.size()
	return Figure{
		Name: fileName(table.Name) + "-landscape", Title: table.Name + ": landscape",
		Caption: fmt.Sprintf("The best time over the optimum for each pair of values of the two parameters that explain most, %s; the other parameters at their best. Framed: where the optimum is. Grey: everything failed. Empty: not in the space.", m.parameters()),
		width:   width, height: height, draw: m.draw, tips: m.tips(),
	}, true
}

func (t *tiles) parameters() string {
	if t.rowsName == "" {
		return t.columnName
	}
	return t.rowsName + " and " + t.columnName
}

// pair is the cell of a pair of values.
func (t *tiles) pair(ratio float64, points int, span float64, i, j int) tile {
	what := t.columnName + " " + t.columns[j]
	if t.rowsName != "" {
		what = t.rowsName + " " + t.rows[i] + ", " + what
	}
	switch {
	case points == 0:
		return tile{}
	case math.IsInf(ratio, 1):
		return tile{fill: color.Gray{0xb0}, tip: fmt.Sprintf("%s: failed, %s", what, plural(points, "point", "points"))}
	}
	cell := tile{fill: t.key.at(math.Log(ratio) / max(span, 1e-9)), tip: fmt.Sprintf("%s: %.3f times the optimum, %s", what, ratio, plural(points, "point", "points")), marked: ratio == 1}
	if t.cellWidth >= 26 {
		cell.text = strconv.FormatFloat(ratio, 'f', 2, 64)
		if ratio >= 10 {
			cell.text = strconv.FormatFloat(ratio, 'f', 0, 64)
		}
	}
	return cell
}

// bestOfPairs returns for each pair of values of two knobs the least time over the optimum, +Inf where all failed, and
// how many points have it.
func bestOfPairs(table replay.Scored, down, across int) (best []float64, points []int) {
	knobs := table.Space.Knobs()
	columns := len(knobs[across].Values)
	rows := len(knobs[down].Values)
	if down == across {
		rows = 1
	}
	best, points = make([]float64, rows*columns), make([]int, rows*columns)
	for i := range best {
		best[i] = math.Inf(1)
	}
	for i, ms := range table.Times() {
		p := table.Space.At(i)
		at := p[across]
		if down != across {
			at += p[down] * columns
		}
		points[at]++
		if ratio := ms / table.Score.Optimum; ratio < best[at] {
			best[at] = ratio
		}
	}
	return best, points
}

// pairThatMatters returns the two knobs whose pairs of values explain most of the variance of the logarithm of the times,
// less what as many pairs would explain by chance. The one with more values comes second; both are the same where only
// one varies, and -1 where none does.
func pairThatMatters(table replay.Scored) (down, across int) {
	var points [][]int
	var logs []float64
	for i, ms := range table.Times() {
		if !math.IsNaN(ms) {
			points, logs = append(points, table.Space.At(i)), append(logs, math.Log(ms))
		}
	}
	knobs := table.Space.Knobs()
	drawable := func(k int) bool { return len(knobs[k].Values) > 1 && len(knobs[k].Values) <= mostValues }
	down, across = -1, -1
	least := math.Inf(1)
	for a := range knobs {
		if !drawable(a) {
			continue
		}
		if across < 0 {
			down, across = a, a
		}
		for b := a + 1; b < len(knobs); b++ {
			if !drawable(b) {
				continue
			}
			if left := unexplained(points, logs, a, b, len(knobs[b].Values)); down == across || left < least {
				least, down, across = left, a, b
			}
		}
	}
	if across >= 0 && len(knobs[down].Values) > len(knobs[across].Values) {
		down, across = across, down
	}
	return down, across
}

// unexplained is the variance within pairs of values of knobs a and b, by the degrees of freedom that are left.
func unexplained(points [][]int, logs []float64, a, b, values int) float64 {
	groups := map[int][]float64{}
	for i, p := range points {
		at := p[a]*values + p[b]
		groups[at] = append(groups[at], logs[i])
	}
	sum := 0.0
	for _, at := range slices.Sorted(maps.Keys(groups)) { // in order, for sums of floats depend on it
		group := groups[at]
		mean := stat.Mean(group, nil)
		for _, x := range group {
			sum += (x - mean) * (x - mean)
		}
	}
	free := len(logs) - len(groups)
	if free <= 0 {
		return math.Inf(1)
	}
	return sum / float64(free)
}
