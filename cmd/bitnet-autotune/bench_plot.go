package main

import (
	"bytes"
	"errors"
	"fmt"
	"image/color"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/bitnet-autotune/bitnet-autotune/experiments/report"
	"github.com/bitnet-autotune/bitnet-autotune/kernels"
	"github.com/bitnet-autotune/bitnet-autotune/tuner"
)

// The size of the picture, and the part of its width that the legend takes.
const (
	plotWidth   = 11 * vg.Inch
	plotHeight  = 6.5 * vg.Inch
	legendWidth = 2.3 * vg.Inch
)

// layoutMarks tell layouts apart.
var layoutMarks = []draw.GlyphDrawer{draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}, diamondGlyph{}, draw.CrossGlyph{}, draw.PlusGlyph{}}

var (
	roofColour = color.Gray{0x50}
	gridColour = color.Gray{0xe4}
)

// plotBench draws the rows with the most threads as a roofline (Williams, Waterman & Patterson, 2009): operations a
// second over operations per byte of weights, under the limits that were measured beside them.
func plotBench(w io.Writer, r *tuner.BenchReport) error {
	if len(r.Rows) == 0 {
		return errors.New("--plot: no row was measured")
	}
	most := 0
	for _, b := range r.Rows {
		most = max(most, b.Threads)
	}
	rows := slices.DeleteFunc(slices.Clone(r.Rows), func(b tuner.Bench) bool { return b.Threads != most })
	p := plot.New()
	p.Title.Text = fmt.Sprintf("Ternary kernels under the limits of %s, %s, %s", orUnknown(r.Host.CPU), threads(most), r.StartedAt.Format(time.DateOnly))
	dress(p)
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Scale, axis.Tick.Marker = plot.LogScale{}, roundTicks{}
	}
	p.Add(grid())
	legend := newLegend()
	for i, kernel := range kernelsOf(rows) {
		points, err := plotter.NewScatter(pointsOf(rows, kernel.name))
		if err != nil {
			return fmt.Errorf("--plot: %s: %w", kernel.name, err)
		}
		points.GlyphStyle = draw.GlyphStyle{Color: report.SeriesColour(i), Radius: radius(len(rows)), Shape: kernel.mark}
		p.Add(points)
		legend.Add(strings.TrimPrefix(kernel.name, "mul/"), points)
	}
	limits := newRoofs(r, most, rows)
	p.Add(limits)
	limits.frame(p)
	for _, read := range limits.reads {
		legend.Add(read.name, read)
	}
	return writePlots(w, panel{p, &legend, "arithmetic intensity: operations per byte of packed weights", "GOPS (2·M·N·K operations per matmul)"})
}

// panel is a plot with its legend and what stands along its axes.
type panel struct {
	plot   *plot.Plot
	legend *plot.Legend
	x, y   string
}

