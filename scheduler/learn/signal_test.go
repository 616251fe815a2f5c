package learn

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/learn/run"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/neural"
	"gnnsched/scheduler/policy/preference"
	"gnnsched/scheduler/sim"
)

// ranked holds a good, a middling and a bad policy for each objective of the shipped networks.
var ranked = map[string][3]string{
	"balance": {"linear", "random", "most-allocated"},

	"energy,throttled=20": {"linear-energy", "kube-scheduler", "best-fit"},
	"throttled":           {"linear-usage", "kube-scheduler", "most-allocated"},
	"traffic,overload":    {"ahead:traffic+overload+balance=0.1", "affinity:node", "kube-scheduler"},
}

// shapedDiscounts are those with which networks once learned from the shaped reward (docs/adr/0013-what-the-shaped-reward-did.md).
var shapedDiscounts = []float64{0.9, 0.99}

// signal says how the policies differ when they go on from the same states.
type signal struct {
	cost    [3]float64 // the objective over time
	returns [3]float64 // as a learner computes them
	reward  float64    // mean size of a single one
}

// ranks reports whether the returns rank the policies as the objective does.
func (s signal) ranks() bool {
	return s.cost[0] < s.cost[1] && s.cost[1] < s.cost[2] && s.returns[0] > s.returns[1] && s.returns[1] > s.returns[2]
}

// tells reports whether the returns rank the policies, and differ by more than ten
// rewards. Smaller differences are lost in the noise of what arrives.
func (s signal) tells() bool { return s.ranks() && s.returns[0]-s.returns[2] > 10*s.reward }

// Every network that ships learned from rollouts, and they tell good policies from bad ones. The returns of
// the shaped reward do not, with the discounts of networks before: it telescopes to the cost at the end of the episode, whose
// discount is all but 0.
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
			if j.Method != byRollouts {
				t.Fatal("it does not learn from rollouts")
			}
			s := measured(t, j, rolledOut)
			// Most idle devices are idle under every policy, so a single cost is large beside what policies differ by.
			if idle := strings.Contains(j.Environment.Objective.Name(), "gpu-idle"); !s.tells() && !(idle && s.ranks()) {
				t.Errorf("rollouts: %+v", s)
			}
			for _, gamma := range shapedDiscounts {
				j.Reward.Kind, j.Gamma = run.ShapedReward, gamma
				if s := measured(t, j, discounted); s.tells() {
					t.Errorf("shaped reward, discount %v: %+v", j.Gamma, s)
				}
			}
		})
	}
}

// measured plays on with each policy from a state in the fill and from one after it.
func measured(t *testing.T, j Job, returns func(*testing.T, Job, *sim.Env, policy.Policy, *signal) float64) (s signal) {
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
	if string(objective) != "balance" {
		c.Preferences = preference.Declared // a cluster whose replicas are spread cannot be packed
	}
	env, err := sim.New(c)
	fatal.If(t, err)
	for seed := range uint64(6) {
		fatal.If(t, env.Reset(seed))
		arrivals := len(env.Plan())
		begin(t, env, names[0], arrivals/6+int(seed%2)*arrivals/3)
		for i, name := range names {
			p := named(t, name, policy.Setting{Seed: seed, Typical: env.Typical()})
			s.returns[i] += returns(t, j, env, p, &s)
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

// discounted is the sum of the discounted rewards to the end of the episode: what n-step returns and
// advantages estimate.
func discounted(t *testing.T, j Job, env *sim.Env, p policy.Policy, s *signal) (sum float64) {
	t.Helper()
	var e sim.Env
	env.CopyTo(&e)
	factor, size, steps := 1.0, 0.0, 0.0
	for ; !e.Done(); steps++ {
		c := run.Change{Before: e.Cost()}
		c.Fall = e.Step(choiceOf(t, &e, p))
		c.After, c.Last = e.Cost(), e.Done()
		r := j.Reward.Unscaled(c, j.Gamma)
		sum, size = sum+factor*r, size+math.Abs(r)
		factor *= j.Gamma
	}
	s.reward = max(s.reward, size/steps)
	return sum
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
