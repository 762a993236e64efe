package report

import (
	"image/color"
	"math"

	"gonum.org/v1/plot/palette"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// tiles is a heat map: a grid of coloured cells with names, and a key of the colours.
type tiles struct {
	rows, columns        []string
	rowsName, columnName string
	cells                [][]tile // by row and column
	key                  colourKey
	cellWidth            vg.Length
	cellHeight           vg.Length
}

// tile is one cell; without a fill it is left out.
type tile struct {
	fill   color.Color
	text   string
	tip    string
	marked bool // has a frame
}

// colourKey says what the colours mean.
type colourKey struct {
	colours  palette.ColorMap
	low      string // what stands at the lower end
	high     string
	reversed bool // the upper end of the colours is the lower end of the key
}

const (
	tileFont   = 8.5
	charWidth  = 0.55 * tileFont // of sans, a little more than the mean
	tilesSpace = 8               // between cells, names and key
	keyWidth   = 12
	keyRoom    = 106 // for the key and its words
)

// textWidth is about as wide as the longest of some names.
func textWidth(names []string) vg.Length {
	longest := 0
	for _, name := range names {
		longest = max(longest, len([]rune(name)))
	}
	return vg.Points(charWidth * float64(longest))
}

// fit makes cells large enough for the words along them.
func (t *tiles) fit() {
	t.cellHeight = max(t.cellHeight, max(textWidth([]string{t.rowsName})*1.1, vg.Points(64))/vg.Length(len(t.rows)))
}

// slanted reports whether the names of the columns are too long to stand side by side.
func (t *tiles) slanted() bool { return textWidth(t.columns) > t.cellWidth-vg.Points(2) }

// margins is the room for names at the left and the bottom.
func (t *tiles) margins() (left, bottom vg.Length) {
	left, bottom = textWidth(t.rows)+vg.Points(tilesSpace+2), vg.Points(16)
	if t.slanted() {
		bottom = textWidth(t.columns)*0.75 + vg.Points(14)
		left = max(left, textWidth(t.columns[:1])*0.75)
	}
	if t.rowsName != "" {
		left += vg.Points(16)
	}
	if t.columnName != "" {
		bottom += vg.Points(14)
	}
	return left, bottom
}

// size is that of the whole figure.
func (t *tiles) size() (width, height vg.Length) {
	left, bottom := t.margins()
	return left + vg.Length(len(t.columns))*t.cellWidth + vg.Points(keyRoom), bottom + vg.Length(len(t.rows))*t.cellHeight + vg.Points(8)
}

// tips are the words for each cell in the order in which they are drawn.
func (t *tiles) tips() (tips []string) {
	for _, row := range t.cells {
		for _, cell := range row {
			if cell.fill != nil {
				tips = append(tips, cell.tip)
			}
		}
	}
	return tips
}

// draw draws the cells first, and then what explains them. The first row is at the top.
func (t *tiles) draw(c draw.Canvas) {
	left, _ := t.margins()
	origin := vg.Point{X: c.Min.X + left, Y: c.Max.Y - vg.Points(4)}
	corner := func(row, column int) vg.Point {
		return vg.Point{X: origin.X + vg.Length(column)*t.cellWidth, Y: origin.Y - vg.Length(row)*t.cellHeight}
	}
	for i, row := range t.cells {
		for j, cell := range row {
			if cell.fill != nil {
				c.FillPolygon(cell.fill, rectangle(corner(i, j), corner(i+1, j+1), vg.Points(0.5)))
			}
		}
	}
	for i, row := range t.cells {
		for j, cell := range row {
			t.write(c, cell, corner(i, j), corner(i+1, j+1))
		}
	}
	t.names(c, corner)
	t.drawKey(c, vg.Point{X: corner(0, len(t.columns)).X + vg.Points(2*tilesSpace), Y: origin.Y})
}

// rectangle is the one between two corners, with room left around it.
func rectangle(a, b vg.Point, room vg.Length) []vg.Point {
	return []vg.Point{{X: a.X + room, Y: a.Y - room}, {X: b.X - room, Y: a.Y - room}, {X: b.X - room, Y: b.Y + room}, {X: a.X + room, Y: b.Y + room}}
}

// write writes what stands in a cell, and its frame.
func (t *tiles) write(c draw.Canvas, cell tile, a, b vg.Point) {
	if cell.text != "" {
		style := label(tileFont)
		style.Color = on(cell.fill)
		c.FillText(style, vg.Point{X: (a.X + b.X) / 2, Y: (a.Y + b.Y) / 2}, cell.text)
	}
	if cell.marked {
		frame := rectangle(a, b, vg.Points(1.5))
		c.StrokeLines(draw.LineStyle{Color: on(cell.fill), Width: vg.Points(1.2)}, append(frame, frame[0]))
	}
}

// on is the one of white and black that shows better on a colour, by the relative luminance of WCAG 2.
func on(fill color.Color) color.Color {
	if fill == nil {
		return ink
	}
	n := color.NRGBAModel.Convert(fill).(color.NRGBA)
	linear := func(channel uint8) float64 { return math.Pow((float64(channel)/255+0.055)/1.055, 2.4) }
	if 0.2126*linear(n.R)+0.7152*linear(n.G)+0.0722*linear(n.B) < 0.179 { // where the contrast with both is 4.6
		return paper
	}
	return color.Gray{0x11}
}

// names writes the names of rows and columns.
func (t *tiles) names(c draw.Canvas, corner func(row, column int) vg.Point) {
	style := label(tileFont)
	style.XAlign = draw.XRight
	for i, name := range t.rows {
		at := corner(i, 0)
		c.FillText(style, vg.Point{X: at.X - vg.Points(tilesSpace/2), Y: at.Y - t.cellHeight/2}, name)
	}
	style = label(tileFont)
	if t.slanted() {
		style.XAlign, style.Rotation = draw.XRight, math.Pi/4
	}
	bottom := corner(len(t.rows), 0).Y
	for j, name := range t.columns {
		c.FillText(style, vg.Point{X: corner(0, j).X + t.cellWidth/2, Y: bottom - vg.Points(tilesSpace)}, name)
	}
	style = label(9.5)
	middle := vg.Length(len(t.columns)) / 2 * t.cellWidth
	c.FillText(style, vg.Point{X: corner(0, 0).X + middle, Y: c.Min.Y + vg.Points(7)}, t.columnName)
	style.Rotation = math.Pi / 2
	c.FillText(style, vg.Point{X: c.Min.X + vg.Points(7), Y: (corner(0, 0).Y + bottom) / 2}, t.rowsName)
}

// drawKey draws the colours from low at the bottom to high at the top.
func (t *tiles) drawKey(c draw.Canvas, top vg.Point) {
	const steps = 32
	height := vg.Length(len(t.rows)) * t.cellHeight
	for i := range steps {
		share := (float64(i) + 0.5) / steps
		fill := t.key.at(share)
		low := top.Y - height + height*vg.Length(i)/steps
		c.FillPolygon(fill, rectangle(vg.Point{X: top.X, Y: low + height/steps + vg.Points(0.3)}, vg.Point{X: top.X + vg.Points(keyWidth), Y: low}, 0))
	}
	style := label(tileFont)
	style.XAlign = draw.XLeft
	x := top.X + vg.Points(keyWidth+4)
	c.FillText(style, vg.Point{X: x, Y: top.Y - vg.Points(5)}, t.key.high)
	c.FillText(style, vg.Point{X: x, Y: top.Y - height + vg.Points(5)}, t.key.low)
}

// at is the colour at a share of the key, from low to high.
func (k colourKey) at(share float64) color.Color {
	if k.reversed {
		share = 1 - share
	}
	span := k.colours.Max() - k.colours.Min()
	c, err := k.colours.At(k.colours.Min() + span*min(max(share, 0), 1))
	if err != nil {
		return rule // not met: the share is within the range
	}
	return c
}
