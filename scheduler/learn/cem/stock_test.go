package cem

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/preference"
	"gnnsched/scheduler/policy/stock"
)

func drawSpace(t *rapid.T) stockSpace {
	b := func(name string) bool { return rapid.Bool().Draw(t, name) }
	return stockSpace{
		strategy: rapid.SampledFrom(stock.Strategies).Draw(t, "strategy"),
		gpus:     b("gpus"), spreads: b("spreads"), taints: b("taints"), free: b("free"),
	}
}

// Every vector is a valid profile. Unless the space is free, preferences and what is not played weigh at
// least as much against requests as by default.
func TestStockSpace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpace(t)
		vector := rapid.SliceOfN(rapid.Float64(), s.size(), s.size()).Draw(t, "vector")
		p := s.profile(vector)
		fatal.If(t, p.Validate())
		w, requests := p.Weights, p.Weights.Fit+p.Weights.Balanced
		if 2*w.NodeAffinity != 2*requests || w.PodAffinity != w.NodeAffinity || 2*w.ImageLocality != requests {
			t.Errorf("%+v: what is not played has another ratio than by default", w)
		}
		if !s.free && (w.Spread < requests || 2*w.Taints < 3*requests || p.NoDefaultSpread) {
			t.Errorf("%+v: preferences weigh less than by default", w)
		}
		if p.NoDefaultSpread && (!s.spreads || w.Spread != requests) {
			t.Errorf("%+v without default spreading", w)
		}
	})
}

// The vector of zeros is upstream's default profile, and a space that is declared leaves out its spreading.
func TestStockSpaceStartsAtDefault(t *testing.T) {
	s := stockSpace{strategy: stock.LeastAllocated, gpus: true, spreads: true, taints: true, free: true}
	if d := cmp.Diff(stock.Default(), s.profile(make([]float64, s.size()))); d != "" {
		t.Error(d)
	}
	s.spreads, s.declared = false, true
	if !s.profile(make([]float64, s.size())).NoDefaultSpread {
		t.Error("a declared space spreads")
	}
	low := stockSpace{strategy: stock.RequestedToCapacityRatio, spreads: true, taints: true, free: true}
	p := low.profile([]float64{-9, 9, -9, -9, 0, 0, 0, 0, 0})
	want := []stock.Point{{Utilization: 0, Score: 10}, {Utilization: 25, Score: 8}, {Utilization: 50, Score: 5}, {Utilization: 75, Score: 3},
		{Utilization: 100, Score: 0}}
	if d := cmp.Diff(want, p.Shape); d != "" || !p.NoDefaultSpread || p.Weights.Taints != 0 || p.Weights.Fit != 1 || p.Fit[0].Weight != 19 {
		t.Errorf("%+v: %s", p, d)
	}
}

// The search tells apart what a scenario plays.
func TestStockSpaceOfScenario(t *testing.T) {
	e := env()
	e.Preferences = preference.First
	e.Sizes[0].Taints = []cluster.Taint{{Key: "old", Effect: cluster.PreferNoSchedule}}
	e.Sizes[1].Allocatable.GPU = 4
	for mode, want := range map[preference.Mode]stockSpace{
		preference.First:    {gpus: true, spreads: true, taints: true},
		preference.Declared: {gpus: true, taints: true, declared: true},
		preference.Off:      {gpus: true},
	} {
		e.Preferences = mode
		tuner := StockTuner{Search: Search{Env: e, Episodes: 4}}
		tried, err := newTrials(tuner.Search, true)
		fatal.If(t, err)
		got, err := tuner.space(tried.envs[0])
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", mode, got, err, want)
		}
	}
}

// For packing the search leaves the default's strategy, ends well below its cost, and finds the same again.
func TestTuneStock(t *testing.T) {
	e := env()
	e.Objective = objective.Mix{{Term: objective.Pack{}, Weight: 1}}
	tuner := StockTuner{
		Search: Search{Env: e, Baseline: heuristic.Kubernetes{}, Episodes: 4, WaitWeight: 1, Population: 12, Generations: 4, Spread: 0.5,
			Seed: 1},
		Strategies: stock.Strategies,
	}
	var first []Tried
	for range 2 {
		told := map[stock.Strategy]int{}
		got, err := tuner.Tune(t.Context(), func(s stock.Strategy, g Generation) { told[s] = g.Number })
		if err != nil || len(got) != 3 || len(told) != 3 {
			t.Fatalf("%+v, %v", got, err)
		}
		if best := got[0]; best.Profile.Strategy == stock.LeastAllocated || best.Choice > 0.95 || best.Choice > got[1].Choice ||
			got[1].Choice > got[2].Choice {
			t.Errorf("found %+v", got)
		}
		if first != nil {
			if d := cmp.Diff(first, got); d != "" {
				t.Errorf("the same seed found something else: %s", d)
			}
		}
		first = got
	}
}

// A search that is stopped returns what has a generation, by its elite.
func TestTuneStockInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	tuner := StockTuner{
		Search:     Search{Env: env(), Baseline: heuristic.Kubernetes{}, Episodes: 1, Population: 8, Generations: 2, Spread: 1, Seed: 1},
		Strategies: stock.Strategies,
	}
	count := 0
	got, err := tuner.Tune(ctx, func(stock.Strategy, Generation) {
		if count++; count == 3 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || len(got) != 2 || got[0].Elite > got[1].Elite || !math.IsNaN(got[0].Choice) {
		t.Fatalf("%+v, %v", got, err)
	}
	if n := got[0].Generations + got[1].Generations; n != 3 {
		t.Errorf("%d generations", n)
	}
	for _, s := range [][]stock.Strategy{nil, {"Guess"}, {stock.LeastAllocated, stock.LeastAllocated}} {
		tuner.Strategies = s
		if _, err := tuner.Tune(t.Context(), nil); err == nil {
			t.Errorf("strategies %v are accepted", s)
		}
	}
	tuner.Strategies = slices.Clone(stock.Strategies)
	tuner.Episodes = 0
	if err := tuner.Validate(); err == nil {
		t.Error("no episodes are accepted")
	}
}
