package report

import (
	"fmt"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/bitnet-autotune/bitnet-autotune/experiments/replay"
)

// The size of the plots of curves, and the part of the width that the legend takes.
const (
	curvesWidth  = 480
	curvesHeight = 280
	legendWidth  = 120 // the fonts that viewers take where Liberation is missing are wider
)

// floor is the excess in percent below which a curve is not followed: a logarithmic scale has no nothing.
const floor = 0.1

// plotted is a curve of a strategy over places on the horizontal axis.
type plotted struct {
	series int
	name   string
	at     []float64
	curve
}

// byCount draws the best so far over the number of evaluations.
func (r *Report) byCount(t int) Figure {
	table := r.x.Tables[t]
	at := make([]float64, len(table.Counts))
	baseline := make([]float64, len(at))
	for i, n := range table.Counts {
		at[i] = float64(n)
		baseline[i] = table.Score.Baseline(at[i] * table.Score.MedianCost)
	}
	f := r.convergence(t, at, baseline, func(one replay.Result) []float32 { return one.ByCount }, func(p *plot.Plot) string {
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, decades{factors: []float64{1, 2, 5}}
		return "evaluations"
	})
	f.Name, f.Title = fileName(table.Name)+"-evaluations", table.Name+": best so far against evaluations"
	return f
}

// byTime draws the best so far over the virtual time.
func (r *Report) byTime(t int) Figure {
	table := r.x.Tables[t]
	at := make([]float64, len(table.Clock))
	baseline := make([]float64, len(at))
	for i, ms := range table.Clock {
		at[i] = ms / 1000
		baseline[i] = table.Score.Baseline(ms)
	}
	f := r.convergence(t, at, baseline, func(one replay.Result) []float32 { return one.ByTime }, func(p *plot.Plot) string {
		p.X.Tick.Marker = steps{factor: 1}
		return "virtual seconds of measuring"
	})
	f.Name, f.Title = fileName(table.Name)+"-seconds", table.Name+": best so far against virtual seconds"
	return f
}

// convergence draws by how much the best so far exceeds the optimum.
func (r *Report) convergence(t int, at, baseline []float64, read func(replay.Result) []float32, setX func(*plot.Plot) string) Figure {
	table := r.x.Tables[t]
	excess := func(ratio float64) float64 { return max(floor, 100*(ratio-1)) }
	var curves []plotted
	top := excess(table.Score.Median / table.Score.Optimum)
	for _, s := range r.Board.Strategies {
		runs := r.results.Complete(s.series, t)
		if len(runs) == 0 {
			continue
		}
		c := newCurve(runs, len(at), func(one replay.Result, i int) float64 { return float64(read(one)[i]) })
		for _, values := range [][]float64{c.mean, c.low, c.high} {
			for i, ratio := range values {
				values[i] = excess(ratio)
				top = max(top, values[i])
			}
		}
		curves = append(curves, plotted{s.series, s.Name, at, c})
	}
	random := make(plotter.XYs, len(at))
	for i := range at {
		random[i] = plotter.XY{X: at[i], Y: excess(baseline[i] / table.Score.Optimum)}
		top = max(top, random[i].Y)
	}
	return Figure{
		Caption: captionOf(table.Score.Optimum),
		width:   curvesWidth, height: curvesHeight, series: r.x.Strategies,
		draw: func(c draw.Canvas) {
			p := plot.New()
			p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, decades{[]float64{1}, " %"}
			dress(p)
			name := setX(p)
			drawCurves(c, p, curves, random, name, "slower than the optimum", func() {
				p.Y.Min, p.Y.Max = floor, 1.25*top
				p.X.Min, p.X.Max = at[0], max(at[len(at)-1], at[0]*1.01)
			})
		},
	}
}

func captionOf(optimum float64) string {
	return fmt.Sprintf("Optimum %s ms. Lines: mean of the runs; bands: 10 to 90 %% of them. Dotted: what random search is expected to have. What is nearer than %g %% is drawn there.", shortFloat(optimum), floor)
}

