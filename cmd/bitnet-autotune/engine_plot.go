package main

import (
	"errors"
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/bitnet-autotune/bitnet-autotune/experiments/report"
	"github.com/bitnet-autotune/bitnet-autotune/tuner"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/engine"
)

// plotEngine draws what the knobs that count threads do, a panel each: every value tried with its interval, the engine's own and
// what answers marked.
func plotEngine(w io.Writer, p tuner.EnginePlan) error {
	if p.Evidence == nil || p.Evidence.Search == nil {
		return errors.New("--plot: nothing was measured here yet; run tune")
	}
	c := p.Evidence.Search
	var panels []panel
	for _, k := range c.Knobs {
		if k.Stage != engine.Threads {
			continue
		}
		drawn, err := plotKnob(p, k, slices.DeleteFunc(slices.Clone(c.Curves), func(one engine.Curve) bool { return one.Knob != k.Name || len(one.Points) == 0 }))
		if err != nil {
			return fmt.Errorf("--plot: %s: %w", k.Name, err)
		}
		panels = append(panels, drawn)
	}
	if len(panels) == 0 {
		return fmt.Errorf("--plot: %s has no knob of threads here: there is no curve to draw", p.Target)
	}
	return writePlots(w, panels...)
}

// plotKnob is the panel of one knob, a line for each regime.
func plotKnob(p tuner.EnginePlan, k engine.Knob, curves []engine.Curve) (panel, error) {
	picture := plot.New()
	picture.Title.Text = fmt.Sprintf("%s by %s: %s, build %s", p.Model, k.Name, p.Target, p.Config.Build)
	dress(picture)
	picture.Add(grid())
	legend := newLegend()
	at := placesOf(curves)
	picture.X.Tick.Marker = at
	same := plotter.NewFunction(func(float64) float64 { return 1 })
	same.LineStyle = draw.LineStyle{Color: roofColour, Width: vg.Points(1.2), Dashes: roofDashes[tuner.InL3]}
	picture.Add(same)
	legend.Add("as fast as its own", same)
	for i, c := range curves {
		style := draw.LineStyle{Color: report.SeriesColour(i), Width: vg.Points(1.6)}
		points := pointsOfCurve(c, at)
		line, err := plotter.NewLine(points)
		if err != nil {
			return panel{}, err
		}
		bars, err := plotter.NewYErrorBars(points)
		if err != nil {
			return panel{}, err
		}
		line.LineStyle, bars.LineStyle = style, style
		bars.LineStyle.Width = vg.Points(1)
		picture.Add(line, bars, marks{c, at, k, p.Config, style.Color})
		legend.Add(c.Regime, line)
	}
	for _, m := range []mark{tried, itsOwn, answers} {
		legend.Add(m.name, m)
	}
	picture.X.Min, picture.X.Max = at.edges()
	picture.Y.Min = 0
	picture.Y.Max = math.Max(picture.Y.Max, 1) * 1.08
	return panel{picture, &legend, k.Name, "times as fast as the engine's own, with 95 % intervals"}, nil
}

// places are where the values of a knob stand: at their number, or one after the other where one is none.
type places map[string]float64

func placesOf(curves []engine.Curve) places {
	at, all := places{}, places{}
	for _, c := range curves {
		for _, p := range c.Points {
			if _, known := all[p.Value]; !known {
				all[p.Value] = float64(len(all))
			}
			if n, err := strconv.ParseFloat(p.Value, 64); err == nil {
				at[p.Value] = n
			}
		}
	}
	if len(at) < len(all) {
		return all
	}
	return at
}

// edges are the ends of the axis.
func (p places) edges() (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, x := range p {
		low, high = min(low, x), max(high, x)
	}
	room := max(0.5, (high-low)/30)
	return low - room, high + room
}

// Ticks implements plot.Ticker: the values themselves, and of many those that some twenty ticks show.
func (p places) Ticks(float64, float64) (ticks []plot.Tick) {
	names := sortedKeys(p)
	slices.SortFunc(names, func(a, b string) int { return int(math.Copysign(1, p[a]-p[b])) })
	every := (len(names) + 19) / 20
	for i, name := range names {
		if (i+1)%every == 0 {
			ticks = append(ticks, plot.Tick{Value: p[name], Label: name})
		}
	}
	return ticks
}

// curvePoints are a curve as the plotter takes it.
type curvePoints struct {
	plotter.XYs
	plotter.YErrors
}

func pointsOfCurve(c engine.Curve, at places) (points curvePoints) {
	for _, p := range c.Points {
		points.XYs = append(points.XYs, plotter.XY{X: at[p.Value], Y: p.Ratio})
		var bar struct{ Low, High float64 }
		if p.High > 0 {
			bar.Low, bar.High = p.Ratio-p.Low, p.High-p.Ratio
		}
		points.YErrors = append(points.YErrors, bar)
	}
	return points
}

// mark is what a point is drawn as.
type mark struct {
	name  string
	glyph draw.GlyphDrawer
	size  vg.Length
}

var (
	tried   = mark{"tried", draw.CircleGlyph{}, vg.Points(3)}
	itsOwn  = mark{"the engine's own", draw.SquareGlyph{}, vg.Points(5)}
	answers = mark{"what answers", draw.RingGlyph{}, vg.Points(7)}
)

func (m mark) draw(c *draw.Canvas, colour color.Color, at vg.Point) {
	c.DrawGlyph(draw.GlyphStyle{Color: colour, Radius: m.size, Shape: m.glyph}, at)
}

// Thumbnail implements plot.Thumbnailer.
func (m mark) Thumbnail(c *draw.Canvas) { m.draw(c, roofColour, c.Center()) }

// marks are the points of a curve.
type marks struct {
	curve  engine.Curve
	at     places
	knob   engine.Knob
	plan   engine.Learned
	colour color.Color
}

// Plot implements plot.Plotter.
func (m marks) Plot(c draw.Canvas, p *plot.Plot) {
	toX, toY := p.Transforms(&c)
	own := m.plan.Own[m.knob.Name]
	chosen := m.plan.Plan[m.curve.Regime][m.knob.Name]
	if chosen == "" {
		chosen = own
	}
	for _, point := range m.curve.Points {
		at := vg.Point{X: toX(m.at[point.Value]), Y: toY(point.Ratio)}
		tried.draw(&c, m.colour, at)
		if point.Value == own {
			itsOwn.draw(&c, m.colour, at)
		}
		if point.Value == chosen {
			answers.draw(&c, m.colour, at)
		}
	}
}
