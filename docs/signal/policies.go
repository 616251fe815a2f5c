package main

import (
	"math/rand/v2"
	"runtime"

	"golang.org/x/sync/errgroup"

	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/policy/linear"
	"gnnsched/scheduler/sim"
)

// episodes are the numbers of whole episodes that estimate the order of two policies.
var episodes = []int{1, 4, 8}

const (
	trueEpisodes = 32
	noise        = 0.8 // of a weight, as a part of it
)

// policies compares pairs of policies whose weights lie on both sides of linear's, as evolution strategies do.
func (s settings) policies(c sim.Config) ([]sample, error) {
	samples := make([]sample, s.pairs)
	var work errgroup.Group
	work.SetLimit(runtime.GOMAXPROCS(0))
	for i := range samples {
		work.Go(func() error {
			all, err := s.pair(c, rand.New(rand.NewPCG(s.seed, 2+uint64(i))))
			if err == nil {
				samples[i] = sample{truth: all[:trueEpisodes], by: map[int][]float64{0: all[trueEpisodes:]}}
			}
			return err
		})
	}
	return samples, work.Wait()
}

// pair returns how much more the second of two policies costs in each episode, over time and at the end.
func (s settings) pair(c sim.Config, rng *rand.Rand) ([]float64, error) {
	weights := linear.Tuned("linear").Weights()
	other := make([]float64, len(weights))
	for i, w := range weights {
		change := noise * w * rng.NormFloat64()
		weights[i], other[i] = w+change, w-change
	}
	env, err := sim.New(c)
	if err != nil {
		return nil, err
	}
	out := make([]float64, trueEpisodes+episodes[len(episodes)-1])
	for i, w := range [][]float64{weights, other} {
		p, err := linear.New("linear", w)
		if err != nil {
			return nil, err
		}
		for e := range out {
			o, err := eval.Play(env, s.seed+uint64(e), p, nil)
			if err != nil {
				return nil, err
			}
			out[e] += float64(2*i-1) * (o.Cost + o.MeanCost)
		}
	}
	return out, nil
}
