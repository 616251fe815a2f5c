//go:build !service && !k136

package karpenter

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gnnsched/scheduler/autoscale"
)

func machineOf(name, typ, zone string) autoscale.Launch {
	return autoscale.Launch{Name: name, Pool: "plain", Type: typ, Zone: zone}
}

func TestDisruption(t *testing.T) {
	halves := func(w *world) { // both fit on one machine of half their size
		w.add(machineOf("n1", "m8", "a"), true, pod("p", "1500m"))
		w.add(machineOf("n2", "m8", "a"), true, pod("q", "1500m"))
	}
	for name, c := range map[string]struct {
		disruption, more string
		begin            func(w *world)
		during           time.Duration
		want             []string
	}{
		"an empty node goes after consolidateAfter": {
			disruption: `{"consolidateAfter": "1m", "budgets": [{"nodes": "100%"}]}`,
			begin:      func(w *world) { w.add(machineOf("n1", "m4", "a"), true) },
			want:       []string{"  75s close n1", "  75s remove n1"},
		},
		"never": {
			disruption: `{"consolidateAfter": "Never"}`,
			begin:      func(w *world) { w.add(machineOf("n1", "m4", "a"), true) },
		},
		"a node with pods of DaemonSets only is empty": {
			disruption: atOnce,
			begin:      func(w *world) { w.add(machineOf("n1", "m4", "a"), true, pod("d", "100m", daemon)) },
			want:       []string{"  25s close n1", "  25s remove n1"},
		},
		"nodes of nobody stay": {
			disruption: atOnce,
			begin:      func(w *world) { w.add(autoscale.Launch{Name: "n1", Type: "m4", Zone: "a"}, true) },
		},
		"two half empty nodes become one": {
			disruption: atOnce, begin: halves,
			want: []string{"  25s start plain-000001 m4 a", "  25s close n1", "  25s close n2", "  85s remove n1", "  85s remove n2"},
		},
		"a node whose pods fit elsewhere": {
			disruption: atOnce,
			begin: func(w *world) {
				w.add(machineOf("n1", "m2", "a"), true, pod("p", "1"))
				w.add(machineOf("n2", "m2", "a"), true, pod("q", "500m"))
			},
			want: []string{"  25s close n1", "  25s remove n1"},
		},
		"only empty nodes": {
			disruption: `{"consolidateAfter": "0s", "consolidationPolicy": "WhenEmpty", "budgets": [{"nodes": "100%"}]}`, begin: halves,
		},
		"a budget of none": {disruption: `{"consolidateAfter": "0s", "budgets": [{"nodes": "0"}]}`, begin: halves},
		"a budget of one": {
			disruption: `{"consolidateAfter": "0s", "budgets": [{"nodes": "1"}]}`,
			begin: func(w *world) {
				w.add(machineOf("n1", "m4", "a"), true)
				w.add(machineOf("n2", "m4", "a"), true)
			},
			during: 50 * time.Second,
			want:   []string{"  25s close n1", "  25s remove n1", "  50s close n2", "  50s remove n2"},
		},
		"a disruption budget of pods": {
			disruption: atOnce,
			begin: func(w *world) {
				halves(w)
				w.c.Budgets = []*policyv1.PodDisruptionBudget{{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
					Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}}}
			},
		},
		"a pod that forbids it": {
			disruption: atOnce,
			begin: func(w *world) {
				w.add(machineOf("n1", "m8", "a"), true, pod("p", "1", func(p *v1.Pod) { p.Annotations = map[string]string{"karpenter.sh/do-not-disrupt": "true"} }))
			},
		},
		"age": {
			disruption: `{"consolidateAfter": "Never"}`,
			begin: func(w *world) {
				w.c.Now = start.Add(-719 * time.Hour)
				w.add(machineOf("n1", "m2", "a"), true, pod("p", "1"))
				w.c.Now = start
			},
			during: 2 * time.Hour,
			want:   []string{"3600s close n1", "3600s remove n1", "3601s start plain-000001 m2 a"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, shop(pool("plain", c.disruption, c.more)))
			c.begin(w)
			if c.during == 0 {
				c.during = 2 * time.Minute
			}
			if got, want := w.run(c.during), strings.Join(c.want, "\n"); got != want {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

// A look that the caller is late for is not left out.
func TestLate(t *testing.T) {
	w := newWorld(t, shop(pool("plain", atOnce, "")))
	w.add(machineOf("n1", "m4", "a"), true)
	for range 60 {
		w.step()
		w.c.Now = w.c.Now.Add(700 * time.Millisecond)
	}
	if got := strings.Join(w.log, "\n"); got != "  26s close n1\n  26s remove n1" {
		t.Error(got)
	}
}

// A change is looked at within ten seconds, also after looks that found nothing.
func TestChangeAfterIdleLooks(t *testing.T) {
	w := newWorld(t, shop(pool("plain", atOnce, "")))
	w.add(machineOf("n1", "m4", "a"), true, pod("p", "3"))
	w.run(30 * time.Second)
	w.step()
	w.node("n1").Pods = nil
	if got := w.run(30 * time.Second); got != "  45s close n1\n  45s remove n1" {
		t.Error(got)
	}
}

// After a command that is no longer valid, all methods look again: what got empty meanwhile goes.
func TestAfterAnInvalidCommand(t *testing.T) {
	w := newWorld(t, shop(pool("plain", atOnce, "")))
	w.add(machineOf("n1", "m8", "a"), true, pod("p", "1500m"))
	w.add(machineOf("n2", "m8", "a"), true, pod("q", "7"))
	w.run(15 * time.Second)
	w.node("n1").Pods = append(slices.Clone(w.node("n1").Pods), pod("r", "5"))
	w.node("n2").Pods = nil
	if got := w.run(45 * time.Second); got != "  50s close n2\n  50s remove n2" {
		t.Error(got)
	}
}

// A command whose replacement gets lost is given up, and its nodes take pods again.
func TestLostReplacement(t *testing.T) {
	w := newWorld(t, shop(pool("plain", atOnce, "")))
	w.add(machineOf("n1", "m8", "a"), true, pod("p", "1500m"))
	w.run(30 * time.Second)
	w.c.Nodes = slices.DeleteFunc(w.c.Nodes, func(n autoscale.Node) bool { return n.Object.Name != "n1" })
	if plan := w.step(); !slices.Equal(plan.Open, []string{"n1"}) {
		t.Errorf("the plan is %+v", plan)
	}
}

// crowd makes a world of machines that have ten pods each and room for one or two.
func crowd(t testing.TB, machines int, disruption string, opts ...Option) *world {
	w := newWorld(t, shop(pool("plain", disruption, "")), opts...)
	for i := range machines {
		var pods []*v1.Pod
		for j := range 10 {
			pods = append(pods, pod(fmt.Sprintf("p-%d-%d", i, j), fmt.Sprintf("%dm", 500+(i*7+j*13)%200)))
		}
		w.add(machineOf(fmt.Sprintf("n%05d", i), "m8", []string{"a", "b"}[i%2]), true, pods...)
	}
	return w
}

func TestEqualStepsGiveEqualPlans(t *testing.T) {
	play := func() string {
		w := crowd(t, 12, `{"consolidateAfter": "30s", "budgets": [{"nodes": "50%"}]}`)
		var out []string
		for i := range 8 {
			w.c.Waiting = append(w.c.Waiting, pod(fmt.Sprintf("new-%d", i), fmt.Sprintf("%dm", 900+100*(i%7))))
			n := &w.c.Nodes[i*5%len(w.c.Nodes)]
			n.Pods = slices.Clone(n.Pods[min(len(n.Pods), 3):])
			out = append(out, w.run(time.Duration(7+i)*time.Second))
		}
		return strings.Join(out, "\n")
	}
	first := play()
	for range 2 {
		if again := play(); again != first {
			t.Fatalf("first:\n%s\nthen:\n%s", first, again)
		}
	}
	if !strings.Contains(first, "start") || !strings.Contains(first, "remove") {
		t.Errorf("nothing happened:\n%s", first)
	}
}

// The benchmarks have 1,000 machines with 10,000 pods.
func BenchmarkStep(b *testing.B) {
	never := `{"consolidateAfter": "Never"}`
	b.Run("nothing changed", func(b *testing.B) {
		w := crowd(b, 1000, never)
		w.step()
		for b.Loop() {
			w.c.Now = w.c.Now.Add(100 * time.Millisecond)
			w.step()
		}
	})
	b.Run("a pod comes and one goes", func(b *testing.B) {
		w := crowd(b, 1000, never)
		w.step()
		for i := 0; b.Loop(); i++ {
			n := &w.c.Nodes[i%1000]
			n.Pods = append(slices.Clone(n.Pods[1:]), pod(fmt.Sprintf("new-%d", i), "500m"))
			w.c.Now = w.c.Now.Add(100 * time.Millisecond)
			w.step()
		}
	})
	b.Run("a batch of 100 pods", func(b *testing.B) {
		w := crowd(b, 1000, never)
		w.step()
		for i := 0; b.Loop(); i++ {
			w.c.Waiting = nil
			for j := range 100 {
				w.c.Waiting = append(w.c.Waiting, pod(fmt.Sprintf("new-%d-%d", i, j), "3"))
			}
			w.step()
			w.c.Now = w.c.Now.Add(time.Minute)
			if plan, err := w.scaler.Step(b.Context(), &w.c); err != nil || len(plan.Start) == 0 {
				b.Fatal(err, plan)
			}
		}
	})
	b.Run("a look for disruption that finds nothing", func(b *testing.B) {
		w := crowd(b, 1000, atOnce, Singles(20))
		w.step()
		for i := 0; b.Loop(); i++ {
			w.c.Nodes[0].Pods = append(slices.Clone(w.c.Nodes[0].Pods[1:]), pod(fmt.Sprintf("new-%d", i), "500m"))
			w.c.Now = w.c.Now.Add(10 * time.Second)
			w.step()
		}
	})
}

// Machines of a catalog without zones are consolidated too, whatever zone their labels name.
func TestWithoutZones(t *testing.T) {
	catalog := shop(pool("plain", atOnce, ""))
	for i := range catalog.Types {
		catalog.Types[i].Offerings = catalog.Types[i].Offerings[:1]
		catalog.Types[i].Offerings[0].Zone = ""
	}
	w := newWorld(t, catalog)
	w.add(machineOf("n1", "m8", ""), true, pod("p", "1500m"))
	w.node("n1").Object.Labels[v1.LabelTopologyZone] = "eu-1a"
	if got := w.run(2 * time.Minute); !strings.Contains(got, "start plain-000001 m2") || !strings.Contains(got, "remove n1") {
		t.Error(got)
	}
}

// After Yield, used nodes stay, and MayGo names those that Karpenter could remove, with the budgets of pools.
func TestYield(t *testing.T) {
	w := newWorld(t, shop(pool("plain", `{"consolidateAfter": "1m", "budgets": [{"nodes": "1"}]}`, "")))
	y := w.scaler.(autoscale.Yielder)
	y.Yield()
	w.add(machineOf("n1", "m8", "a"), true, pod("p", "1500m"))
	w.add(machineOf("n2", "m8", "a"), true, pod("q", "1500m", func(p *v1.Pod) { p.Annotations = map[string]string{"karpenter.sh/do-not-disrupt": "true"} }))
	w.add(machineOf("n3", "m4", "a"), true)
	w.step()
	if nodes, _, err := y.MayGo(t.Context(), &w.c); err != nil || len(nodes) > 0 {
		t.Errorf("before consolidateAfter: %v, %v", nodes, err)
	}
	if got, want := w.run(5*time.Minute), "  75s close n3\n  75s remove n3"; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	nodes, most, err := y.MayGo(t.Context(), &w.c)
	if err != nil || !slices.Equal(nodes, []string{"n1"}) || most["plain"] != 1 {
		t.Errorf("%v of %v, %v", nodes, most, err)
	}
}
