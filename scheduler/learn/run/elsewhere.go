package run

import (
	"fmt"
	"slices"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/scheduler/sim"
)

// Rollouts are those of a round, as data. Whoever has the data can play them, with the same costs to the last bit.
type Rollouts struct {
	Net       *checkpoint.Checkpoint // plays them
	Configs   []sim.Config
	Decisions []Decision
	Rules
}

// Rules are the same for all rollouts of a run.
type Rules struct {
	Horizon  int     // placements
	WaitCost float64 // of rollout.Rollout
}

// Decision is a decision in an episode, and the candidates to try there.
type Decision struct {
	Config int // of the environment, in Rollouts.Configs
	Env    int // number of the environment
	Seed   uint64
	Before []int32 // the choices so far
	Tried  []int32 // none: nothing is to be played
}

// Elsewhere plays rollouts in other processes.
type Elsewhere interface {
	// Costs returns what the rollouts of each decision cost, in the order of Decision.Tried.
	Costs(r Rollouts) ([][]float64, error)
}

// Rollouts describes rollouts of the acting network from the decisions at hand. tried has the candidates of each environment.
func (e *Environments) Rollouts(tried [][]int32, horizon int, waitCost float64) Rollouts {
	r := Rollouts{Net: e.acting, Configs: e.configs, Rules: Rules{horizon, waitCost}}
	for i, env := range e.All {
		r.Decisions = append(r.Decisions, Decision{i / e.group % len(e.configs), i, env.Seed, env.Actions, tried[i]})
	}
	return r
}

// NewReplay returns an environment for decisions of other processes, which networks of an architecture meet.
func NewReplay(c sim.Config, a checkpoint.Architecture) (*Environment, error) {
	all, err := NewEnvironments(Settings{}, []sim.Config{c}, Layout{Count: 1, Group: 1, All: true}, a, nil)
	if err != nil {
		return nil, err
	}
	return all.All[0], nil
}

// Reach brings the environment to a decision, with net as the acting network. If it is earlier in the same episode, it goes on from there.
func (e *Environment) Reach(d Decision, net *infer.Network) error {
	if at := len(e.Actions); e.Seed != d.Seed || at > len(d.Before) || !slices.Equal(e.Actions, d.Before[:at]) {
		if err := e.reset(d.Seed); err != nil {
			return err
		}
	}
	e.follow(net)
	if err := e.repeat(d.Before[len(e.Actions):]); err != nil {
		return err
	}
	for _, c := range d.Tried {
		if c < 0 || int(c) >= e.Candidates() {
			return fmt.Errorf("training episode %d has no candidate %d after %d placements", d.Seed, c, len(d.Before))
		}
	}
	return nil
}