// writePlots lays the picture out, one panel under the other.
func writePlots(w io.Writer, panels ...panel) error {
	canvas := vgsvg.New(plotWidth, vg.Length(len(panels))*plotHeight)
	all := draw.New(canvas)
	all.FillPolygon(color.White, []vg.Point{all.Min, {X: all.Max.X, Y: all.Min.Y}, all.Max, {X: all.Min.X, Y: all.Max.Y}})
	for i, p := range panels {
		p.draw(draw.Crop(all, 0, 0, vg.Length(len(panels)-1-i)*plotHeight, -vg.Length(i)*plotHeight))
	}
	var svg bytes.Buffer
	if _, err := canvas.WriteTo(&svg); err != nil {
		return fmt.Errorf("--plot: %w", err)
	}
	// A viewer without the font would take one with serifs.
	_, err := w.Write(bytes.ReplaceAll(svg.Bytes(), []byte("font-family:Liberation Sans;"), []byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif;")))
	if err != nil {
		return fmt.Errorf("--plot: %w", err)
	}
	return nil
}

// draw puts a panel onto its part of the picture, the legend at the right of the data.
func (p panel) draw(all draw.Canvas) {
	data := draw.Crop(all, vg.Points(28), -legendWidth, vg.Points(28), -vg.Points(8))
	p.plot.Draw(data)
	p.labelAxes(all, p.plot.DataCanvas(data))
	p.legend.Draw(draw.Crop(all, plotWidth-legendWidth+vg.Points(12), -vg.Points(6), vg.Points(8), p.plot.DataCanvas(data).Max.Y-all.Max.Y))
}

// labelAxes writes along the axes of the data. Those of a plot.Axis take up room as if a logarithmic scale were linear.
func (p panel) labelAxes(all, data draw.Canvas) {
	style := draw.TextStyle{Color: color.Black, Font: sans(11), XAlign: text.XCenter, YAlign: text.YCenter, Handler: plot.DefaultTextHandler}
	all.FillText(style, vg.Point{X: data.Center().X, Y: all.Min.Y + vg.Points(16)}, p.x)
	style.Rotation = math.Pi / 2
	all.FillText(style, vg.Point{X: all.Min.X + vg.Points(16), Y: data.Center().Y}, p.y)
}

// radius is the size of a mark: many rows need small ones.
func radius(rows int) vg.Length {
	if rows > 100 {
		return vg.Points(2.2)
	}
	return vg.Points(3.2)
}

// dress sets axes and fonts.
func dress(p *plot.Plot) {
	p.Title.TextStyle.Font, p.Title.Padding = sans(12.5), vg.Points(10)
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Tick.Label.Font, axis.Padding = sans(10), 0
		axis.LineStyle.Color, axis.Tick.LineStyle.Color = roofColour, roofColour
	}
}

// newLegend is one for the right of the data.
func newLegend() plot.Legend {
	legend := plot.NewLegend()
	legend.Top, legend.Left, legend.Padding, legend.ThumbnailWidth = true, true, vg.Points(3), vg.Points(24)
	legend.TextStyle.Font = sans(10)
	return legend
}

// checkPlot reports whether a picture can be written under a name; "" is none.
func checkPlot(name string) error {
	if name == "" {
		return nil
	}
	if filepath.Ext(name) != ".svg" {
		return usage(fmt.Errorf("--plot %q: want a name that ends in .svg", name))
	}
	if dir, err := os.Stat(filepath.Dir(name)); err != nil || !dir.IsDir() {
		return usage(fmt.Errorf("--plot %q: want a file in a directory that exists", name))
	}
	return nil
}

// drawInto writes a picture into a file once it is drawn; no name is none.
func drawInto(name string, draw func(io.Writer) error) error {
	if name == "" {
		return nil
	}
	var svg bytes.Buffer
	if err := draw(&svg); err != nil {
		return err
	}
	if err := os.WriteFile(name, svg.Bytes(), 0o644); err != nil {
		return fmt.Errorf("--plot: %w", err)
	}
	return nil
}

func sans(points float64) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Points(points)}
}

func grid() *plotter.Grid {
	g := plotter.NewGrid()
	g.Vertical.Color, g.Horizontal.Color = gridColour, gridColour
	return g
}

// roundTicks are 1, 2 and 5 times the powers of ten.
type roundTicks struct{}

// Ticks implements plot.Ticker.
func (roundTicks) Ticks(low, high float64) (ticks []plot.Tick) {
	for decade := math.Pow(10, math.Floor(math.Log10(low))); decade <= high; decade *= 10 {
		for _, factor := range []float64{1, 2, 5} {
			if v := factor * decade; low <= v && v <= high {
				ticks = append(ticks, plot.Tick{Value: v, Label: fmt.Sprintf("%g", v)})
			}
		}
	}
	return ticks
}

// markedKernel is a kernel with the mark of its layout.
type markedKernel struct {
	name string
	mark draw.GlyphDrawer
}

func kernelsOf(rows []tuner.Bench) (list []markedKernel) {
	var layouts []kernels.Layout
	for _, b := range rows {
		if !slices.Contains(layouts, b.Layout) {
			layouts = append(layouts, b.Layout)
		}
	}
	slices.Sort(layouts)
	for _, b := range rows {
		if !slices.ContainsFunc(list, func(k markedKernel) bool { return k.name == b.Kernel }) {
			list = append(list, markedKernel{b.Kernel, layoutMarks[slices.Index(layouts, b.Layout)%len(layoutMarks)]})
		}
	}
	slices.SortFunc(list, func(a, b markedKernel) int { return strings.Compare(a.name, b.name) })
	return list
}

func pointsOf(rows []tuner.Bench, kernel string) (points plotter.XYs) {
	for _, b := range rows {
		if b.Kernel == kernel {
			points = append(points, plotter.XY{X: b.Intensity(), Y: b.OpsPerSecond / 1e9})
		}
	}
	return points
}

// diamondGlyph is a filled diamond.
type diamondGlyph struct{}

