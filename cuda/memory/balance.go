package memory

import (
	"sync"
	"time"
)

// Balancer splits work between devices by how fast each has been, as a moving average of what it took for a sample. The
// zero value is ready.
type Balancer struct {
	// Weight is that of the newest measurement. If Weight is 0, 0.25 is used: a change of speed is followed within some
	// ten measurements, and one bad one in sixteen moves a share by a quarter of its error.
	Weight float64

	mu   sync.Mutex
	cost map[int]float64 // nanoseconds for a sample, by device
}

// Observe tells what a device took for so many samples. What cannot be, no samples or no time, is ignored.
func (b *Balancer) Observe(device, samples int, took time.Duration) {
	if samples <= 0 || took <= 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cost == nil {
		b.cost = make(map[int]float64)
	}
	weight := b.Weight
	if weight == 0 {
		weight = 0.25
	}
	now := float64(took) / float64(samples)
	if before, known := b.cost[device]; known {
		now = before + weight*(now-before)
	}
	b.cost[device] = now
}

// Split divides samples between devices so that they should end together. A device of which nothing is known counts as
// the mean of the others.
func (b *Balancer) Split(samples int, devices []int) []int {
	b.mu.Lock()
	defer b.mu.Unlock()
	speeds, sum := make([]float64, len(devices)), 0.0
	mean := b.mean(devices)
	for i, d := range devices {
		speeds[i] = mean
		if cost, known := b.cost[d]; known {
			speeds[i] = 1 / cost
		}
		sum += speeds[i]
	}
	return divide(samples, speeds, sum)
}

// mean is the mean speed of the devices that are known, 1 if none is.
func (b *Balancer) mean(devices []int) float64 {
	sum, n := 0.0, 0
	for _, d := range devices {
		if cost, known := b.cost[d]; known {
			sum += 1 / cost
			n++
		}
	}
	if n == 0 {
		return 1
	}
	return sum / float64(n)
}

// divide splits n by weights; what rounding leaves goes to the largest remainders, the first of equals.
func divide(n int, weights []float64, sum float64) []int {
	parts, rests, left := make([]int, len(weights)), make([]float64, len(weights)), n
	for i, w := range weights {
		exact := float64(n) * w / sum
		parts[i] = int(exact)
		rests[i] = exact - float64(parts[i])
		left -= parts[i]
	}
	for ; left > 0 && len(parts) > 0; left-- {
		most := 0
		for i := range rests {
			if rests[i] > rests[most] {
				most = i
			}
		}
		parts[most]++
		rests[most] = -1
	}
	return parts
}
