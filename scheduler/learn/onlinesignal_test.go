//go:build torch

package learn

import (
	"io"
	"math"
	"math/rand/v2"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/feature"
	"gnnsched/scheduler/encode"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/contender"
	"gnnsched/scheduler/experience"
	"gnnsched/scheduler/learn/learntest"
	"gnnsched/scheduler/learn/online"
	"gnnsched/scheduler/learn/run"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/sim"
)

// The returns of the online learner tell a good policy from a middling and a bad one as the cost over time
// does, for every variant from random weights and for every shipped network. With the shaped reward, with which
// the shipped networks were trained, they do not: its returns telescope, and a stream has no end.
func TestOnlineReturnsTellPoliciesApart(t *testing.T) {
	streams := rankedStreams(t)
	for _, variant := range Variants() {
		shipped, err := checkpoint.Shipped(variant)
		if err != nil {
			t.Fatal(err)
		}
		for name, start := range map[string]*checkpoint.Checkpoint{
			"random": learntest.Weights(Architecture(variant, 8), 1), "shipped": shipped,
		} {
			j, err := OnlineJob(start)
			if err != nil {
				t.Fatal(err)
			}
			if s := streams.signal(t, j); !s.tells() {
				t.Errorf("%s, %s: %+v", variant, name, s)
			}
			j.Reward.Kind = run.ShapedReward
			if s := streams.signal(t, j); s.tells() {
				t.Errorf("%s, %s, shaped: %+v", variant, name, s)
			}
		}
	}
}

// streams are the steps of several policies that go on from the same states, and their costs over time.
type streams struct {
	steps [3][][]experience.Step
	cost  [3]float64
}

// rankedStreams plays a good, a middling and a bad policy on paired episodes.
func rankedStreams(t *testing.T) (out streams) {
	t.Helper()
	mixed, err := eval.Find("mixed")
	if err != nil {
		t.Fatal(err)
	}
	c := mixed.Config
	c.Nodes = sim.IntRange{Min: 12, Max: 12}
	for seed := range uint64(6) {
		filled := learntest.Started(t, c, seed)
		good := contenderPolicy(t, "linear", seed)
		for !filled.Filled() {
			filled.Step(chosen(t, filled, good))
		}
		for i, name := range []string{"linear", "random", "most-allocated"} {
			var env sim.Env
			filled.CopyTo(&env)
			p, encoder := contenderPolicy(t, name, seed), encode.New(feature.Default())
			var steps []experience.Step
			for number := uint64(1); !env.Done(); number++ {
				choice := chosen(t, &env, p)
				s := experience.Step{
					Number: number, Features: feature.Default().Hash(), Action: choice, Before: env.Cost(),
					State: encoder.Encode(env.Snapshot(), env.Pending(), env.Candidates()).Clone(),
				}
				s.After = s.Before - env.Step(choice)
				if number%97 > 0 { // a step is lost now and then
					steps = append(steps, s)
				}
			}
			out.steps[i] = append(out.steps[i], steps)
			out.cost[i] += env.Outcome().MeanCost
		}
	}
	return out
}

func contenderPolicy(t *testing.T, name string, seed uint64) policy.Policy {
	t.Helper()
	c, err := contender.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return c.New(policy.Setting{Seed: seed})
}

func chosen(t *testing.T, env *sim.Env, p policy.Policy) int {
	t.Helper()
	scores, err := eval.Scores(env, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	return policy.Best(scores)
}

// onlineSignal says how the returns of three policies differ.
type onlineSignal struct {
	cost, returns [3]float64
	reward        float64 // mean size of a single one
}

// tells reports whether the returns rank the policies as the cost over time does, and lie apart by more than ten
// rewards. Smaller differences are lost in the noise of what arrives.
func (s onlineSignal) tells() bool {
	return s.cost[0] < s.cost[1] && s.cost[1] < s.cost[2] &&
		s.returns[0] > s.returns[1] && s.returns[1] > s.returns[2] && s.returns[0]-s.returns[2] > 10*s.reward
}

// signal returns the returns of the states after the fill under each policy, over all episodes.
func (in streams) signal(t *testing.T, j Job) onlineSignal {
	t.Helper()
	s := onlineSignal{cost: in.cost}
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
	if err != nil {
		t.Fatal(err)
	}
	var l listening
	o.Method = &l
	if err := o.Learn(&recorded{steps}, learntest.Weights(Architecture(j.Variant, 8), 1)); err != nil {
		t.Fatal(err)
	}
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

func (*listening) Keep(*checkpoint.Checkpoint) error { return nil }
func (*listening) JudgeEvery() int                   { return 1 }
func (*listening) Stale() int                        { return 0 }
func (*listening) LossTag() string                   { return "" }
func (*listening) FigureTags() []string              { return nil }
func (*listening) Drop()                             {}
