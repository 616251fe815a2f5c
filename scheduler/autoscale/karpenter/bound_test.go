//go:build !service && !k136

package karpenter

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/autoscale"
)

// full returns a world of machines of all types whose pods leave little room, and changes of it. One pool has a disruption and more of its own.
func full(t *testing.T, seed uint64, disruption, more string, opts ...Option) (w *world, change func()) {
	draw := rand.New(rand.NewPCG(seed, 0))
	w = newWorld(t, shop(pool("one", disruption, more), pool("two", atOnce, `"weight": 1,`)), opts...)
	cpu := func() string { return []string{"250m", "900m", "1500m", "3"}[draw.IntN(4)] }
	pods := 0
	for i := range 12 {
		cores := []int{2, 4, 8}[draw.IntN(3)]
		l := machineOf(fmt.Sprintf("n%02d", i), fmt.Sprintf("m%d", cores), "a")
		l.Pool = []string{"one", "two"}[i%2]
		var on []*v1.Pod
		for room := int64(1000*cores - 100); len(on) < 6; pods++ {
			p := pod(fmt.Sprint("p", pods), cpu())
			if room -= sizeOf(p).MilliCPU; room < 0 {
				break
			}
			on = append(on, p)
		}
		w.add(l, true, on...)
	}
	return w, func() {
		if n := &w.c.Nodes[draw.IntN(len(w.c.Nodes))]; len(n.Pods) > 0 {
			n.Pods = slices.Clone(n.Pods[1:])
		}
		pods++
		w.c.Waiting = append(w.c.Waiting, pod(fmt.Sprint("p", pods), cpu()))
	}
}

// Karpenter does the same whether or not impossible consolidations are left out, and with excerpts as with the whole cluster.
func TestShortcutsKeepPlans(t *testing.T) {
	apart := func(p *v1.Pod) { // from nobody; no excerpt is made where there is such a pod
		p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{
			{TopologyKey: v1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "none"}}}}}}
	}
	for name, c := range map[string]struct{ disruption, more string }{
		"at once":           {`{"consolidateAfter": "0s", "budgets": [{"nodes": "40%"}]}`, ""},
		"a limit":           {`{"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]}`, `"limits": {"cpu": 34, "nodes": 9},`},
		"after a while":     {`{"consolidateAfter": "45s", "budgets": [{"nodes": "1", "reasons": ["Underutilized"]}, {"nodes": "3"}]}`, ""},
		"by their balance":  {`{"consolidateAfter": "0s", "consolidationPolicy": "Balanced", "budgets": [{"nodes": "50%"}]}`, ""},
		"some nodes a look": {`{"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]}`, `"weight": 3,`},
	} {
		for seed := range uint64(4) {
			play := func(bounded, excerpts bool) string {
				w, change := full(t, seed, c.disruption, c.more, Singles(3*int(seed%2)))
				s := w.scaler.(*scaler)
				if !bounded {
					s.types = append(s.types, bargain{cluster.Resources{MilliCPU: 1 << 60, Memory: 1 << 60, Pods: 1 << 60}, -1})
				}
				w.c.Daemons = []*v1.Pod{pod("d", "90m", daemon)}
				alone := autoscale.Launch{Name: "own", Type: "m2", Zone: "a"}
				if w.add(alone, true, pod("alone", "1900m")); !excerpts {
					w.node("own").Pods = []*v1.Pod{pod("alone", "1900m", apart)}
				}
				var out []string
				for range 12 {
					change()
					out = append(out, w.run(40*time.Second))
				}
				return strings.Join(out, "\n")
			}
			want := play(false, false)
			if got := play(true, true); got != want || !strings.Contains(got, "remove") {
				t.Errorf("%s, seed %d: with shortcuts:\n%s\nwithout:\n%s", name, seed, got, want)
			}
			if got := play(false, true); got != want {
				t.Errorf("%s, seed %d: with excerpts:\n%s\nwithout:\n%s", name, seed, got, want)
			}
		}
	}
}

