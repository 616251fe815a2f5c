package online

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/feature"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/encode"
	"gnnsched/scheduler/experience"
	"gnnsched/scheduler/learn/learntest"
	"gnnsched/scheduler/learn/run"
)

// packs returns a network that prefers the fullest node, or with sign -1 the emptiest. Its only weights
// are those of one feature of the candidates.
func packs(t *testing.T, sign float32) *checkpoint.Checkpoint {
	t.Helper()
	c := checkpoint.Random(checkpoint.Architecture{Encoder: checkpoint.MLP, Head: checkpoint.DQN, Hidden: 4}, rand.New(rand.NewPCG(1, 1)))
	for _, w := range c.Weights {
		clear(w.Data)
	}
	for i, f := range feature.List(feature.Base.Candidate) {
		if strings.HasPrefix(f.Name, "cpu") {
			c.Weights["candidate.features.weight"].Data[i] = 1 // of the first hidden unit
			c.Weights["score.weight"].Data[0] = sign
			return c
		}
	}
	t.Fatalf("no feature about CPU in %v", feature.List(feature.Base.Candidate))
	return nil
}

func guard(t *testing.T, tolerance float64) *Guard {
	t.Helper()
	held, err := run.NewHeldOut(learntest.Env(), 3)
	fatal.If(t, err)
	return &Guard{Exam: HeldOut{held, 1}, Tolerance: tolerance}
}

func total(t *testing.T, g *Guard, c *checkpoint.Checkpoint) float64 {
	t.Helper()
	got, err := g.Exam.Total(c)
	fatal.If(t, err)
	return got
}

// A network that is worse than the best so far by more than the tolerance does not pass. One that is
// better becomes the best.
func TestGuardComparesWithTheBest(t *testing.T) {
	worse, better := packs(t, 1), packs(t, -1)
	strict := guard(t, 0.01)
	high, low := total(t, strict, worse), total(t, strict, better)
	if high < 1.5*low {
		t.Fatalf("totals %v and %v are too near each other for this test", high, low)
	}
	fatal.If(t, strict.begin(worse))
	for i, c := range []struct {
		network *checkpoint.Checkpoint
		passes  bool
		best    float64 // before it is judged
	}{{worse, true, high}, {better, true, high}, {worse, false, low}, {better, true, low}} {
		if _, fault, err := strict.judge(c.network, worse, nil); err != nil || (fault == nil) != c.passes {
			t.Errorf("%d: fault %v, error %v; to pass: %v", i, fault, err, c.passes)
		}
		if want := c.best + 0.01*strict.Default; strict.most != want {
			t.Errorf("%d: judged by the limit %v, want %v", i, strict.most, want)
		}
	}
	loose := guard(t, (high-low)/strict.Default+0.01)
	fatal.If(t, loose.begin(better))
	if _, fault, err := loose.judge(worse, better, nil); err != nil || fault != nil {
		t.Errorf("within the tolerance: fault %v, error %v", fault, err)
	}
	if loose.Best != low {
		t.Errorf("the best is %v, not %v", loose.Best, low)
	}
	known := loose.standing
	if err := loose.begin(worse); err != nil || loose.standing != known {
		t.Errorf("begun again on the same episodes, it went from %v to %v, %v", known, loose.standing, err)
	}
}

// Weights and scores that are not finite never pass, even without episodes.
func TestGuardWantsFiniteScores(t *testing.T) {
	env := learntest.Started(t, learntest.Env(), 1)
	seen := []experience.Step{{State: encode.New(feature.Default()).Encode(env.Snapshot(), env.Pending(), env.Candidates()).Clone()}}
	broken, exploding := packs(t, 1), packs(t, 1)
	broken.Weights["score.weight"].Data[0] = float32(math.NaN())
	for name, w := range exploding.Weights {
		for i := range w.Data {
			if !strings.HasPrefix(name, "norm") {
				w.Data[i] = 3e38
			}
		}
	}
	with := guard(t, 1e9)
	fatal.If(t, with.begin(packs(t, -1)))
	for name, c := range map[string]struct {
		guard   *Guard
		network *checkpoint.Checkpoint
		seen    []experience.Step
		passes  bool
	}{
		"a good one":                  {&Guard{}, packs(t, 1), seen, true},
		"NaN among the weights":       {&Guard{}, broken, nil, false},
		"overflow on the states":      {&Guard{}, exploding, seen, false},
		"overflow in trial decisions": {&Guard{}, exploding, nil, false},
		"overflow in the episodes":    {with, exploding, nil, false},
	} {
		if _, fault, err := c.guard.judge(c.network, packs(t, -1), c.seen); err != nil || (fault == nil) != c.passes {
			t.Errorf("%s: fault %v, error %v", name, fault, err)
		}
	}
}
