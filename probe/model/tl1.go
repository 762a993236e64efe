package model

// tl1Columns is how many columns a block of bm rows has.
func tl1Columns(bm int) int { return 256 / bm }

// tl1 unpacks TL1: blocks of bm x 256/bm weights in the order of tiling. A block has 16 rows x 4 columns after another
// along the columns, then along the rows; these have a byte for each row, with two indices of pairs.
func tl1(c *cursor, codes []int8, n, k int, p TileParameters) error {
	columns := tl1Columns(p.Bm)
	place := make([]int, p.Bm*columns/4)
	for j := range place {
		unit, across := j/16, columns/4
		place[j] = (unit/across*16+j%16)*k + unit%across*4
	}
	return tiling{p.BM, p.BK, p.Bm, columns, k}.indices(c, codes, n, k, place, pairs)
}
