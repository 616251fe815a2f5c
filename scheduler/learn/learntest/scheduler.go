// Package learntest has a scheduler that learns, for tests.
package learntest

import (
	"io"
	"slices"
	"testing"

	"gnnsched/internal/fatal"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/experience"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/neural"
	"gnnsched/scheduler/policy/supply"
	"gnnsched/scheduler/sim"
)

// Scheduler is a source of the steps of a scheduler that plays one episode of a scenario after another.
type Scheduler struct {
	Policy policy.Policy // places the pods from now on

	t      testing.TB
	env    *sim.Env
	table  supply.Table
	stars  *neural.KindStars
	scores []float32
	seed   uint64
	number uint64
	left   int
}

// NewScheduler returns a scheduler that makes so many steps.
func NewScheduler(t testing.TB, scenario string, p policy.Policy, steps int) *Scheduler {
	t.Helper()
	s, err := eval.Find(scenario)
	fatal.If(t, err)
	env, err := sim.New(s.Config)
	fatal.If(t, err)
	return &Scheduler{Policy: p, t: t, env: env, stars: neural.NewKindStars(nil, true), left: steps}
}

// Next implements experience.Source.
func (s *Scheduler) Next() (experience.Step, error) {
	if s.left--; s.left < 0 {
		return experience.Step{}, io.EOF
	}
	for s.number == 0 || s.env.Done() {
		s.seed++
		s.number++ // a gap
		fatal.If(s.t, s.env.Reset(s.seed))
	}
	s.number++
	snapshot, rows := s.env.Snapshot(), s.env.Candidates()
	s.table.Sync(snapshot)
	s.stars.Look(&s.table)
	seen, sums := s.stars.Seen()
	step := experience.Step{Actor: "host/gnn", Number: s.number, Cluster: sums}
	for i, k := range s.table.Kinds {
		step.Kinds = append(step.Kinds, experience.Kind{
			Key: k.Hash(), Seen: seen[i], Waits: 100 * k.Waiting * objective.Share(k.Pod.Requests, s.table.Capacity),
		})
	}
	s.scores = slices.Grow(s.scores[:0], len(rows))[:len(rows)]
	fatal.If(s.t, s.Policy.Score(snapshot, s.env.Pending(), rows, s.scores))
	s.env.Step(policy.Best(s.scores))
	return step, step.Validate()
}

// Steps returns so many steps of a scheduler that plays the scenario scarce8.
func Steps(t testing.TB, p policy.Policy, n int) (steps []experience.Step) {
	t.Helper()
	s := NewScheduler(t, "scarce8", p, n)
	for range n {
		step, err := s.Next()
		fatal.If(t, err)
		steps = append(steps, step)
	}
	return steps
}
