//go:build torch

package run

import (
	"context"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/scheduler/policy/neural"
	"gnnsched/scheduler/sim"
)

// Plan says what a run learns, on what, and from which weights. It must be valid.
type Plan struct {
	Settings
	Selection
	Method      Method
	Environment sim.Config
	Start       *checkpoint.Checkpoint // its manifest holds the job as JSON; Resume must have the same
}

// Progress is how far a run is.
type Progress struct {
	Pace
	Phase   string // phase of the agent, in a word or two
	Epsilon float64
	Loss    float64 // mean over the updates since the last report
	Return  float64 // mean undiscounted scaled return of the episodes since the last report
}

// Trainer runs reinforcement learning in the simulator. The fields are set before Train, which is
// called once.
type Trainer struct {
	Plan
	Options[Score]
	HeldOut  *HeldOut       // evaluates the network during the run
	Progress func(Progress) // called about every reportEvery steps; may be nil

	agent   Agent
	figures Figures
}

const reportEvery = 500

// Train runs until the steps are done or ctx ends, and returns the network with the best
// evaluation; see Loop.Run.
func (t *Trainer) Train(ctx context.Context) (*checkpoint.Checkpoint, Score, error) {
	l := Loop[Score]{
		Options: t.Options, Job: t.Start.Manifest.Config, Steps: t.Steps, EvaluateEvery: t.EvaluateEvery, ReportEvery: reportEvery,
		New: t.newAgent, Evaluate: t.evaluate, Describe: describe,
		Total:   func(s Score) float64 { return s.Total(t.Unscheduled) },
		Figures: &t.figures, Progress: t.report,
	}
	l.Evaluated = t.evaluated
	return l.Run(ctx)
}

// newAgent returns the method's agent in its environments.
func (t *Trainer) newAgent() (Learner[Score], error) {
	envs, err := NewEnvironments(t.Settings, t.Environment, t.Method.Layout(), t.Start.Manifest.Architecture, &t.figures)
	if err != nil {
		return nil, err
	}
	t.agent, err = t.Method.NewAgent(t.Settings, envs, t.Start)
	return t.agent, err
}

// evaluate plays the held-out episodes with a network.
func (t *Trainer) evaluate(c *checkpoint.Checkpoint) (Score, error) {
	net, err := infer.New(c)
	if err != nil {
		return Score{}, err
	}
	return t.HeldOut.Evaluate(neural.New("learning", net), false)
}

// describe returns the figures of a network for its manifest.
func describe(step int, s Score) map[string]float64 {
	out := s.Figures("heldOut")
	out["step"] = float64(step)
	return out
}

func (t *Trainer) evaluated(step int, s Score) {
	if t.Recorder != nil {
		t.Recorder.Scalar(tagEvalCost, step, s.Cost)
		t.Recorder.Scalar(tagEvalMean, step, s.MeanCost)
		t.Recorder.Scalar(tagEvalLeft, step, s.Unscheduled)
	}
	if t.Evaluated != nil {
		t.Evaluated(step, s)
	}
}

func (t *Trainer) report(p Pace) {
	if t.Progress == nil {
		return
	}
	t.Progress(Progress{
		Pace: p, Phase: t.agent.Phase(p.Step), Epsilon: t.figures.Last(TagEpsilon),
		Loss: t.figures.Last(t.agent.LossTag(p.Step)), Return: t.figures.Last(tagReturn),
	})
}
