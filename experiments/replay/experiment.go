package replay

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// Experiment lets every strategy search every table with so many seeds.
type Experiment struct {
	Tables     []Scored
	Strategies []string
	First      uint64         // the first seed; the others follow
	Seeds      int            // runs of each strategy on each table
	Workers    int            // runs at the same time; if 0, 1
	Progress   func(Progress) // told of every run that ended, one call at a time; may be nil
}

// Progress says how far an experiment is.
type Progress struct {
	Done, Total     int
	Left            time.Duration // expected, from what the same strategies took on the same tables so far
	Strategy, Table string        // of the run that ended
	Seed            uint64
}

// Results are those of an experiment, by strategy, table and seed.
type Results [][][]Result

// Run plays the experiment. Where ctx ends it early, or a run fails, the results have what was complete until then, and
// the error says why. They depend on nothing but tables, strategies and seeds.
func (x *Experiment) Run(ctx context.Context) (Results, error) {
	playing, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	q := newQueue(x)
	var wait sync.WaitGroup
	for range min(max(1, x.Workers), len(q.done)*x.Seeds) {
		wait.Go(func() {
			for j, ok := q.next(); ok && playing.Err() == nil; j, ok = q.next() {
				seed, start := x.First+uint64(j.seed), time.Now()
				r, err := x.Tables[j.table].Play(playing, x.Strategies[j.strategy], seed)
				if err != nil {
					cancel(err)
					return
				}
				q.end(j, r, time.Since(start))
			}
		})
	}
	wait.Wait()
	if ctx.Err() != nil {
		return q.results, ctx.Err()
	}
	return q.results, context.Cause(playing)
}

// job is one run.
type job struct{ strategy, table, seed int }

// queue hands out the jobs of an experiment: seed after seed, so that an experiment which is ended early has as much of
// each strategy as of the others, and within a seed the longest first, so that no worker is left alone with a long one.
type queue struct {
	x       *Experiment
	mu      sync.Mutex
	todo    []job // of the present seed
	seed    int   // the next one
	took    []time.Duration
	done    []int // runs that ended, as took by strategy and table
	results Results
}

func newQueue(x *Experiment) *queue {
	pairs := len(x.Strategies) * len(x.Tables)
	q := &queue{x: x, took: make([]time.Duration, pairs), done: make([]int, pairs), results: make(Results, len(x.Strategies))}
	for s := range x.Strategies {
		q.results[s] = make([][]Result, len(x.Tables))
		for t := range x.Tables {
			q.results[s][t] = make([]Result, x.Seeds)
		}
	}
	return q
}

// pair is the place of a job's strategy and table in took and done.
func (q *queue) pair(j job) int { return j.strategy*len(q.x.Tables) + j.table }

// mean is what a run of a pair took so far; of one that is not known, what one of any pair took.
func (q *queue) mean(pair int) time.Duration {
	if q.done[pair] > 0 {
		return q.took[pair] / time.Duration(q.done[pair])
	}
	var took time.Duration
	done := 0
	for p, n := range q.done {
		took, done = took+q.took[p], done+n
	}
	return took / time.Duration(max(1, done))
}

func (q *queue) next() (job, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.todo) == 0 {
		if q.seed == q.x.Seeds {
			return job{}, false
		}
		q.refill()
	}
	j := q.todo[0]
	q.todo = q.todo[1:]
	return j, true
}

// refill lists the jobs of the next seed, longest first.
func (q *queue) refill() {
	for s := range q.x.Strategies {
		for t := range q.x.Tables {
			q.todo = append(q.todo, job{s, t, q.seed})
		}
	}
	slices.SortStableFunc(q.todo, func(a, b job) int { return cmp.Compare(q.mean(q.pair(b)), q.mean(q.pair(a))) })
	q.seed++
}

// end keeps the result of a job.
func (q *queue) end(j job, r Result, took time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.results[j.strategy][j.table][j.seed] = r
	q.took[q.pair(j)] += took
	q.done[q.pair(j)]++
	if q.x.Progress == nil {
		return
	}
	p := Progress{Total: len(q.done) * q.x.Seeds, Strategy: q.x.Strategies[j.strategy], Table: q.x.Tables[j.table].Name, Seed: q.x.First + uint64(j.seed)}
	for pair, n := range q.done {
		p.Done += n
		p.Left += q.mean(pair) * time.Duration(q.x.Seeds-n)
	}
	p.Left /= time.Duration(max(1, q.x.Workers))
	q.x.Progress(p)
}

// Complete returns the results of the runs that ended of strategy number s on table number t, by seed.
func (r Results) Complete(s, t int) []Result {
	return slices.DeleteFunc(slices.Clone(r[s][t]), func(one Result) bool { return one.Steps == 0 })
}

// Mean is the mean score of strategy number s on table number t; NaN where no run ended.
func (r Results) Mean(s, t int) float64 {
	sum := 0.0
	runs := r.Complete(s, t)
	for _, run := range runs {
		sum += run.Score
	}
	return sum / float64(len(runs))
}
