//go:build torch

package run

import (
	"context"
	"fmt"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/scheduler/policy/neural"
	"gnnsched/scheduler/sim"
)

// Trainer runs reinforcement learning in the simulator. The fields are set before Train, which is
// called once. The settings must be valid.
type Trainer struct {
	Settings
	Selection
	Method       Method
	Environments []sim.Config           // of which the method's environments take one each, in turn
	Start        *checkpoint.Checkpoint // its manifest holds the job as JSON; Resume must have the same
	HeldOut      *HeldOut               // evaluates the network during the run
	Elsewhere    Elsewhere              // plays rollouts; nil: this process does
	Options

	agent   Agent
	figures Figures
}

const reportEvery = 500

// Train runs until the steps are done or ctx ends, and returns the network with the best
// evaluation; see Loop.Run.
func (t *Trainer) Train(ctx context.Context) (*checkpoint.Checkpoint, Evaluation, error) {
	l := Loop{
		Options: t.Options, Job: t.Start.Manifest.Config, Unit: "step", Steps: t.Steps,
		EvaluateEvery: t.EvaluateEvery, ReportEvery: reportEvery, New: t.newAgent, Evaluate: t.evaluate, Describe: t.describe,
		Figures: &t.figures,
	}
	return l.Run(ctx)
}

// newAgent returns the method's agent in its environments.
func (t *Trainer) newAgent() (Learner, error) {
	envs, err := NewEnvironments(t.Settings, t.Environments, t.Method.Layout(), t.Start.Manifest.Architecture, &t.figures)
	if err != nil {
		return nil, err
	}
	envs.Elsewhere = t.Elsewhere
	if t.agent, err = t.Method.NewAgent(t.Settings, envs, t.Start); err != nil {
		return nil, err
	}
	if err := envs.Begin(t.Start); err != nil {
		t.agent.Drop()
		return nil, err
	}
	return &actor{t.agent, envs}, nil
}

// evaluate plays the held-out episodes with a network.
func (t *Trainer) evaluate(c *checkpoint.Checkpoint) (Evaluation, error) {
	net, err := infer.New(c)
	if err != nil {
		return Evaluation{}, err
	}
	s, err := t.HeldOut.Evaluate(neural.New("learning", net, nil), false)
	total := s.Total(t.Unscheduled)
	return Evaluation{
		Total: total, Figures: s.Figures("heldOut"), Text: s.String(), Short: fmt.Sprintf("%.5f", total),
		Curves: []Scalar{{tagEvalCost, s.Cost}, {tagEvalMean, s.MeanCost}, {tagEvalLeft, s.Unscheduled}},
	}, err
}

func (t *Trainer) describe(step int) string {
	phase, loss := t.agent.Phase(step)
	last := t.figures.Last
	return fmt.Sprintf("%s, return %.2f, loss %.4f, epsilon %.2f", phase, last(tagReturn), last(loss), last(TagEpsilon))
}
