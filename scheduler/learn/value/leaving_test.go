package value

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/sim"
	"gnnsched/workload/trace/openb"
)

// leavingEights returns eights with lifetimes: of the pods with one device or a share one in ten runs for a day, the others for
// minutes. Those with eight run for an hour.
func leavingEights() ([]openb.Node, Workload) {
	nodes, w := eights()
	for i := range w.Pods {
		p := &w.Pods[i]
		p.Created, p.Deleted = 0, 600
		switch {
		case p.GPUs == 8:
			p.Deleted = 3600
		case i%10 == 3:
			p.Deleted = 86_400
		}
	}
	return nodes, w
}

var leaves = Leaving{Share: 1, Least: 0.85, Most: 0.85, Hours: 24, HalfLife: 2}

// sometimes is a policy that follows the first of two in a share of the decisions.
type sometimes struct {
	policy.Policy
	other policy.Policy
	share float64
	rng   *rand.Rand
}

func (p sometimes) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	if p.rng.Float64() < p.share {
		return p.Policy.Score(s, pod, candidates, scores)
	}
	return p.other.Score(s, pod, candidates, scores)
}

// leavingPlayed plays an episode in which pods leave, and returns its ledger, states with all nodes, and the environment at the end.
func leavingPlayed(t testing.TB, seed uint64, choose func(*sim.Env) policy.Policy) (*ledger, []state, *sim.Env) {
	t.Helper()
	nodes, w := leavingEights()
	c := Defaults()
	c.Leaving = &leaves
	env, err := (&player{c, nodes}).start(w, leaves.Least)
	if err != nil {
		t.Fatal(err)
	}
	l := &ledger{halfLife: leaves.HalfLife * secondsAnHour}
	decide := eval.Deciding(choose(env), nil)
	var states []state
	if _, err := eval.Episode(env, seed, func(env *sim.Env) (eval.Choice, error) {
		l.see(env)
		if l.due(env) && l.count%50 == 0 {
			s := state{arrival: env.Next(), at: env.Now(), services: len(l.services), all: allIdle(env)}
			for row, n := range env.Snapshot().Nodes {
				s.rows, s.idle = append(s.rows, int32(row)), append(s.idle, idle(n))
			}
			states = append(states, s)
		}
		choice, err := decide(env)
		if err == nil {
			l.serve(env, env.Candidates()[choice.Candidate])
		}
		return choice, err
	}); err != nil {
		t.Fatal(err)
	}
	return l, states, env
}

// The targets tell a good, a middling and a bad policy apart: summed over the nodes they rank them as the hours that pods
// wait do, with the discount and the end as the learner has them.
func TestLeavingTargetsTellPoliciesApart(t *testing.T) {
	policies := []func(*sim.Env) policy.Policy{
		func(env *sim.Env) policy.Policy { return heuristic.NewFGD(env.Typical()) },
		func(env *sim.Env) policy.Policy {
			fgd := heuristic.NewFGD(env.Typical())
			return sometimes{breaker{fgd, always}, fgd, 0.02, rand.New(rand.NewPCG(1, 2))}
		},
		func(env *sim.Env) policy.Policy { return breaker{heuristic.NewFGD(env.Typical()), always} },
	}
	var costs, hours [3]float64
	for i, choose := range policies {
		for seed := uint64(1); seed <= 6; seed++ {
			l, states, env := leavingPlayed(t, seed, choose)
			sum := 0.0
			for _, targets := range l.targets(states, env.Now()) {
				for _, v := range targets {
					sum += float64(v)
				}
			}
			costs[i] += sum / float64(len(states))
			hours[i] += env.Outcome().Steady.GPUHours
		}
	}
	t.Logf("costs %.2f for hours %.0f", costs, hours)
	if !slices.IsSorted(hours[:]) || hours[2] < 1.5*hours[0] {
		t.Fatalf("the hours waited of the policies do not differ as they should: %.0f", hours)
	}
	if !slices.IsSorted(costs[:]) || costs[2] < 1.5*costs[0] {
		t.Errorf("costs %.1f for hours %.0f", costs, hours)
	}
}

// The targets of all nodes add up to the discounted mean of the devices that pods wait for while they are idle.
func TestLeavingTargetsAddUp(t *testing.T) {
	l, states, env := leavingPlayed(t, 3, func(env *sim.Env) policy.Policy { return breaker{heuristic.NewFGD(env.Typical()), always} })
	end, checked := env.Now(), 0
	for i, targets := range l.targets(states, end) {
		if targets == nil {
			continue
		}
		sum := 0.0
		for _, v := range targets {
			sum += float64(v)
		}
		var cost, weights float64
		for k, m := range l.moments {
			from, until := max(m.at, states[i].at), end
			if k+1 < len(l.moments) {
				until = l.moments[k+1].at
			}
			if until <= from {
				continue
			}
			// the integral of 2^(-age/halfLife), but for a constant
			cost += m.waiting * (math.Exp2(-(from-states[i].at)/l.halfLife) - math.Exp2(-(until-states[i].at)/l.halfLife))
		}
		weights = 1 - math.Exp2(-(end-states[i].at)/l.halfLife)
		if want := cost / weights; math.Abs(sum-want) > 1e-3*max(want, 1) {
			t.Fatalf("state %d: targets add up to %v, the cost is %v", i, sum, want)
		}
		checked++
	}
	if checked < 20 {
		t.Errorf("only %d states have targets", checked)
	}
}

