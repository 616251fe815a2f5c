package supply

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
)

// After any changes the table equals a new one, and a placement lowers the free places by as much as Cost said.
func TestTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		drawPod := func(label string) *cluster.Pod {
			p := &cluster.Pod{Requests: cluster.Resources{MilliCPU: 500 * rapid.Int64Range(0, 8).Draw(t, label+" cpu"),
				Memory: rapid.Int64Range(0, 8).Draw(t, label+" memory") << 30, Pods: 1}}
			switch rapid.IntRange(0, 5).Draw(t, label+" gpu") {
			case 0:
				p.Requests.GPU = rapid.Int64Range(1, 2).Draw(t, label+" gpus")
			case 1:
				p.Requests.GPUMilli = 100 * rapid.Int64Range(1, 9).Draw(t, label+" share")
			}
			if rapid.Bool().Draw(t, label+" selects") {
				p.NodeSelector = map[string]string{"disk": "ssd"}
			}
			return p
		}
		s := &cluster.Snapshot{Demand: &cluster.Demand{}}
		drawNode := func() *cluster.Node {
			n := &cluster.Node{Version: cluster.NextVersion(), Allocatable: cluster.Resources{MilliCPU: 8000, Memory: 16 << 30, Pods: 12}}
			if rapid.Bool().Draw(t, "ssd") {
				n.Labels = map[string]string{"disk": "ssd"}
			}
			if rapid.Bool().Draw(t, "gpus") {
				n.Allocatable.GPU, n.GPUs = 2, make([]int64, 2)
			}
			return n
		}
		for range rapid.IntRange(1, 5).Draw(t, "nodes") {
			s.Nodes = append(s.Nodes, drawNode())
		}
		var kept Table
		for range rapid.IntRange(1, 15).Draw(t, "steps") {
			pod := drawPod("pod")
			switch at := rapid.IntRange(0, len(s.Nodes)).Draw(t, "at"); rapid.IntRange(0, 5).Draw(t, "nodes come and go") {
			case 0:
				s.Nodes = slices.Insert(s.Nodes, at, drawNode())
			case 1:
				if at > 0 && at < len(s.Nodes) {
					s.Nodes = slices.Delete(s.Nodes, at, at+1)
				}
			}
			s.Demand.Arrive(cluster.KindKey(pod), pod)
			kept.Sync(s)
			var fresh Table
			fresh.Sync(s)
			for k := range fresh.Totals {
				if kept.Totals[k] != fresh.Totals[k] || kept.Nodes != fresh.Nodes {
					t.Fatalf("kind %d: %+v, a fresh look %+v", k, kept.Totals[k], fresh.Totals[k])
				}
			}
			fit := s.Feasible(pod, nil)
			if len(fit) == 0 {
				continue
			}
			v := rapid.SampledFrom(fit).Draw(t, "node")
			k := len(s.Demand.Kinds)
			lost, cost := make([]float64, k), make([]float64, 1)
			for i := range lost { // a price for one kind after another
				at := Prices{make([]float64, k), make([]float64, k)}
				at.Whole[i] = 1
				kept.Cost(s, []int32{v}, &pod.Requests, at, cost)
				lost[i] = cost[0]
				if at.Part[i] = 1; lost[i] < 0 {
					t.Fatalf("kind %d loses %v places", i, lost[i])
				}
				if kept.Cost(s, []int32{v}, &pod.Requests, at, cost); cost[0] < lost[i] {
					t.Fatalf("kind %d: a part costs %v", i, cost[0]-lost[i])
				}
			}
			s.Nodes[v].Add(pod.Requests)
			before, places := slices.Clone(kept.rows[v].partly), slices.Clone(kept.rows[v].free)
			kept.Sync(s)
			for k := range kept.rows[v].kinds {
				if got := before[k] - kept.rows[v].partly[k]; math.Abs(got-lost[k]) > 1e-9 {
					t.Fatalf("kind %d lost %v places, %v were expected", k, got, lost[k])
				}
				if whole := places[k] - kept.rows[v].free[k]; lost[k] < float64(whole)-1 || lost[k] > float64(whole)+1 {
					t.Fatalf("kind %d lost %v places with parts, and %d whole ones", k, lost[k], whole)
				}
			}
		}
	})
}

// The last piece that a place lacks is worth most, and whole places count one each.
func TestPartsOfPlaces(t *testing.T) {
	asks := cluster.Resources{MilliCPU: 4000, Memory: 4 << 30, Pods: 1}
	p := partOf(&asks)
	for cores, want := range map[float64]float64{0: 0, 1: math.Pow(0.25, 8), 2: math.Pow(0.5, 8), 3: math.Pow(0.75, 8), 4: 1, 6: 1 + math.Pow(0.5, 8), 8: 2, 400: 10} {
		if got := p.of(&left{cpu: 1000 * cores, memory: 1 << 40, pods: 10}); math.Abs(got-want) > 1e-9 {
			t.Errorf("%v cores have %v places, want %v", cores, got, want)
		}
	}
	none := partOf(&cluster.Resources{})
	if got := none.of(&left{cpu: 100, memory: 1 << 30, pods: 7}); got != 7 {
		t.Errorf("%v places for a pod that requests nothing, want 7", got)
	}
}
