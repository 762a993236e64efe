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
