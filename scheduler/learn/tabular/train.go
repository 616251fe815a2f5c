package tabular

import (
	"context"
	"fmt"
	"math/rand/v2"

	"gnnsched/internal/seeds"
	"gnnsched/scheduler/policy/tabular"
	"gnnsched/scheduler/sim"
)

// emptyEpisodes is how many episodes in a row may be without any placement.
const emptyEpisodes = 100

// Train learns a table in env for c.Steps placements. It resets env. The same configuration and
// environment give the same table. If ctx ends first, Train returns its error and no agent.
//
// The reward of a placement is the environment's times the number of nodes: one pod changes the
// objective of n nodes by about 1/n, and the table's cells do not depend on the number of nodes.
func Train(ctx context.Context, env *sim.Env, c tabular.Config) (*tabular.Agent, error) {
	agent, err := tabular.New(c)
	if err != nil {
		return nil, err
	}
	t := &trainer{
		agent: agent, config: c, values: agent.Values(), visits: make([]int64, len(agent.Values())),
		env: env, rng: rand.New(rand.NewPCG(c.Seed, stream)),
	}
	for step := 0; step < c.Steps; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := t.begin(); err != nil {
			return nil, err
		}
		step = t.episode(step)
	}
	return agent, nil
}

// stream separates the agent's random numbers from the simulator's.
const stream = 0x7461_6275

type trainer struct {
	agent   *tabular.Agent
	config  tabular.Config
	values  []float64 // the agent's, by cell
	visits  []int64   // by cell
	env     *sim.Env
	rng     *rand.Rand
	started uint64 // episodes
	cells   []int  // of the candidates at hand that preferences leave
}

// begin starts the next episode in which something can be placed.
func (t *trainer) begin() error {
	for range emptyEpisodes {
		seed := seeds.TrainingEpisode(t.config.Seed, t.started)
		t.started++
		if err := t.env.Reset(seed); err != nil {
			return fmt.Errorf("tabular agent: episode %d: %w", seed, err)
		}
		if !t.env.Done() {
			return nil
		}
	}
	return fmt.Errorf("tabular agent: nothing could be placed in %d episodes; make the nodes larger or the pods smaller", emptyEpisodes)
}

// episode learns from an episode until it ends or the steps are used up, and returns the number of
// the next step.
func (t *trainer) episode(step int) int {
	best := t.look()
	for ; step < t.config.Steps && !t.env.Done(); step++ {
		choice := best
		if t.rng.Float64() < epsilon(t.config, step) {
			choice = t.rng.IntN(len(t.cells))
		}
		cell, nodes := t.cells[choice], float64(len(t.env.Snapshot().Nodes))
		target := nodes * t.env.Step(int(t.env.Preferred()[choice]))
		if !t.env.Done() {
			best = t.look()
			target += t.config.Gamma * t.values[t.cells[best]]
		}
		t.learn(cell, target)
	}
	return step
}

// look sets the cells of the candidates that preferences leave, and returns the index of the best of
// them, one of the best at random.
func (t *trainer) look() (best int) {
	s := t.env.Snapshot()
	v := t.agent.View(s, t.env.Pending())
	t.cells = t.cells[:0]
	equal := 0
	rows := t.env.Candidates()
	for i, candidate := range t.env.Preferred() {
		cell := v.Cell(s.Nodes[rows[candidate]])
		t.cells = append(t.cells, cell)
		switch q, most := t.values[cell], t.values[t.cells[best]]; {
		case q > most:
			best, equal = i, 1
		case q == most:
			if equal++; t.rng.IntN(equal) == 0 {
				best = i
			}
		}
	}
	return best
}

// learn moves a cell's value towards target. The value is the mean of its targets at first, and an
// exponential average later.
func (t *trainer) learn(cell int, target float64) {
	t.visits[cell]++
	rate := max(t.config.LearningRate, 1/float64(t.visits[cell]))
	t.values[cell] += rate * (target - t.values[cell])
}
