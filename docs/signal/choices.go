package main

import (
	"math/rand/v2"

	"gnnsched/scheduler/eval/rollout"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/linear"
	"gnnsched/scheduler/sim"
)

var (
	horizons = []int{15, 50, 150, 600, 0} // placements; the truth has the longest, and 0 stands for whole episodes
	futures  = []int{1, 4, 16}            // drawn for an estimate
)

const (
	longest     = 600
	trueFutures = 32
	within      = 200 // placements after the fill, in which the decision lies
)

// choices compares the first choice of linear with its second one and with the middle one, at one decision of each episode.
func (s settings) choices(c sim.Config) (near, far []sample, err error) {
	env, err := sim.New(c)
	if err != nil {
		return nil, nil, err
	}
	p := player{Rollout: rollout.Rollout{Policy: linear.Tuned("linear"), WaitCost: 0.3}, rng: rand.New(rand.NewPCG(s.seed, 1))}
	for d := range s.decisions {
		order, err := p.reach(env, s.seed+uint64(d))
		if err != nil {
			return nil, nil, err
		}
		if len(order) < 4 { // nothing lies between
			continue
		}
		second, err := p.compare(env, order[0], order[1])
		if err != nil {
			return nil, nil, err
		}
		middle, err := p.compare(env, order[0], order[len(order)/2])
		if err != nil {
			return nil, nil, err
		}
		near, far = append(near, second), append(far, middle)
	}
	return near, far, nil
}

// player plays on from a decision, in futures that a scheduler could expect.
type player struct {
	rollout.Rollout
	rng   *rand.Rand
	drawn sim.Env
}

// reach plays an episode to a random decision after the fill, and returns the candidates, the policy's first choice first.
func (p *player) reach(env *sim.Env, seed uint64) ([]int, error) {
	if err := env.Reset(seed); err != nil {
		return nil, err
	}
	for left := p.rng.IntN(within); !env.Done(); {
		scores, err := p.Scores(env)
		if err != nil {
			return nil, err
		}
		if env.Filled() {
			left--
		}
		if left < 0 {
			return rollout.Best(scores, len(scores)), nil
		}
		env.Step(policy.Best(scores))
	}
	return nil, nil
}

// compare plays both candidates in futures that differ from one another.
func (p *player) compare(env *sim.Env, first, second int) (sample, error) {
	s := sample{by: map[int][]float64{}}
	for f := range trueFutures + futures[len(futures)-1] {
		env.CopyTo(&p.drawn)
		if err := p.drawn.DrawFuture(p.rng); err != nil {
			return s, err
		}
		for _, p.Horizon = range horizons {
			if p.Horizon == 0 || f < trueFutures && p.Horizon != longest {
				continue
			}
			a, err := p.Cost(&p.drawn, first)
			if err != nil {
				return s, err
			}
			b, err := p.Cost(&p.drawn, second)
			if err != nil {
				return s, err
			}
			if f < trueFutures {
				s.truth = append(s.truth, b-a)
			} else {
				s.by[p.Horizon] = append(s.by[p.Horizon], b-a)
			}
		}
	}
	return s, nil
}
