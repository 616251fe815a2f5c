//go:build torch

package learn

import (
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/feature"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/encode"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/experience"
	"gnnsched/scheduler/learn/learntest"
	"gnnsched/scheduler/learn/online"
	"gnnsched/scheduler/learn/run"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/preference"
	"gnnsched/scheduler/sim"
)

// The returns of the online learner tell a good policy from a middling and a bad one as the cost over time
// does, for every variant from random weights and for every shipped network that learns online, with its objective. With the shaped
// reward they do not: its returns telescope, and a stream has no end.
func TestOnlineReturnsTellPoliciesApart(t *testing.T) {
	networks := map[string]*checkpoint.Checkpoint{}
	for _, variant := range variantNames() {
		networks["random "+variant] = learntest.Weights(Architecture(variant, 8), 1)
	}
	for _, name := range checkpoint.ShippedFor(checkpoint.ClusterGraph) {
		c, err := checkpoint.Shipped(name)
		fatal.If(t, err)
		if c.CheckOnline() == nil {
			networks[name] = c
		}
	}
	played := map[string]streams{}
	for name, start := range networks {
		j, err := onlineJob(start)
		fatal.If(t, err)
		objective, err := j.Environment.Objective.MarshalText()
		fatal.If(t, err)
		on := string(objective)
		if _, found := played[on]; !found {
			played[on] = rankedStreams(t, on)
		}
		if s := played[on].signal(t, j); !s.tells() {
			t.Errorf("%s: %+v", name, s)
		}
		j.Reward.Kind = run.ShapedReward
		if s := played[on].signal(t, j); s.tells() {
			t.Errorf("%s, shaped, half-life %v: %+v", name, j.HalfLife, s)
		}
		for _, gamma := range shapedDiscounts {
			j.HalfLife, j.Gamma = 0, gamma
			if s := played[on].signal(t, j); s.tells() {
				t.Errorf("%s, shaped, discount %v: %+v", name, gamma, s)
			}
		}
	}
	if want := []string{"balance", "energy,throttled=20"}; !slices.Equal(slices.Sorted(maps.Keys(played)), want) {
		t.Errorf("networks learn online for %v, want %v", slices.Sorted(maps.Keys(played)), want)
	}
}

// The same holds for throttled work, which no shipped network has as its objective: its reward comes with the next measurement, too.
func TestOnlineReturnsTellThrottledWorkApart(t *testing.T) {
	start, err := checkpoint.Shipped("acdqn-energy")
	fatal.If(t, err)
	j, err := onlineJob(start)
	fatal.If(t, err)
	played := rankedStreams(t, "throttled")
	if s := played.signal(t, j); !s.tells() {
		t.Errorf("%+v", s)
	}
	j.Reward.Kind = run.ShapedReward
	if s := played.signal(t, j); s.tells() {
		t.Errorf("shaped: %+v", s)
	}
}

// streams are the steps of several policies that go on from the same states, and their costs over time.
type streams struct {
	steps [3][][]experience.Step
	cost  [3]float64
}

// streamScenario names the scenario in which policies for an objective play.
var streamScenario = map[string]string{"balance": "mixed", "throttled": "blind", "energy,throttled=20": "energy"}

// rankedStreams plays the ranked policies of an objective on paired episodes.
func rankedStreams(t *testing.T, objective string) (out streams) {
	t.Helper()
	scenario, err := eval.Find(streamScenario[objective])
	fatal.If(t, err)
	c := scenario.Config
	fatal.If(t, c.Objective.UnmarshalText([]byte(objective)))
	if len(c.Pools) == 0 {
		c.Nodes = sim.IntRange{Min: 32, Max: 32} // so that streams are long and their end has no weight
	}
	if objective != "balance" {
		c.Preferences = preference.Declared // as in measured
	}
	for seed := range uint64(6) {
		filled := learntest.Started(t, c, seed)
		good := named(t, ranked[objective][0], policy.Setting{Seed: seed})
		for !filled.Filled() {
			filled.Step(choiceOf(t, filled, good))
		}
		for i, name := range ranked[objective] {
			var env sim.Env
			filled.CopyTo(&env)
			out.steps[i] = append(out.steps[i], stepsOf(t, &env, named(t, name, policy.Setting{Seed: seed})))
			out.cost[i] += env.Outcome().MeanCost
		}
	}
	return out
}

// stepsOf plays an episode to its end and returns the steps of a scheduler, of which one is lost now and then.
func stepsOf(t *testing.T, env *sim.Env, p policy.Policy) (steps []experience.Step) {
	t.Helper()
	encoder := encode.New(feature.Default())
	for number := uint64(1); !env.Done(); number++ {
		at := choiceOf(t, env, p)
		s := experience.Step{
			Number: number, Features: feature.Default().Hash(), Action: at, Before: env.Cost(),
			State: encoder.Encode(env.Snapshot(), env.Pending(), env.Candidates()).Clone(),
		}
		s.After = s.Before - env.Step(at)
		if number%97 > 0 {
			steps = append(steps, s)
		}
	}
	return steps
}

// signal returns the returns of the states after the fill under each policy, over all episodes.
func (in streams) signal(t *testing.T, j Job) signal {
	t.Helper()
	s := signal{cost: in.cost}
	for i, episodes := range in.steps {
		for _, steps := range episodes {
			got := rewarded(t, j, steps)
			total, size := 0.0, 0.0
			for k := len(got) - 2; k >= 0; k-- {
				// At a cut the return goes on from the next known state, as with a critic that is exact.
				if got[k+1].Contiguous {
					total = got[k+1].Reward + j.Discount()*total
					size += math.Abs(got[k+1].Reward)
				}
			}
			s.returns[i] += total
			s.reward = max(s.reward, size/float64(len(got)))
		}
	}
	return s
}

// rewarded returns the steps as a learner gets them.
func rewarded(t *testing.T, j Job, steps []experience.Step) []online.Step {
	t.Helper()
	o, err := NewOnlineTrainer(j)
	fatal.If(t, err)
	var l listening
	o.Method = &l
	fatal.If(t, o.Learn(&recorded{steps}, learntest.Weights(Architecture(j.Variant, 8), 1)))
	return l.steps
}

// recorded is a source of given steps.
type recorded struct{ steps []experience.Step }

func (r *recorded) Next() (s experience.Step, err error) {
	if len(r.steps) == 0 {
		return s, io.EOF
	}
	s, r.steps = r.steps[0], r.steps[1:]
	return s, nil
}

// listening is a Method and a Learner that keeps its steps and learns nothing.
type listening struct {
	online.Learner
	steps []online.Step
}

func (l *listening) NewLearner(run.Settings, *checkpoint.Checkpoint, *rand.Rand, *run.Figures) (online.Learner, error) {
	return l, nil
}

func (l *listening) Take(s online.Step) (int, error) {
	l.steps = append(l.steps, s)
	return 0, nil
}

func (*listening) Keep() error           { return nil }
func (*listening) Habits() online.Habits { return online.Habits{JudgeEvery: 1} }
func (*listening) Drop()                 {}
