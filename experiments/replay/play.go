package replay

import (
	"context"
	"slices"
	"sync"
)

// Results are those of some strategies on some tables, by strategy, table and seed.
type Results [][][]Result

// PlayAll runs every strategy on every table with so many seeds from the first, workers at a time. It ends early with the error of
// ctx, or the first of a run.
func PlayAll(ctx context.Context, tables []Scored, strategies []string, first, seeds, workers int) (Results, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	results := make(Results, len(strategies))
	type job struct{ strategy, table, seed int }
	jobs := make(chan job)
	var wait sync.WaitGroup
	for range workers {
		wait.Go(func() {
			for j := range jobs {
				r, err := tables[j.table].Play(strategies[j.strategy], uint64(first+j.seed))
				if err != nil {
					cancel(err)
				}
				results[j.strategy][j.table][j.seed] = r
			}
		})
	}
	for s := range strategies {
		results[s] = make([][]Result, len(tables))
		for t := range tables {
			results[s][t] = make([]Result, seeds)
		}
	}
	for s := range strategies {
		for t := range tables {
			for seed := range seeds {
				select {
				case jobs <- job{s, t, seed}:
				case <-ctx.Done():
				}
			}
		}
	}
	close(jobs)
	wait.Wait()
	return results, context.Cause(ctx)
}

// Mean is the mean score of strategy number s on table number t.
func (r Results) Mean(s, t int) float64 {
	sum := 0.0
	for _, result := range r[s][t] {
		sum += result.Score
	}
	return sum / float64(len(r[s][t]))
}

// Near is the median number of evaluations until strategy number s came within a share of the optimum of table number
// t, 0.05 or 0.01; 0 where half of the runs never did.
func (r Results) Near(s, t int, share float64) int {
	const never = 1 << 30
	var counts []int
	for _, result := range r[s][t] {
		n := result.Within1
		if share == 0.05 {
			n = result.Within5
		}
		if n == 0 {
			n = never
		}
		counts = append(counts, n)
	}
	slices.Sort(counts)
	if n := counts[len(counts)/2]; n < never {
		return n
	}
	return 0
}
