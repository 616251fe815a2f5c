package learn

import (
	"os"
	"path/filepath"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/neural"
	"gnnsched/scheduler/policy/preference"
	"gnnsched/scheduler/sim"
)

// ranked holds a good, a middling and a bad policy for each objective of the shipped networks.
var ranked = map[string][3]string{
	"energy,throttled=20": {"linear-energy", "kube-scheduler", "best-fit"},
	"traffic,overload":    {"ahead:traffic+overload+balance=0.1", "affinity:node", "kube-scheduler"},
}

// signal says how the policies differ when they go on from the same states.
type signal struct {
	cost    [3]float64 // the objective over time
	returns [3]float64 // as a learner computes them
	reward  float64    // mean size of a single one
}

// tells reports whether the returns rank the policies as the objective does, and differ by more than ten
// times what one placement costs. Smaller differences are lost in the noise of what arrives.
func (s signal) tells() bool {
	ranks := s.cost[0] < s.cost[1] && s.cost[1] < s.cost[2] && s.returns[0] > s.returns[1] && s.returns[1] > s.returns[2]
	return ranks && s.returns[0]-s.returns[2] > 10*s.reward
}

// Rollouts tell good policies from bad ones in every run that scores candidates.
func TestReturnsTellPoliciesApart(t *testing.T) {
	files, err := filepath.Glob("runs/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no runs", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			fatal.If(t, err)
			j, err := ReadJob(file, text, "gnn")
			fatal.If(t, err)
			if s := measured(t, j); !s.tells() {
				t.Errorf("%+v", s)
			}
		})
	}
}

// measured plays on with each policy from a state in the fill and from one after it.
func measured(t *testing.T, j Job) (s signal) {
	t.Helper()
	objective, err := j.Environment.Objective.MarshalText()
	fatal.If(t, err)
	names, ok := ranked[string(objective)]
	if !ok {
		t.Fatalf("no policies for %s", objective)
	}
	c := j.Environment
	if len(c.Pools) == 0 {
		c.Nodes = sim.IntRange{Min: 16, Max: 16}
	}
	c.Preferences = preference.Declared // a cluster whose replicas are spread cannot be packed
	env, err := sim.New(c)
	fatal.If(t, err)
	for seed := range uint64(6) {
		fatal.If(t, env.Reset(seed))
		arrivals := len(env.Plan())
		begin(t, env, names[0], arrivals/6+int(seed%2)*arrivals/3)
		for i, name := range names {
			p := named(t, name, policy.Setting{Seed: seed, Typical: env.Typical()})
			s.returns[i] += rolledOut(t, j, env, p, &s)
			s.cost[i] += costOverTime(t, env, p)
		}
	}
	return s
}

func named(t *testing.T, name string, s policy.Setting) policy.Policy {
	t.Helper()
	if h, err := heuristic.Find(name); err == nil {
		return h.New(s)
	}
	c, err := checkpoint.Shipped(name)
	fatal.If(t, err)
	net, err := infer.New(c)
	fatal.If(t, err)
	return neural.New(name, net, s.Typical)
}

// begin makes the first n placements by a policy.
func begin(t *testing.T, env *sim.Env, name string, n int) {
	t.Helper()
	for p := named(t, name, policy.Setting{}); n > 0; n-- {
		env.Step(choiceOf(t, env, p))
	}
}

func choiceOf(t *testing.T, env *sim.Env, p policy.Policy) int {
	t.Helper()
	scores, err := eval.Scores(env, p, nil)
	fatal.If(t, err)
	return policy.Best(scores)
}

// costOverTime returns the mean of the objective to the end of the episode.
func costOverTime(t *testing.T, env *sim.Env, p policy.Policy) float64 {
	t.Helper()
	var e sim.Env
	env.CopyTo(&e)
	var sum, steps float64
	for ; !e.Done(); steps++ {
		e.Step(choiceOf(t, &e, p))
		sum += e.Cost()
	}
	return sum / steps
}

// rolledOut is minus the cost of a rollout.
func rolledOut(t *testing.T, j Job, env *sim.Env, p policy.Policy, s *signal) float64 {
	t.Helper()
	r := eval.Rollout{Policy: p, Horizon: j.Rollouts.Horizon, WaitCost: j.Rollouts.WaitPlacements}
	cost, err := r.Cost(env, choiceOf(t, env, p))
	fatal.If(t, err)
	s.reward = max(s.reward, cost/float64(r.Horizon))
	return -cost
}
