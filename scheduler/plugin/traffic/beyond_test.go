package traffic

import (
	"fmt"
	"math"
	"testing"

	"k8s.io/klog/v2"

	"gnnsched/internal/cluster"
)

// The pods two steps away are those that talk to a partner of the pod, and not to the pod: its own siblings too. They share what it
// exchanges with the partner.
func TestBeyond(t *testing.T) {
	w := newWorld(t, klog.Logger{}, 6)
	web, api := w.pod("x", "web", "api=60"), "db=30"
	run := func(owner, text string, node int) {
		p := w.create(w.pod("x", owner, text))
		w.update(len(w.pods)-1, w.nodes[node].Name, text)
		if w.pods[len(w.pods)-1].UID != p.UID {
			t.Fatal("another pod was updated")
		}
	}
	want := func(when string, rows map[int32]float64) {
		t.Helper()
		got := map[int32]float64{}
		for i, p := range w.attach(web).Beyond {
			got[p.Row] = p.Rate
			if i > 0 && p.Row <= w.attach(web).Beyond[i-1].Row {
				t.Errorf("%s: rows are not ascending", when)
			}
		}
		if len(got) != len(rows) {
			t.Fatalf("%s: %v, want %v", when, got, rows)
		}
		for row, rate := range rows {
			if math.Abs(got[row]-rate) > 1 {
				t.Errorf("%s: %v, want %v", when, got, rows)
			}
		}
	}
	run("db", "", 0)
	want("nobody names the db", nil)
	run("api", api, 1)
	want("the api names the db", map[int32]float64{0: 60})
	run("db", "", 0)
	run("web", "api=60", 3)
	run("log", "api=1", 4)
	want("three workloads, four pods", map[int32]float64{0: 30, 3: 15, 4: 15})
	if s := w.attach(web); len(s.Peers) != 1 || s.Peers[0] != (cluster.Peer{Row: 1, Pods: 1, Rate: 60}) {
		t.Errorf("peers %v", s.Peers)
	}
	w.update(1, "", api)
	w.remove(1, false)
	want("without the api, only those that name it", map[int32]float64{3: 30, 4: 30})
	run("api", api, 1)
	w.view.measure(map[pair]float64{{key{"x", "api"}, key{"x", "db"}}: 9, {key{"x", "web"}, key{"x", "db"}}: 9})
	want("the db is a partner, which leads to the siblings too", map[int32]float64{3: 40, 4: 30})
	w.view.measure(nil)
	for i := range maxFlows {
		run(fmt.Sprint("client-", i), "api=1", 5)
	}
	want("all talk to the api", nil)
}

// Pods to which several partners lead count once, with what all of these exchange. Rates of many pods may be more than one pod may declare.
func TestBeyondOverSeveralPartners(t *testing.T) {
	w := newWorld(t, klog.Logger{}, 3)
	run := func(owner, text string, node int) {
		w.create(w.pod("x", owner, text))
		w.update(len(w.pods)-1, w.nodes[node].Name, text)
	}
	run("db", "", 2)
	run("api", "db=1", 0)
	run("cart", "db=1", 0)
	s := w.attach(w.pod("x", "web", "api=60,cart=20"))
	if want := (cluster.Peer{Row: 2, Pods: 1, Rate: 80}); len(s.Beyond) != 1 || s.Beyond[0] != want {
		t.Errorf("%v, want %v", s.Beyond, want)
	}
	w.view.annotations.most = 1e12 // bytes a second that the link of a node carries
	for range 20 {
		run("sender", "sink=1e12", 1)
	}
	run("other", "sender=1", 2)
	if s = w.attach(w.pod("x", "sink", "")); len(s.Beyond) != 1 || s.Beyond[0].Rate != mostRate {
		t.Errorf("of 20 pods that send 1e12 bytes a second: %v", s.Beyond)
	}
}
