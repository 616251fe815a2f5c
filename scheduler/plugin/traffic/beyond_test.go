package traffic

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"gnnsched/internal/cluster"
)

// rates returns rates between workloads of the namespace x.
func rates(of map[[2]string]float64) map[pair]float64 {
	out := map[pair]float64{}
	for names, rate := range of {
		out[pair{key{"x", names[0]}, key{"x", names[1]}}] = rate
	}
	return out
}

// The pods two steps away are those that talk to a partner of the pod, and not to the pod: its own siblings too. They share what it
// exchanges with the partner.
func TestBeyond(t *testing.T) {
	w := newWorld(t, klog.Logger{}, 6)
	web := w.pod("x", "web")
	run := func(owner string, node int) { w.run("x", owner, w.nodes[node].Name) }
	want := func(when string, rows map[int32]float64) {
		t.Helper()
		got := map[int32]float64{}
		for i, p := range w.attach(web).Beyond {
			got[p.Row] = p.Rate
			if i > 0 && p.Row <= w.attach(web).Beyond[i-1].Row {
				t.Errorf("%s: rows are not ascending", when)
			}
		}
		same := maps.EqualFunc(got, rows, func(a, b float64) bool { return math.Abs(a-b) <= 1 })
		if !same {
			t.Errorf("%s: %v, want %v", when, got, rows)
		}
	}
	run("db", 0)
	w.measure(rates(map[[2]string]float64{{"web", "api"}: 60}))
	want("nobody talks to the db", nil)
	run("api", 1)
	all := map[[2]string]float64{{"web", "api"}: 60, {"api", "db"}: 30}
	w.measure(rates(all))
	want("the api talks to the db", map[int32]float64{0: 60})
	all[[2]string{"log", "api"}], all[[2]string{"web", "api"}] = 1, 120
	w.measure(rates(all))
	run("db", 0)
	run("web", 3)
	run("log", 4)
	want("three workloads, four pods", map[int32]float64{0: 60, 3: 30, 4: 30})
	if s := w.attach(web); len(s.Peers) != 1 || s.Peers[0] != (cluster.Peer{Row: 1, Pods: 1, Rate: 60}) {
		t.Errorf("peers %v", s.Peers)
	}
	w.remove(slices.IndexFunc(w.pods, func(p *v1.Pod) bool { return keyOf(p).name == "api" }), false)
	want("without a pod of the api", map[int32]float64{0: 60, 3: 30, 4: 30})
	all[[2]string{"web", "db"}] = 9
	w.measure(rates(all))
	want("the db is a partner, which leads to the siblings too", map[int32]float64{3: 69, 4: 60})
	for i := range maxFlows {
		all[[2]string{fmt.Sprint("client-", i), "api"}] = 1
	}
	delete(all, [2]string{"web", "db"})
	w.measure(rates(all))
	want("all talk to the api", nil)
}

// Pods to which several partners lead count once, with what all of these exchange, and with no more than the most that counts.
func TestBeyondOverSeveralPartners(t *testing.T) {
	w := newWorld(t, klog.Logger{}, 3)
	w.run("x", "db", w.nodes[2].Name)
	w.run("x", "api", w.nodes[0].Name)
	w.run("x", "cart", w.nodes[0].Name)
	for _, c := range []struct{ api, cart, want float64 }{{60, 20, 80}, {maxRate, 0, maxRate}} {
		w.measure(rates(map[[2]string]float64{{"web", "api"}: c.api, {"web", "cart"}: c.cart, {"api", "db"}: 1, {"cart", "db"}: 1}))
		s := w.attach(w.pod("x", "web"))
		if want := (cluster.Peer{Row: 2, Pods: 1, Rate: c.want}); len(s.Beyond) != 1 || s.Beyond[0] != want {
			t.Errorf("%v, want %v", s.Beyond, want)
		}
	}
}