// What is learned from FGD's episodes tells what matters when pods leave: the last device of an idle node with eight costs more than
// one of a small node, which can never serve eight.
func TestLeavingTargetsPriceWholeNodes(t *testing.T) {
	var sums, counts [9][9]float64 // by devices and idle devices
	for seed := uint64(1); seed <= 6; seed++ {
		l, states, env := leavingPlayed(t, seed, func(env *sim.Env) policy.Policy { return heuristic.NewFGD(env.Typical()) })
		for i, targets := range l.targets(states, env.Now()) {
			for j, v := range targets {
				devices, free := len(env.Snapshot().Nodes[states[i].rows[j]].GPUs), states[i].idle[j]
				if free == math.Trunc(free) {
					sums[devices][int(free)] += float64(v)
					counts[devices][int(free)]++
				}
			}
		}
	}
	v := func(devices, free int) float64 {
		if counts[devices][free] < 5 {
			t.Fatalf("%v nodes with %d of %d devices idle", counts[devices][free], free, devices)
		}
		return sums[devices][free] / counts[devices][free]
	}
	if large, small := v(8, 7)-v(8, 8), v(2, 1)-v(2, 2); large <= small {
		t.Errorf("a device of an idle node costs %v with eight, %v with two", large, small)
	}
}

// A recorder's snapshots of an episode in which pods leave come after the start, have finite targets.
func TestRecordLeaving(t *testing.T) {
	nodes, w := leavingEights()
	c := small()
	c.Leaving = &leaves
	p := player{c, nodes}
	env, err := p.start(w, c.Leaving.draw(rand.New(rand.NewPCG(1, 1)), w))
	if err != nil {
		t.Fatal(err)
	}
	r := newRecorder(c, env, rand.New(rand.NewPCG(1, 2)), breaker{heuristic.NewFGD(env.Typical()), always})
	if _, err := eval.Episode(env, 5, r.decide); err != nil {
		t.Fatal(err)
	}
	taken := r.end()
	if len(taken) < 20 {
		t.Fatalf("%d snapshots", len(taken))
	}
	for _, s := range taken {
		if len(s.Targets) != len(s.Nodes) || slices.ContainsFunc(s.Targets, func(v float32) bool { return math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) }) {
			t.Fatalf("%d targets of %d nodes: %v", len(s.Targets), len(s.Nodes), s.Targets)
		}
	}
}

// Workloads without lifetimes, and those that are not drawn, have no load.
func TestDrawLeaving(t *testing.T) {
	_, with := leavingEights()
	_, without := trace()
	without.Pods[0].Created = openb.NoTime
	rng := rand.New(rand.NewPCG(1, 2))
	half := Leaving{Share: 0.5, Least: 0.9, Most: 1.1}
	left := 0
	for range 200 {
		if half.draw(rng, without) != 0 || (*Leaving)(nil).draw(rng, with) != 0 {
			t.Fatal("pods leave that have no lifetime, or should stay")
		}
		if load := half.draw(rng, with); load != 0 {
			if left++; load < 0.9 || load > 1.1 {
				t.Fatalf("load %v", load)
			}
		}
	}
	for _, c := range []struct {
		share     float64
		n, leaves int
	}{{1, 4, 4}, {0.5, 4, 2}, {0.9, 4, 3}, {0.01, 4, 1}, {0.5, 1, 0}} {
		l := Leaving{Share: c.share, Least: 0.9, Most: 1.1}
		for i := range c.n {
			want := 0.0
			if i < c.leaves {
				want = 0.9 + 0.2*(float64(i)+0.5)/float64(c.leaves)
			}
			if load := l.heldOut(i, c.n); math.Abs(load-want) > 1e-9 {
				t.Errorf("a share of %v of %d held-out workloads: number %d has the load %v, want %v", c.share, c.n, i, load, want)
			}
		}
	}
	if left < 60 || left > 140 {
		t.Errorf("pods leave in %d of 200 episodes", left)
	}
	for text, say := range map[string]string{
		"leaving: {share: 2, least: 0.9, most: 1, hours: 9, halfLife: 3}":  "leaving.share",
		"leaving: {share: 1, least: 1.1, most: 1, hours: 9, halfLife: 3}":  "leaving.least",
		"leaving: {share: 1, least: 0.9, most: 1, hours: 2, halfLife: 3}":  "leaving.hours",
		"leaving: {share: 1, least: 0.9, most: 1, hours: 9, halflives: 3}": "unknown field",
	} {
		if _, err := Read("a.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