// DrawGlyph implements draw.GlyphDrawer.
func (diamondGlyph) DrawGlyph(c *draw.Canvas, style draw.GlyphStyle, at vg.Point) {
	r := 1.3 * style.Radius
	c.FillPolygon(style.Color, []vg.Point{{X: at.X - r, Y: at.Y}, {X: at.X, Y: at.Y + r}, {X: at.X + r, Y: at.Y}, {X: at.X, Y: at.Y - r}})
}

// roofs are the limits: slanted where reading bounds, level where arithmetic does.
type roofs struct {
	reads      []roof // GB/s
	peaks      []roof // GOPS
	xMin, xMax float64
	yMin, yMax float64
}

type roof struct {
	rate float64
	name string
	line draw.LineStyle
}

// roofDashes tell the residencies apart.
var roofDashes = map[tuner.Residency][]vg.Length{
	tuner.InDRAM: nil, tuner.InL3: {vg.Points(6), vg.Points(3)}, tuner.InL2: {vg.Points(2), vg.Points(2)},
}

func newRoofs(r *tuner.BenchReport, most int, rows []tuner.Bench) *roofs {
	f := &roofs{xMin: math.Inf(1), yMin: math.Inf(1)}
	line := func(dashes []vg.Length) draw.LineStyle {
		return draw.LineStyle{Color: roofColour, Width: vg.Points(1.2), Dashes: dashes}
	}
	for _, residency := range tuner.Residencies() {
		if rate := r.ReadFrom[residency][most] / 1e9; rate > 0 {
			f.reads = append(f.reads, roof{rate, fmt.Sprintf("read from %s, %.1f GB/s", strings.ToUpper(string(residency)), rate), line(roofDashes[residency])})
		}
	}
	for _, loop := range sortedKeys(r.Int8PeakOf) {
		if rate := r.Int8PeakOf[loop][most] / 1e9; rate > 0 {
			f.peaks = append(f.peaks, roof{rate, fmt.Sprintf("%s, %.0f GOPS", loop, rate), line(nil)})
			f.yMax = max(f.yMax, rate)
		}
	}
	for _, b := range rows {
		f.xMin, f.xMax = min(f.xMin, b.Intensity()), max(f.xMax, b.Intensity())
		f.yMin, f.yMax = min(f.yMin, b.OpsPerSecond/1e9), max(f.yMax, b.OpsPerSecond/1e9)
	}
	return f
}

// frame gives the axes room around points and roofs.
func (f *roofs) frame(p *plot.Plot) {
	p.X.Min, p.X.Max = f.xMin/2, f.xMax*2
	p.Y.Min, p.Y.Max = f.yMin/2, f.yMax*1.6
}

// Plot implements plot.Plotter.
func (f *roofs) Plot(c draw.Canvas, p *plot.Plot) {
	toX, toY := p.Transforms(&c)
	highest := 0.0
	for _, peak := range f.peaks {
		highest = max(highest, peak.rate)
	}
	steepest := 0.0
	for _, read := range f.reads {
		steepest = max(steepest, read.rate)
		end := p.X.Max
		if highest > 0 {
			end = min(end, highest/read.rate) // the roof ends at the ridge
		}
		end = min(end, p.Y.Max/read.rate)
		start := max(p.X.Min, p.Y.Min/read.rate)
		c.StrokeLine2(read.line, toX(start), toY(start*read.rate), toX(end), toY(end*read.rate))
	}
	for _, peak := range f.peaks {
		start := p.X.Min
		if steepest > 0 {
			start = max(start, peak.rate/steepest)
		}
		if start < p.X.Max {
			c.StrokeLine2(peak.line, toX(start), toY(peak.rate), toX(p.X.Max), toY(peak.rate))
			c.FillText(peakLabel(), vg.Point{X: toX(p.X.Max) - vg.Points(4), Y: toY(peak.rate) + vg.Points(2.5)}, peak.name)
		}
	}
}

// peakLabel is the style of the name of a level roof, which stands on it at its right end.
func peakLabel() draw.TextStyle {
	return draw.TextStyle{Color: roofColour, Font: sans(9.5), XAlign: text.XRight, YAlign: text.YBottom, Handler: plot.DefaultTextHandler}
}

// Thumbnail implements plot.Thumbnailer.
func (r roof) Thumbnail(c *draw.Canvas) {
	c.StrokeLine2(r.line, c.Min.X, c.Center().Y, c.Max.X, c.Center().Y)
}
