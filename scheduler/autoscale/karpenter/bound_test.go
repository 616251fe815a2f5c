//go:build !service && !k136

package karpenter

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
	karpenteroptions "sigs.k8s.io/karpenter/pkg/operator/options"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
)

// full returns a world of machines of all types whose pods leave little room, and changes of it.
func full(t *testing.T, seed uint64, opts ...Option) (w *world, change func()) {
	draw := rand.New(rand.NewPCG(seed, 0))
	w = newWorld(t, shop(pool("one", `{"consolidateAfter": "0s", "budgets": [{"nodes": "40%"}]}`, ""), pool("two", atOnce, `"weight": 1,`)), opts...)
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

// Karpenter does the same whether or not impossible consolidations are left out.
func TestBoundKeepsPlans(t *testing.T) {
	for seed := range uint64(4) {
		play := func(free bool) string {
			w, change := full(t, seed)
			if s := w.scaler.(*scaler); free {
				never := func() *bound {
					b := s.bound()
					b.types = append(b.types, bargain{cluster.Resources{MilliCPU: 1 << 60, Memory: 1 << 60, Pods: 1 << 60}, -1})
					return b
				}
				s.loop.singles.bound, s.loop.methods[1].consolidation.(*multis).bound = never, never
			}
			var out []string
			for range 12 {
				change()
				out = append(out, w.run(40*time.Second))
			}
			return strings.Join(out, "\n")
		}
		got, want := play(false), play(true)
		if got != want || !strings.Contains(got, "remove") {
			t.Errorf("seed %d: with the bound:\n%s\nwithout:\n%s", seed, got, want)
		}
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
	all, _, err := disruption.GetCandidatesWithTotals(karpenteroptions.ToContext(t.Context(), &s.options), s.cluster, s.store, silent{}, s.clock, s.provider,
		func(context.Context, *disruption.Candidate) bool { return true }, disruption.GracefulDisruptionClass, s.queue, nil)
	fatal.If(t, err)
	got := map[string]bool{}
	for _, c := range all {
		got[c.Name()] = s.bound().forbids([]*disruption.Candidate{c})
	}
	if len(got) != 3 || !got["big"] || got["half"] || got["small"] || !s.bound().forbids(all) {
		t.Errorf("%v, all together %v", got, s.bound().forbids(all))
	}
}
