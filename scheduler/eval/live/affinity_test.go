package live_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/live"
	"gnnsched/scheduler/sim"
)

// The candidates of the simulator are those nodes with room whose labels upstream's node affinity matches, also for the selectors and the
// required affinity (In, NotIn, Gt) that family-affinity draws; and each pod has a node on an empty cluster.
func TestCandidatesMeetUpstreamsAffinity(t *testing.T) {
	s := fatal.Value(eval.Find("family-affinity"))(t)
	operators := map[string]int{}
	env := fatal.Value(sim.New(s.Config))(t)
	for seed := range uint64(12) {
		fatal.If(t, env.Reset(seed))
		rng := rand.New(rand.NewPCG(seed, 1))
		matches := map[string][]bool{} // by kind of pod: the nodes
		empty := slices.Clone(env.Snapshot().Nodes)
		for _, a := range env.Plan() {
			key := cluster.KindKey(a.Pod)
			if matches[key] != nil {
				continue
			}
			required := nodeaffinity.GetRequiredNodeAffinity(live.Pod("p", "s", a.Pod))
			fits := 0
			for _, n := range empty {
				ok := fatal.Value(required.Match(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: n.Labels}}))(t)
				matches[key] = append(matches[key], ok)
				if ok && n.Tolerated(a.Pod.Tolerations) && a.Pod.Requests.Within(n.Allocatable) {
					fits++
				}
			}
			if fits == 0 {
				t.Errorf("seed %d: no node for a pod that needs %s", seed, a.Pod.Where())
			}
			for _, term := range a.Pod.NodeAffinity {
				for _, r := range term {
					operators[r.Operator]++
				}
			}
		}
		for !env.Done() {
			p := env.Pending()
			var want []int32
			for row, n := range env.Snapshot().Nodes {
				room := p.Requests.Within(n.Free())
				if room && matches[cluster.KindKey(p)][row] && n.Tolerated(p.Tolerations) {
					want = append(want, int32(row))
				}
			}
			if !slices.Equal(env.Candidates(), want) {
				t.Fatalf("seed %d: candidates %v, want %v, for %s", seed, env.Candidates(), want, p.Where())
			}
			env.Step(rng.IntN(len(want)))
		}
	}
	if operators["In"] == 0 || operators["NotIn"] == 0 || operators["Gt"] == 0 {
		t.Errorf("operators %v", operators)
	}
}
