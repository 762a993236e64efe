package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/bitnet-autotune/bitnet-autotune/bandit"
	"github.com/bitnet-autotune/bitnet-autotune/experiments/replay"
)

const (
	// near is the regret that the claim allows.
	near = 0.03
	// mostBlocks is how many paired blocks of all points a run may take: a live search of half a minute affords about as
	// many.
	mostBlocks = 160
)

// judgedAt are the numbers of points evaluated after which runs are compared.
var judgedAt = []int{10, 20, 40}

// task is how much is played.
type task struct {
	seeds, workers int
	points         int // that a run may evaluate
}

// player is a way to search. Its strategy is nil where it searches nothing: then it keeps a point.
type player struct {
	name     string
	strategy func(l replay.Live, seed uint64) (bandit.Strategy, error)
	keeps    func(l replay.Live) int
}

func named(name string, starts bool) func(replay.Live, uint64) (bandit.Strategy, error) {
	return func(l replay.Live, seed uint64) (bandit.Strategy, error) {
		opt := bandit.Options{Seed: seed, Budget: mostBlocks}
		if starts {
			opt.Start = l.Starts
		}
		return bandit.New(name, l.Space, opt)
	}
}

// players are auto as the live tuner has it, what it has to beat, and the other strategies in its place.
func players() []player {
	list := []player{
		{name: "random", strategy: named("random", false)},
		{name: "bisection", strategy: func(l replay.Live, _ uint64) (bandit.Strategy, error) {
			return newBisection(l.Space, l.Space.At(l.Default), "threads", "batch"), nil
		}},
		{name: "heuristic", keeps: func(l replay.Live) int { return l.Yardstick }},
		{name: "default", keeps: func(l replay.Live) int { return l.Default }},
	}
	for _, name := range bandit.Names() {
		if name != "random" {
			list = append(list, player{name: name, strategy: named(name, true)})
		}
	}
	return list
}

// choose returns the players of these names, in this order.
func choose(names ...string) ([]player, error) {
	var chosen []player
	all := players()
	for _, name := range names {
		i := slices.IndexFunc(all, func(p player) bool { return p.name == name })
		if i < 0 {
			return nil, fmt.Errorf("strategy %q: want some of random, bisection, heuristic, default, %s", name, strings.Join(bandit.Names(), ", "))
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// field is a space to be judged on: with each seed, another draw of its noise.
type field struct {
	name string
	live func(seed uint64) (replay.Live, error)
}

// outcome is one run: its regret and what it had spent after each number of points.
type outcome []replay.Standing

// after is where the run stood when so many points were evaluated.
func (o outcome) after(points int) replay.Standing { return o[min(points, len(o))-1] }

// settled is the number of points after which the recommendation was near the best for good; 0 is never.
func (o outcome) settled() int {
	for i := len(o); i > 0; i-- {
		if o[i-1].Regret > near {
			if i == len(o) {
				return 0
			}
			return i + 1
		}
	}
	return 1
}

func (p player) play(l replay.Live, seed uint64, points int) (outcome, error) {
	if p.strategy == nil {
		kept := p.keeps(l)
		return outcome{{Point: kept, Regret: l.Regret(kept), Tried: l.Regret(kept)}}, nil
	}
	s, err := p.strategy(l, seed)
	if err != nil {
		return nil, err
	}
	return l.Search(s, seed, points, mostBlocks)
}

// verdict is what a player made of a field, over the seeds.
type verdict struct {
	field, player string
	runs          []outcome
}

// judge lets every player search every field.
func judge(ctx context.Context, fields []field, players []player, todo task) ([]verdict, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var verdicts []verdict
	for _, f := range fields {
		for _, p := range players {
			verdicts = append(verdicts, verdict{f.name, p.name, make([]outcome, todo.seeds)})
		}
	}
	type job struct{ field, seed int }
	jobs := make(chan job)
	var wait sync.WaitGroup
	for range todo.workers {
		wait.Go(func() {
			for j := range jobs {
				l, err := fields[j.field].live(uint64(j.seed))
				for i, p := range players {
					if err == nil {
						verdicts[j.field*len(players)+i].runs[j.seed], err = p.play(l, uint64(j.seed), todo.points)
					}
				}
				if err != nil {
					cancel(fmt.Errorf("judge on %s: %w", fields[j.field].name, err))
				}
			}
		})
	}
	for f := range fields {
		for seed := range todo.seeds {
			select {
			case jobs <- job{f, seed}:
			case <-ctx.Done():
			}
		}
	}
	close(jobs)
	wait.Wait()
	return verdicts, context.Cause(ctx)
}

// regrets are the regrets of all runs after so many points, ascending: those of what is recommended, or what else of
// says.
func (v verdict) regrets(points int, of func(replay.Standing) float64) []float64 {
	var list []float64
	for _, run := range v.runs {
		list = append(list, of(run.after(points)))
	}
	slices.Sort(list)
	return list
}

// within are the numbers of points until near the best for good, ascending; never is +Inf.
func (v verdict) within() []float64 {
	var list []float64
	for _, run := range v.runs {
		n := float64(run.settled())
		if n == 0 {
			n = math.Inf(1)
		}
		list = append(list, n)
	}
	slices.Sort(list)
	return list
}

// quantile of ascending values: the least that so large a share does not exceed.
func quantile(sorted []float64, share float64) float64 {
	return sorted[max(0, int(math.Ceil(share*float64(len(sorted))))-1)]
}

// report prints the verdicts as a Markdown table; where there are two numbers with a stroke, the median and the 90th
// percentile.
func report(out io.Writer, verdicts []verdict) {
	fmt.Fprint(out, "| space | strategy |")
	for _, n := range judgedAt {
		fmt.Fprintf(out, " regret at %d |", n)
	}
	fmt.Fprint(out, " best tried at 20 | at 40 | points to within 3 % | blocks at 20, 40 | seconds at 20, 40 |\n|---|---|")
	for range len(judgedAt) + 5 {
		fmt.Fprint(out, "---|")
	}
	fmt.Fprintln(out)
	for _, v := range verdicts {
		fmt.Fprintf(out, "| %s | %s |", v.field, v.player)
		for _, n := range judgedAt {
			fmt.Fprintf(out, " %s |", quantiles(v.regrets(n, recommended), percent))
		}
		fmt.Fprintf(out, " %s | %s | %s |", quantiles(v.regrets(20, tried), percent), quantiles(v.regrets(40, tried), percent), quantiles(v.within(), count))
		fmt.Fprintf(out, " %.0f, %.0f | %.1f, %.1f |\n", v.mean(20, blocks), v.mean(40, blocks), v.mean(20, seconds), v.mean(40, seconds))
	}
}

// quantiles are the median and the 90th percentile of ascending values.
func quantiles(sorted []float64, text func(float64) string) string {
	return text(quantile(sorted, 0.5)) + " / " + text(quantile(sorted, 0.9))
}

func recommended(s replay.Standing) float64 { return s.Regret }
func tried(s replay.Standing) float64       { return s.Tried }
func blocks(s replay.Standing) float64      { return float64(s.Blocks) }
func seconds(s replay.Standing) float64     { return s.Elapsed.Seconds() }

// mean of what the runs had spent after so many points.
func (v verdict) mean(points int, of func(replay.Standing) float64) float64 {
	sum := 0.0
	for _, run := range v.runs {
		sum += of(run.after(points))
	}
	return sum / float64(len(v.runs))
}

func percent(x float64) string { return fmt.Sprintf("%.1f %%", 100*x) }

func count(n float64) string {
	if math.IsInf(n, 1) {
		return "never"
	}
	return fmt.Sprint(n)
}
