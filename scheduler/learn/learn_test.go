package learn

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"gnnsched/gnn/graph"
	"gnnsched/scheduler/sim"
)

func smallEnv() sim.Config {
	e := BalanceEnv()
	e.Nodes, e.Turnover = sim.IntRange{Min: 4, Max: 8}, 0
	return e
}

func TestConfigValidate(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Config){
		"variant": func(c *Config) { c.Variant = "cnn" },
		"hidden":  func(c *Config) { c.Hidden = 0 },
		"seed":    func(c *Config) { c.Seed = 1 << 30 },
		"gamma":   func(c *Config) { c.Gamma = 1.1 },
		"NaN":     func(c *Config) { c.LearningRate = math.NaN() },
		"buffer":  func(c *Config) { c.DQN.ReplayBufferSize = c.BatchSize - 1 },
	} {
		c := DefaultConfig()
		spoil(&c)
		if c.Validate() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestSchedules(t *testing.T) {
	c := DefaultConfig()
	c.Steps, c.DQN.InitEpsilon, c.DQN.FinalEpsilon, c.DQN.EpsilonShare, c.Imitation.Share = 100, 1, 0.1, 0.5, 0
	for step, want := range map[int]float64{0: 1, 25: 0.55, 50: 0.1, 99: 0.1} {
		if got := c.epsilon(step); math.Abs(got-want) > 1e-12 {
			t.Errorf("epsilon(%d) = %v, want %v", step, got, want)
		}
	}
	if c.imitation(0) != 0 || c.marginWeight(0) != 0 {
		t.Error("a share of 0 still imitates")
	}
	c.Imitation.Share, c.Imitation.MarginWeight, c.Imitation.MarginFloor = 0.5, 2, 0.1
	for step, want := range map[int]float64{0: 2, 25: 1, 49: 0.1, 99: 0.1} {
		if got := c.marginWeight(step); math.Abs(got-want) > 1e-12 {
			t.Errorf("margin weight at %d is %v, want %v", step, got, want)
		}
	}
	c.DQN.EpsilonDecay = 0.5
	for step, want := range map[int]float64{0: 1, 1: 0.5, 99: 0.1} {
		if got := c.epsilon(step); math.Abs(got-want) > 1e-12 {
			t.Errorf("decaying epsilon(%d) = %v, want %v", step, got, want)
		}
	}
	if got := c.learningRate(100); math.Abs(got-c.LearningRate/10) > 1e-12 {
		t.Errorf("learning rate at the end %v", got)
	}
}

func TestPhases(t *testing.T) {
	c := DefaultConfig()
	c.Steps, c.Imitation.Share, c.Imitation.Warmup = 100, 0.25, 0.25
	for step, want := range map[int]phase{0: cloning, 24: cloning, 25: warmingUp, 49: warmingUp, 50: improving, 99: improving} {
		if got := c.phase(step); got != want {
			t.Errorf("at %d: %v, want %v", step, phaseNames[got], phaseNames[want])
		}
	}
	for step, want := range map[int]float64{50: 1, 75: 0.5, 100: 0, 120: 0} {
		if got := c.improved(step); math.Abs(got-want) > 1e-12 {
			t.Errorf("share left at %d: %v, want %v", step, got, want)
		}
	}
}

// Each transition's return and discount are those of the definition, whatever n and the
// episode's length.
func TestNStep(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, steps := rapid.IntRange(1, 6).Draw(t, "n"), rapid.IntRange(1, 12).Draw(t, "steps")
		s, states := nStep{n: n, gamma: 0.5}, make([]*graph.Graph, steps+1)
		rewards := make([]float64, steps)
		var got []Transition
		for i := range states {
			states[i] = &graph.Graph{}
		}
		for i := range steps {
			if tr, ok := s.ready(states[i]); ok {
				got = append(got, tr)
			}
			s.begin(states[i], i, -1)
			rewards[i] = float64(rapid.IntRange(-4, 4).Draw(t, "reward"))
			s.reward(rewards[i])
		}
		s.end(func(tr Transition) { got = append(got, tr) })
		if len(got) != steps {
			t.Fatalf("%d transitions of %d steps", len(got), steps)
		}
		for i, tr := range got {
			want := 0.0
			for k := i; k < min(i+n, steps); k++ {
				want += math.Pow(0.5, float64(k-i)) * rewards[k]
			}
			discount, next := 0.0, (*graph.Graph)(nil)
			if i+n < steps {
				discount, next = math.Pow(0.5, float64(n)), states[i+n]
			}
			if tr.Action != i || tr.State != states[i] || tr.Next != next || math.Abs(tr.Return-want) > 1e-12 || tr.Discount != discount {
				t.Fatalf("transition %d of %d, n=%d: %+v; want return %v, discount %v", i, steps, n, tr, want, discount)
			}
		}
	})
}

// Drawing follows the priorities, and only what is kept is drawn.
func TestReplayDrawsByPriority(t *testing.T) {
	r, rng := NewReplay(5, 1), rand.New(rand.NewPCG(1, 2))
	for i := range 8 { // 3 to 7 stay
		r.Add(Transition{Action: i})
	}
	slots := []int{0, 1, 2, 3, 4} // hold 5, 6, 7, 3, 4
	r.Prioritise(slots, []float32{1, 2, 3, 4, 0})
	counts := map[int]int{}
	const draws = 20000
	for range draws / 10 {
		s := r.Draw(rng, 10, 1)
		for i, tr := range s.Transitions {
			counts[tr.Action]++
			if s.Weights[i] <= 0 || s.Weights[i] > 1 {
				t.Fatalf("weight %v", s.Weights[i])
			}
		}
	}
	for action, want := range map[int]float64{5: 0.1, 6: 0.2, 7: 0.3, 3: 0.4, 4: 0, 0: 0} {
		if got := float64(counts[action]) / draws; math.Abs(got-want) > 0.01 {
			t.Errorf("action %d drawn with frequency %v, want %v", action, got, want)
		}
	}
}

func TestReplayUniform(t *testing.T) {
	r, rng := NewReplay(3, 0), rand.New(rand.NewPCG(1, 2))
	for i := range 3 {
		r.Add(Transition{Action: i})
	}
	r.Prioritise([]int{0, 1, 2}, []float32{100, 1, 0})
	for _, w := range r.Draw(rng, 30, 1).Weights {
		if w != 1 {
			t.Errorf("weight %v under uniform drawing", w)
		}
	}
}
