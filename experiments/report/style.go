package report

import (
	"fmt"
	"image/color"
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// okabeIto tells strategies apart also for the colour-blind: the colours of Okabe and Ito (2008) that show on white, the
// last a little lighter than black.
var okabeIto = []color.RGBA{
	{0x00, 0x72, 0xb2, 0xff}, {0xd5, 0x5e, 0x00, 0xff}, {0x00, 0x9e, 0x73, 0xff}, {0xcc, 0x79, 0xa7, 0xff},
	{0xe6, 0x9f, 0x00, 0xff}, {0x56, 0xb4, 0xe9, 0xff}, {0x44, 0x44, 0x44, 0xff},
}

// SeriesColour is that of series number i, a strategy or whatever else a picture tells apart. Where there are more of them
// than colours, dashes differ, and colours by so little that only inline can tell.
func SeriesColour(i int) color.Color {
	c := okabeIto[i%len(okabeIto)]
	c.B -= uint8(i / len(okabeIto))
	return c
}

var roundDashes = [][]vg.Length{nil, {vg.Points(6), vg.Points(3)}, {vg.Points(2), vg.Points(2)}}

// seriesLine is the line of strategy number i.
func seriesLine(i int) draw.LineStyle {
	return draw.LineStyle{Color: SeriesColour(i), Width: vg.Points(1.6), Dashes: roundDashes[i/len(okabeIto)%len(roundDashes)]}
}

// bandColour is the colour of strategy number i, thin.
func bandColour(i int) color.Color {
	c := color.NRGBAModel.Convert(SeriesColour(i)).(color.NRGBA)
	c.A = 0x1a
	return c
}

// The colours without a meaning. None is black, which a canvas does not write out.
var (
	paper = color.Gray{0xff}
	ink   = color.Gray{0x22}
	axis  = color.Gray{0x66}
	rule  = color.Gray{0xe4}
)

// neutrals makes the colours without a meaning variables of a page. Paper stays: it is drawn on what has a colour.
var neutrals = strings.NewReplacer(hex(ink), "var(--ink)", hex(axis), "var(--axis)", hex(rule), "var(--rule)")

// hex is a colour as the canvas writes it.
func hex(c color.Color) string {
	n := color.NRGBAModel.Convert(c).(color.NRGBA)
	return fmt.Sprintf("#%02X%02X%02X", n.R, n.G, n.B)
}

func sans(points float64) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Points(points)}
}

// label is a style of text that is centred on its place.
func label(points float64) draw.TextStyle {
	return draw.TextStyle{Color: ink, Font: sans(points), XAlign: draw.XCenter, YAlign: draw.YCenter, Handler: plot.DefaultTextHandler}
}

// dress sets the fonts and colours of axes, and adds a grid.
func dress(p *plot.Plot) {
	p.BackgroundColor = nil // that of what it is drawn on
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Tick.Label.Font, a.Tick.Label.Color, a.Padding = sans(9), ink, 0
		a.LineStyle.Color, a.Tick.LineStyle.Color = axis, axis
	}
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = rule, rule
	p.Add(grid)
}

// labelled draws a plot with names along its axes and room for a legend at its right. The names of a plot.Axis take up
// room as if a logarithmic scale were linear.
func labelled(c draw.Canvas, p *plot.Plot, x, y string, legend vg.Length) draw.Canvas {
	data := draw.Crop(c, vg.Points(20), -legend, vg.Points(20), -vg.Points(6))
	p.Draw(data)
	inner := p.DataCanvas(data)
	style := label(9.5)
	c.FillText(style, vg.Point{X: inner.Center().X, Y: c.Min.Y + vg.Points(8)}, x)
	style.Rotation = math.Pi / 2
	c.FillText(style, vg.Point{X: c.Min.X + vg.Points(8), Y: inner.Center().Y}, y)
	return inner
}

// decades are ticks at the powers of ten, and at these factors of them.
type decades struct {
	factors []float64
	unit    string
}

// Ticks implements plot.Ticker.
func (d decades) Ticks(low, high float64) (ticks []plot.Tick) {
	for power := math.Pow(10, math.Floor(math.Log10(low))); power <= high*1.0001; power *= 10 {
		for _, factor := range d.factors {
			if v := factor * power; low*0.9999 <= v && v <= high*1.0001 {
				ticks = append(ticks, plot.Tick{Value: v, Label: strconv.FormatFloat(round(v), 'f', -1, 64) + d.unit})
			}
		}
	}
	return ticks
}

// steps are some five ticks at round distances, labelled by so many times their value.
type steps struct {
	factor float64
	unit   string
}

// Ticks implements plot.Ticker.
func (s steps) Ticks(low, high float64) (ticks []plot.Tick) {
	step := math.Pow(10, math.Floor(math.Log10((high-low)/5)))
	for _, factor := range []float64{5, 2, 1} {
		if (high-low)/(factor*step) >= 4 {
			step *= factor
			break
		}
	}
	for i := int(math.Ceil(low/step - 1e-9)); float64(i) <= high/step+1e-9; i++ {
		v := float64(i) * step
		ticks = append(ticks, plot.Tick{Value: v, Label: strconv.FormatFloat(round(s.factor*v), 'f', -1, 64) + s.unit})
	}
	return ticks
}

// round takes the rounding errors of repeated multiplication away.
func round(v float64) float64 {
	short, err := strconv.ParseFloat(fmt.Sprintf("%.6g", v), 64)
	if err != nil {
		return v
	}
	return short
}