// drawCurves draws bands, then lines, the best strategy last, and a legend at the right with the best first.
func drawCurves(c draw.Canvas, p *plot.Plot, curves []plotted, random plotter.XYs, x, y string, frame func()) {
	legend := plot.NewLegend()
	legend.Top, legend.Left, legend.Padding, legend.ThumbnailWidth = true, true, vg.Points(3), vg.Points(18)
	legend.TextStyle.Font, legend.TextStyle.Color = sans(9), ink
	for _, one := range curves {
		legend.Add(one.name, &plotter.Line{LineStyle: seriesLine(one.series)})
	}
	for i := len(curves) - 1; i >= 0; i-- {
		p.Add(&plotter.Polygon{XYs: []plotter.XYs{curves[i].band()}, Color: bandColour(curves[i].series)})
	}
	if random != nil {
		dotted := &plotter.Line{XYs: random, LineStyle: draw.LineStyle{Color: axis, Width: vg.Points(1.2), Dashes: []vg.Length{vg.Points(1.2), vg.Points(2.4)}}}
		p.Add(dotted)
		legend.Add("random, expected", dotted)
	}
	for i := len(curves) - 1; i >= 0; i-- {
		p.Add(&plotter.Line{XYs: curves[i].line(curves[i].mean), LineStyle: seriesLine(curves[i].series)})
	}
	frame()
	inner := labelled(c, p, x, y, vg.Points(legendWidth))
	legend.Draw(draw.Crop(c, c.Max.X-c.Min.X-vg.Points(legendWidth-10), 0, 0, inner.Max.Y-c.Max.Y))
}

func (c plotted) line(values []float64) plotter.XYs {
	line := make(plotter.XYs, len(c.at))
	for i := range line {
		line[i] = plotter.XY{X: c.at[i], Y: values[i]}
	}
	return line
}

// band is the way along the lower edge and back along the upper one.
func (c plotted) band() plotter.XYs {
	way, back := c.line(c.low), c.line(c.high)
	for i := len(back) - 1; i >= 0; i-- {
		way = append(way, back[i])
	}
	return way
}

// overall draws the score as it comes about: what all runs save of random search's distance at each share of the time.
func (r *Report) overall() Figure {
	var curves []plotted
	low := 0.0
	for _, s := range r.Board.Strategies {
		one, ok := r.gains(s.series)
		if !ok {
			continue
		}
		one.series, one.name = s.series, s.Name
		for i := range one.mean {
			low = max(lowest, min(low, one.mean[i], one.low[i]))
		}
		curves = append(curves, one)
	}
	for _, one := range curves {
		for i := range one.low {
			one.low[i], one.high[i], one.mean[i] = max(one.low[i], low), max(one.high[i], low), max(one.mean[i], low)
		}
	}
	return Figure{
		Name: "score-over-time", Title: "Score over time, all spaces",
		Caption: fmt.Sprintf("At each share of the time that is scored: how much of random search's distance to the optimum is saved, 1 is all. Lines: mean of the spaces; bands: 10 to 90 %% of the seeds, each a mean of the spaces. What is below %g is drawn there.", lowest),
		width:   2 * curvesWidth * 0.8, height: curvesHeight, series: r.x.Strategies,
		draw: func(c draw.Canvas) {
			p := plot.New()
			dress(p)
			p.X.Tick.Marker, p.Y.Tick.Marker = steps{factor: 100, unit: " %"}, steps{factor: 1}
			drawCurves(c, p, curves, nil, "share of the time that is scored", "score", func() {
				p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, 1, low, 1
			})
		},
	}
}

// lowest is the score below which the plot of all spaces does not go.
const lowest = -1.0

// gains is what strategy number s saves over the time, seeds being means of the spaces; false where no seed was played on
// all of them.
func (r *Report) gains(s int) (plotted, bool) {
	n := len(r.x.Tables[0].Clock)
	one := plotted{at: make([]float64, n)}
	for i := range one.at {
		one.at[i] = float64(i) / float64(n-1)
	}
	var seeds []replay.Result
	for seed := range r.x.Seeds {
		mean := replay.Result{ByTime: make([]float32, n)}
		complete := true
		for t, table := range r.x.Tables {
			run := r.results[s][t][seed]
			if complete = complete && run.Steps > 0; !complete {
				break
			}
			for i, at := range table.Clock {
				if p, ok := table.Score.Gain(float64(run.ByTime[i])*table.Score.Optimum, at); ok {
					mean.ByTime[i] += float32(p) / float32(len(r.x.Tables))
				}
			}
		}
		if complete {
			seeds = append(seeds, mean)
		}
	}
	if len(seeds) == 0 {
		return plotted{}, false
	}
	one.curve = newCurve(seeds, n, func(run replay.Result, i int) float64 { return float64(run.ByTime[i]) })
	return one, true
}

// fileName makes a name of a space that of a file.
func fileName(name string) string { return strings.ReplaceAll(name, "/", "-") }
