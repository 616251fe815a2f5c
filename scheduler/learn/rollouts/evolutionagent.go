//go:build torch

package rollouts

import (
	"bytes"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/scheduler/learn/run"
	"gnnsched/scheduler/sim"
)

// evolutionAgent tries generations of networks. Every environment plays one episode a generation, with each of them.
type evolutionAgent struct {
	search
	run.Settings
	config  Evolution
	envs    *run.Environments
	start   *checkpoint.Checkpoint
	learned []place
}

var _ run.Method = Evolution{}

// Layout implements run.Method.
func (c Evolution) Layout() run.Layout { return run.Layout{Count: c.Episodes, Group: 1, All: true} }

// NewAgent implements run.Method.
func (c Evolution) NewAgent(s run.Settings, e *run.Environments, start *checkpoint.Checkpoint) (run.Agent, error) {
	learned := c.learned(start.Manifest.Architecture)
	return &evolutionAgent{newSearch(start, learned), s, c, e, start, learned}, nil
}

// Round implements run.Agent: a generation.
func (a *evolutionAgent) Round(step, _ int) (int, error) {
	noise, tries := a.tries(a.envs.Rand, a.config)
	nets := []*infer.Network{}
	for _, weights := range append([][]float64{a.Mean}, tries...) {
		net, err := infer.New(with(a.start, a.learned, weights))
		if err != nil {
			return 0, err
		}
		nets = append(nets, net)
	}
	outcomes, err := a.play(nets)
	if err != nil {
		return 0, err
	}
	losses, placed := make([]float64, len(tries)), 0
	for _, of := range outcomes {
		for i, o := range of[1:] {
			l := o.Relative(of[0], a.config.Waits)
			losses[i] += l / float64(len(outcomes))
			placed += o.Placed
		}
	}
	rate := a.LearningRateAt(step)
	a.move(noise, losses, rate, a.config.Averaging)
	a.envs.Figures.Add(tagEvolutionLoss, slices.Min(losses))
	a.envs.Figures.Add(run.TagLearningRate, rate)
	return placed, nil
}

// play returns the outcomes of all networks in the next episode of each environment, on all processors.
func (a *evolutionAgent) play(nets []*infer.Network) ([][]sim.Outcome, error) {
	out := make([][]sim.Outcome, len(a.envs.All))
	var work errgroup.Group
	work.SetLimit(runtime.GOMAXPROCS(0))
	for k, env := range a.envs.All {
		if err := env.Begin(); err != nil {
			return nil, err
		}
		work.Go(func() error {
			for _, net := range nets {
				o, err := env.Play(net)
				if err != nil {
					return err
				}
				out[k] = append(out[k], o)
			}
			return nil
		})
	}
	return out, work.Wait()
}

// tagEvolutionLoss is the tag of the best network's loss in a generation, relative to the network that it began with.
const tagEvolutionLoss = "losses/es_loss"

// Checkpoint implements run.Agent.
func (a *evolutionAgent) Checkpoint() (*checkpoint.Checkpoint, error) {
	return with(a.start, a.learned, a.Slow), nil
}

// Phase implements run.Agent.
func (a *evolutionAgent) Phase(int) (name, loss string) { return a.config.Name(), tagEvolutionLoss }

// State implements run.Agent.
func (a *evolutionAgent) State() ([]any, error) {
	var b bytes.Buffer
	err := a.start.Write(&b)
	return []any{a.search, b.Bytes()}, err
}

// Restore implements run.Agent.
func (a *evolutionAgent) Restore(read func(into ...any) error) (err error) {
	var start []byte
	if err = read(&a.search, &start); err == nil {
		a.start, err = checkpoint.Read(bytes.NewReader(start))
	}
	return err
}

// Drop implements run.Agent.
func (a *evolutionAgent) Drop() {}
