package measure

import (
	"context"
	"fmt"
	"math"
	"slices"
)

// Summary is what is known of one subject's cost, in nanoseconds per unit.
type Summary struct {
	N       int       // samples that count
	Median  float64   // 0 when there is none
	Low     float64   // 95 % interval of the median, exact for any distribution;
	High    float64   // unbounded (0, math.MaxFloat64) below 6 samples
	CV      float64   // coefficient of variation, standard deviation / mean; 0 below 2 samples
	Samples []float64 // in the order they were taken
	// Censored counts the samples that the host disturbed; CensoredSamples keeps them. They take part in nothing.
	Censored        int
	CensoredSamples []float64
	Warnings        []error // ErrFewSamples, ErrUnsteady, ErrNoisy, ErrCensored, ErrUnwatched
}

// Measure takes that many samples of s. A censored sample is repeated, up to three times. On an error, among them
// that of ctx, the Summary holds what was measured before it.
func (t *Timer) Measure(ctx context.Context, s Subject, samples int) (Summary, error) {
	var sum Summary
	ready, err := t.ready(ctx, s)
	if err != nil {
		return t.summarize(sum, ready), err
	}
	for range samples {
		if err := t.measureOne(ctx, s, ready.Iterations, &sum); err != nil {
			return t.summarize(sum, ready), err
		}
	}
	return t.summarize(sum, ready), nil
}

// measureOne adds one sample to sum, and the censored ones before it.
func (t *Timer) measureOne(ctx context.Context, s Subject, n int, sum *Summary) error {
	for range attempts {
		if err := t.rest(ctx, s, n); err != nil {
			return err
		}
		t.watch().mark()
		cost, disturbed, err := t.sample(ctx, s, n)
		if err != nil {
			return err
		}
		if !disturbed {
			sum.Samples = append(sum.Samples, cost)
			return nil
		}
		sum.CensoredSamples = append(sum.CensoredSamples, cost)
	}
	return nil
}

// summarize fills in everything that follows from the samples.
func (t *Timer) summarize(sum Summary, ready Ready) Summary {
	sum.N, sum.Censored = len(sum.Samples), len(sum.CensoredSamples)
	sorted := slices.Sorted(slices.Values(sum.Samples))
	sum.Median = middle(sorted)
	sum.Low, sum.High = medianInterval(sorted)
	sum.CV = variation(sorted)
	sum.Warnings = t.warnings(doubt{sum.N, sum.Censored, sum.High < math.MaxFloat64, ready.Steady, sum.CV})
	return sum
}

// medianInterval returns the order statistics that enclose the median with probability >= 0.95: the ranks that
// the number of values below the median, Binomial(n, 1/2), leaves with probability <= 0.025 on either side.
func medianInterval(sorted []float64) (low, high float64) {
	n := len(sorted)
	k, tail, p := 0, 0.0, math.Pow(0.5, float64(n)) // p = P(exactly k values below the median)
	for tail+p <= 0.025 {
		tail += p
		p *= float64(n-k) / float64(k+1)
		k++
	}
	if k == 0 {
		return 0, math.MaxFloat64
	}
	return sorted[k-1], sorted[n-k]
}

// variation is the coefficient of variation.
func variation(x []float64) float64 {
	if len(x) < 2 {
		return 0
	}
	mean, squares := 0.0, 0.0
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		squares += (v - mean) * (v - mean)
	}
	return math.Sqrt(squares/float64(len(x)-1)) / mean
}

// doubt is what warnings are given for.
type doubt struct {
	n, censored int  // samples or blocks that count and that do not
	bounded     bool // there is an interval
	steady      bool
	cv          float64
}

// warnings puts the doubts about a summary or a comparison into words.
func (t *Timer) warnings(d doubt) []error {
	var warnings []error
	if !d.bounded {
		warnings = append(warnings, fmt.Errorf("%w: have %d", ErrFewSamples, d.n))
	}
	if !d.steady {
		warnings = append(warnings, ErrUnsteady)
	}
	if tried := d.n + d.censored; float64(d.censored) > censoredShare*float64(tried) {
		warnings = append(warnings, fmt.Errorf("%w: %d of %d", ErrCensored, d.censored, tried))
	}
	if d.cv > noisyCV {
		warnings = append(warnings, fmt.Errorf("%w: %.1f %%", ErrNoisy, 100*d.cv))
	}
	if err := t.watch().err; err != nil {
		warnings = append(warnings, fmt.Errorf("%w: %w", ErrUnwatched, err))
	}
	return warnings
}