// An excerpt lacks the machines that are full, and most of those that have room.
func TestExcerpt(t *testing.T) {
	w := newWorld(t, shop(pool("plain", atOnce, "")))
	for i := range 30 {
		w.add(machineOf(fmt.Sprintf("n%02d", i), "m8", "a"), true, pod(fmt.Sprint("p", i), fmt.Sprint(7-i%3)))
	}
	w.step()
	s := w.scaler.(*scaler)
	ctx := s.context(t.Context())
	all, _, err := s.candidates(ctx)
	fatal.If(t, err)
	v, err := s.around(ctx, map[string]int{"plain": 5}, all[3])
	fatal.If(t, err)
	names := map[string]bool{}
	for n := range v.cluster.Nodes() {
		names[n.Name()] = true
	}
	if len(names) != 1 || !names["n03"] {
		t.Errorf("for a pod of 7 cores: %v", names)
	}
	if left := v.store.pools[0].Spec.Limits["nodes"]; left.Value() != autoscale.MostNodes-29 || v.store.pools[0].Spec.Disruption.Budgets[0].Nodes != "5" {
		t.Errorf("the pool is %+v", v.store.pools[0].Spec)
	}
	w.c.Waiting = []*v1.Pod{pod("q", "500m"), pod("r", "1500m")}
	w.step()
	if v, err = s.around(ctx, nil); err != nil || v == s.whole || len(v.cluster.DeepCopyNodes()) != 3 {
		t.Errorf("for two pods: %d machines, %v", len(v.cluster.DeepCopyNodes()), err)
	}
	w.c.Daemons = []*v1.Pod{pod("d", "500m", daemon)} // for which each machine must keep room, so that q needs a larger one
	w.step()
	if v, err = s.around(ctx, nil); err != nil || len(v.cluster.DeepCopyNodes()) != 5 {
		t.Errorf("with a DaemonSet: %d machines, %v", len(v.cluster.DeepCopyNodes()), err)
	}
	s.close(s.store.machine("n05"), &autoscale.Plan{})
	s.cluster.NominateNodeForPod(ctx, s.store.machine("n03").providerID())
	v, err = s.around(ctx, map[string]int{"plain": 5}, all[3])
	fatal.If(t, err)
	if nodes := v.store.pools[0].Spec.Disruption.Budgets[0].Nodes; nodes != "6" || !v.cluster.IsNodeNominated(s.store.machine("n03").providerID()) {
		t.Errorf("with one that leaves and one that is nominated: %s may go", nodes)
	}
	w.c.Waiting = []*v1.Pod{pod("z", "500m", func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{v1.LabelTopologyZone: "a"} })}
	w.step()
	if v, err = s.around(ctx, nil); err != nil || v != s.whole {
		t.Errorf("for a pod with a selector: %v, %v", v, err)
	}
}

// Pods that fit on no other machine and on no cheaper one keep their machine.
func TestBoundForbids(t *testing.T) {
	w := newWorld(t, shop(pool("plain", atOnce, "")))
	w.add(machineOf("big", "m8", "a"), true, pod("p1", "5"), pod("p2", "2500m"))
	w.add(machineOf("half", "m8", "a"), true, pod("p3", "3500m"))
	w.add(machineOf("small", "m2", "a"), true, pod("p4", "1500m"))
	w.step()
	s := w.scaler.(*scaler)
	all, _, err := s.candidates(s.context(t.Context()))
	fatal.If(t, err)
	got := map[string]bool{}
	for _, c := range all {
		got[c.Name()] = s.forbids([]*disruption.Candidate{c})
	}
	if len(got) != 3 || !got["big"] || got["half"] || got["small"] || !s.forbids(all) {
		t.Errorf("%v, all together %v", got, s.forbids(all))
	}
}
