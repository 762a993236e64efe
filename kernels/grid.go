package kernels

// RowAlign rows are a group: sixteen rows that share their vectors. blockGroups groups are a block,
// whose vectors of one step follow each other, so that a block is one linear stream and a register tile covers it.
const blockGroups = 4

// grid is how a layout cuts a matrix: a group of sixteen rows takes size bytes for every cols columns, a step. Both rows
// and columns are padded to whole groups and steps.
//
//	step s of group g starts at  size * (g&^3 * steps + s * width + g&3)
//
// where width is the number of groups of the block, 4 but for the last.
type grid struct{ cols, size int }

func groups(n int) int { return (n + RowAlign - 1) / RowAlign }

func (g grid) steps(k int) int { return (k + g.cols - 1) / g.cols }

func (g grid) bytes(n, k int) int { return groups(n) * g.steps(k) * g.size }

// stream returns where the steps of a group start and how far apart they are, in bytes.
func (g grid) stream(n, k, group int) (start, stride int) {
	first := group &^ (blockGroups - 1)
	width := min(blockGroups, groups(n)-first)
	return g.size * (first*g.steps(k) + group - first), g.size * width
}

// eachDword calls visit for every dword of a packed n x k matrix, one row of a step: its byte offset, its row (n or
// more in the padding) and its first column.
func (g grid) eachDword(n, k int, visit func(at, row, col int)) {
	for group := range groups(n) {
		start, stride := g.stream(n, k, group)
		for s := range g.steps(k) {
			for r := range RowAlign {
				visit(start+s*stride+4*r, group*RowAlign+r, s*g.cols)
			}
		}
	}
}

// clearRows clears what belongs to the rows beyond n.
func (g grid) clearRows(data []byte, n, k int) {
	used := n % RowAlign
	if used == 0 {
		return
	}
	start, stride := g.stream(n, k, n/RowAlign)
	for s := range g.steps(k) {
		clear(data[start+s*stride+4*used : start+s*stride+g.size])
	}
}
