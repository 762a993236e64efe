package report

import (
	"bytes"
	"fmt"
	"html"
	"html/template"
	"io"
	"regexp"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Figure is one plot of a report.
type Figure struct {
	Name    string // of its file, without an ending
	Title   string
	Caption string

	width, height vg.Length
	draw          func(draw.Canvas)
	series        []string // what a line or band of each colour stands for
	tips          []string // what the areas that are filled first stand for
}

// headline is the room for the title in a file of its own. On a page it stands above.
const headline = 22

// drawAlone draws the figure under its title.
func (f *Figure) drawAlone(c draw.Canvas) {
	style := label(11)
	style.XAlign = draw.XLeft
	c.FillText(style, vg.Point{X: c.Min.X + vg.Points(8), Y: c.Max.Y - headline/2}, f.Title)
	f.draw(draw.Crop(c, 0, 0, 0, -headline))
}

// WriteSVG writes the figure as a file of its own, on white.
func (f *Figure) WriteSVG(w io.Writer) error {
	canvas := vgsvg.New(f.width, f.height+headline)
	c := draw.New(canvas)
	c.FillPolygon(paper, []vg.Point{c.Min, {X: c.Max.X, Y: c.Min.Y}, c.Max, {X: c.Min.X, Y: c.Max.Y}})
	f.drawAlone(c)
	var svg bytes.Buffer
	if _, err := canvas.WriteTo(&svg); err != nil {
		return fmt.Errorf("report: figure %s: %w", f.Name, err)
	}
	_, err := w.Write(withFonts(svg.Bytes()))
	return err
}

// WritePNG writes the figure as a picture of 144 dots an inch, on white.
func (f *Figure) WritePNG(w io.Writer) error {
	canvas := vgimg.NewWith(vgimg.UseWH(f.width, f.height+headline), vgimg.UseDPI(144), vgimg.UseBackgroundColor(paper))
	f.drawAlone(draw.New(canvas))
	if _, err := (vgimg.PngCanvas{Canvas: canvas}).WriteTo(w); err != nil {
		return fmt.Errorf("report: figure %s: %w", f.Name, err)
	}
	return nil
}

// withFonts names fonts for a viewer that lacks the first, which would take one with serifs.
func withFonts(svg []byte) []byte {
	return bytes.ReplaceAll(svg, []byte("font-family:Liberation Sans;"), []byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif;"))
}

// path is a line or an area as the canvas writes it.
var path = regexp.MustCompile(`<path d="[^"]*"\s*style="([^"]*)" ?/>`)

// inline returns the figure as an element of a page. Its colours are variables of the page, which has a dark side, too;
// what has a meaning bears its name, and the class of its series.
func (f *Figure) inline() (template.HTML, error) {
	canvas := vgsvg.New(f.width, f.height)
	f.draw(draw.New(canvas))
	var all bytes.Buffer
	if _, err := canvas.WriteTo(&all); err != nil {
		return "", fmt.Errorf("report: figure %s: %w", f.Name, err)
	}
	svg := string(withFonts(all.Bytes()))
	svg = svg[strings.Index(svg, ">\n<g")+2:] // the element of the page is made below
	tips := f.tips
	svg = path.ReplaceAllStringFunc(svg, func(element string) string {
		style := path.FindStringSubmatch(element)[1]
		if strings.HasPrefix(style, "fill:#") && len(tips) > 0 {
			element, tips = named(element, "", tips[0]), tips[1:]
			return element
		}
		for i, name := range f.series {
			if strings.Contains(style, hex(SeriesColour(i))) {
				return named(element, fmt.Sprintf(` class="series s%d"`, i), name)
			}
		}
		return element
	})
	svg = neutrals.Replace(svg)
	for i := range f.series {
		svg = strings.ReplaceAll(svg, hex(SeriesColour(i)), fmt.Sprintf("var(--c%d)", i%len(okabeIto)))
	}
	open := fmt.Sprintf(`<svg role="img" aria-label="%s" viewBox="0 0 %.5g %.5g" style="min-width:%.0fpx;max-width:%.0fpx">`,
		html.EscapeString(f.Title), f.width.Points(), f.height.Points(), smallest*f.width.Points(), largest*f.width.Points())
	return template.HTML(open + svg), nil
}

// By how much a figure may shrink and grow on a page: text of 9 points has from 8 to 13 pixels. Where there is less room,
// it scrolls.
const smallest, largest = 0.85, 1.5

// named gives an element a class and a name to show.
func named(element, class, name string) string {
	return strings.TrimRight(strings.TrimSuffix(element, "/>"), " ") + class + "><title>" + html.EscapeString(name) + "</title></path>"
}
