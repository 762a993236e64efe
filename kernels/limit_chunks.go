//go:build (amd64 || arm64) && !purego

package kernels

// A chunk of assembly cannot be preempted: 1 MiB of reads and 64 Ki iterations take well under a millisecond.
const (
	chunkBytes      = 1 << 20
	chunkIterations = 1 << 16
)

func readInChunks(read func(p *byte, rounds int) uint64, round int) func([]byte) uint64 {
	return func(data []byte) (sum uint64) {
		for len(data) >= round {
			rounds := min(len(data), chunkBytes) / round
			sum ^= read(&data[0], rounds)
			data = data[rounds*round:]
		}
		return sum ^ readGeneric(data)
	}
}

func inChunks(peak func(int)) func(int) {
	return func(iterations int) {
		for ; iterations > 0; iterations -= chunkIterations {
			peak(min(iterations, chunkIterations))
		}
	}
}
