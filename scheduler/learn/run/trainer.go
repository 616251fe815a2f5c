//go:build torch

package run

import (
	"context"
	"errors"
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
	envs, err := NewEnvironments(t.Settings, t.Environments, t.Method.Count(), t.Start.Manifest.Architecture, &t.figures)
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
	return fmt.Sprintf("%s, loss %.4f, %.1f unscheduled", phase, last(loss), last(tagUnscheduled))
}

// Method is a way to learn, with its hyperparameters.
type Method interface {
	// Count returns the number of environments that the agent acts in.
	Count() int
	// NewAgent returns an agent that starts from the weights of start. The environments have not begun yet.
	NewAgent(s Settings, e *Environments, start *checkpoint.Checkpoint) (Agent, error)
}

// Agent acts in its environments and learns from its placements, each of which is a step. Between two rounds, the environments begin
// to follow its network.
type Agent interface {
	Learner
	// Phase returns what the agent does at a step, in a word or two, and the tag of the loss that progress shows.
	Phase(step int) (name, loss string)
}

// actor is an agent with its environments.
type actor struct {
	Agent
	envs *Environments
}

// Round implements Learner.
func (a *actor) Round(step, limit int) (int, error) {
	n, err := a.Agent.Round(step, limit)
	if err != nil {
		return 0, err
	}
	return n, a.follow()
}

// follow makes the agent's network act.
func (a *actor) follow() error {
	c, err := a.Checkpoint()
	if err != nil {
		return err
	}
	return a.envs.Follow(c)
}

// State implements Learner: the environments' comes last.
func (a *actor) State() ([]any, error) {
	envs, err := a.envs.state()
	own, failed := a.Agent.State()
	return append(own, envs), errors.Join(err, failed)
}

// Restore implements Learner.
func (a *actor) Restore(read func(into ...any) error) error {
	var envs environmentsState
	if err := a.Agent.Restore(func(into ...any) error { return read(append(into, &envs)...) }); err != nil {
		return err
	}
	if err := a.envs.restore(envs); err != nil {
		return err
	}
	return a.follow()
}
