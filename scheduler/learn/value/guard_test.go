//go:build torch

package value

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/feature"
	"gnnsched/gnn/infer"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/experience"
)

// marked is an exam with given totals, by the fingerprint of a network.
type marked map[uint64]float64

func (marked) Key() string { return "given" }

func (m marked) Total(c *checkpoint.Checkpoint) (float64, error) {
	total, known := m[c.Fingerprint()]
	if !known {
		return 0, fmt.Errorf("network %x is not known", c.Fingerprint())
	}
	if math.IsNaN(total) {
		return 0, infer.ErrNaN
	}
	return total, nil
}

// kindNetwork returns a network on the graph of kinds with random weights.
func kindNetwork(seed uint64) *checkpoint.Checkpoint {
	return checkpoint.Random(KindDefaults().architecture(), rand.New(rand.NewPCG(seed, 1)))
}

// A network that is worse than the best so far by more than the tolerance does not pass. One that is
// better becomes the best.
func TestGuardComparesWithTheBest(t *testing.T) {
	worse, better := kindNetwork(1), kindNetwork(2)
	exam := marked{worse.Fingerprint(): 3, better.Fingerprint(): 2}
	strict := &Guard{Exam: exam, Tolerance: 0.1}
	fatal.If(t, strict.begin(worse))
	for i, c := range []struct {
		network *checkpoint.Checkpoint
		passes  bool
		best    float64 // before it is judged
	}{{worse, true, 3}, {better, true, 3}, {worse, false, 2}, {better, true, 2}} {
		if _, fault, err := strict.judge(c.network, worse, nil); err != nil || (fault == nil) != c.passes {
			t.Errorf("%d: fault %v, error %v; to pass: %v", i, fault, err, c.passes)
		}
		if want := 1.1 * c.best; math.Abs(strict.most-want) > 1e-9 {
			t.Errorf("%d: judged by the limit %v, want %v", i, strict.most, want)
		}
	}
	loose := &Guard{Exam: exam, Tolerance: 0.6}
	fatal.If(t, loose.begin(better))
	if _, fault, err := loose.judge(worse, better, nil); err != nil || fault != nil {
		t.Errorf("within the tolerance: fault %v, error %v", fault, err)
	}
	if loose.Best != 2 {
		t.Errorf("the best is %v, not 2", loose.Best)
	}
	known := loose.standing
	if err := loose.begin(worse); err != nil || loose.standing != known {
		t.Errorf("begun again on the same episodes, it went from %v to %v, %v", known, loose.standing, err)
	}
}

// Weights and prices that are not finite never pass, even without episodes.
func TestGuardWantsFinitePrices(t *testing.T) {
	seen := []experience.Step{stepOf(1, 5)}
	good, broken, exploding := kindNetwork(1), kindNetwork(2), kindNetwork(3)
	scale := func(c *checkpoint.Checkpoint, by float32) {
		for _, w := range c.Weights {
			for i := range w.Data {
				w.Data[i] *= by
			}
		}
	}
	scale(broken, float32(math.NaN()))
	scale(exploding, 1e30)
	with := &Guard{Exam: marked{good.Fingerprint(): 1, kindNetwork(4).Fingerprint(): math.NaN()}, Tolerance: 1e9}
	fatal.If(t, with.begin(good))
	for name, c := range map[string]struct {
		guard   *Guard
		network *checkpoint.Checkpoint
		seen    []experience.Step
		passes  bool
	}{
		"a good one":               {&Guard{}, good, seen, true},
		"NaN among the weights":    {&Guard{}, broken, nil, false},
		"overflow on the states":   {&Guard{}, exploding, seen, false},
		"overflow in the episodes": {with, kindNetwork(4), nil, false},
	} {
		if _, fault, err := c.guard.judge(c.network, good, c.seen); err != nil || (fault == nil) != c.passes {
			t.Errorf("%s: fault %v, error %v", name, fault, err)
		} else if fault != nil && !strings.Contains(fault.Error(), "finite") {
			t.Errorf("%s: %v", name, fault)
		}
	}
}

// The exam's total is that of training's held-out episodes: 1 means as much waits as under the rule price.
func TestExam(t *testing.T) {
	c := smallKinds()
	exam, err := NewExam(c, 2)
	fatal.If(t, err)
	trained, err := checkpoint.Shipped("gnn")
	fatal.If(t, err)
	got, err := exam.Total(trained)
	if err != nil || got < 0.9 || got > 1.1 {
		t.Errorf("the shipped network has %v, %v", got, err)
	}
	other, err := NewExam(c, 3)
	fatal.If(t, err)
	if exam.Key() == other.Key() {
		t.Errorf("two exams have the key %q", exam.Key())
	}
}

// stepOf returns a step with two kinds, of which the first waits for so much.
func stepOf(number uint64, waits float64) experience.Step {
	kind := feature.Kind{Share: 0.5, Expected: 10, Waiting: waits, Free: 3, Places: 20, Size: 0.2, Breadth: 0.5}
	return experience.Step{Actor: "a", Number: number, Cluster: feature.Kinds{CPU: 0.5, Memory: 0.4, Waiting: 0.1, Nodes: 10, Running: 60},
		Kinds: []experience.Kind{{Key: 1, Seen: kind, Waits: waits}, {Key: 2, Seen: kind}}}
}
