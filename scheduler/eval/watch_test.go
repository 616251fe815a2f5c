package eval_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
	"gnnsched/internal/each"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/eval"
	policies "gnnsched/scheduler/eval/contender"
	"gnnsched/scheduler/sim"
)

// small returns a built-in scenario on few nodes.
func small(t *testing.T, name string, nodes int) eval.Scenario {
	t.Helper()
	s := fatal.Value(eval.Find(name))(t)
	s.Config.Nodes, s.Config.Turnover = sim.Exactly(nodes), 1
	return s
}

// seen plays a scenario and returns the comparison with what was seen.
func seen(t *testing.T, s eval.Scenario, names ...string) *eval.Comparison {
	t.Helper()
	all := fatal.Value(policies.List(names, nil))(t)
	seeds := eval.Seeds(1, 3)
	all, watching := eval.Watched(all, seeds[0], len(all))
	c := fatal.Value(eval.Compare(context.Background(), s, all, seeds, nil))(t)
	watching.Into(c)
	return c
}

// What was seen agrees with the outcomes: pods by their waits, nodes by the last frame. Watching changes no outcome, and JSON keeps it.
func TestObserved(t *testing.T) {
	for _, s := range []eval.Scenario{small(t, "hetero95", 6), small(t, "lossy", 10), small(t, "bursty", 6)} {
		t.Run(s.Name, func(t *testing.T) {
			c := seen(t, s, "kube-scheduler", "best-fit")
			again := fatal.Value(policies.List([]string{"kube-scheduler", "best-fit"}, nil))(t)
			unwatched := fatal.Value(eval.Compare(context.Background(), s, again, c.Seeds, nil))(t)
			for k, result := range c.Results {
				if got, want := fmt.Sprintf("%+v", result.Outcomes), fmt.Sprintf("%+v", unwatched.Results[k].Outcomes); got != want {
					t.Errorf("%s: watched %s, else %s", result.Name, got, want)
				}
				agree(t, c.Observed, result)
			}
			text := fatal.Value(json.Marshal([]*eval.Comparison{c}))(t)
			back, err := eval.ReadJSON(bytes.NewReader(text))
			if err != nil || !reflect.DeepEqual(back[0].Observed, c.Observed) {
				t.Errorf("JSON does not keep what was seen, %v", err)
			}
			whole, err := eval.Merge(append(back, c))
			if err != nil || len(whole) != 1 || !reflect.DeepEqual(whole[0].Observed, c.Observed) {
				t.Errorf("two files of the same run hold more than one, %v", err)
			}
		})
	}
}

func agree(t *testing.T, r *eval.Observed, result eval.Result) {
	t.Helper()
	var arrived, unscheduled, waited, pods, never, late int
	for _, o := range result.Outcomes {
		arrived, unscheduled, waited = arrived+o.Arrived, unscheduled+o.Unscheduled, waited+o.Waited
	}
	for _, w := range r.Waits {
		if w.Contender == result.Name {
			if w.Pods > w.Never && len(w.Quantiles) != len(eval.Quantiles) {
				t.Errorf("%+v", w)
			}
			pods, never, late = pods+w.Pods, never+w.Never, late+w.Waited
		}
	}
	if pods != arrived || never != unscheduled || late > waited || late < never {
		t.Errorf("%s: %d of %d pods never and %d late; the outcomes have %d of %d and %d",
			result.Name, never, pods, late, unscheduled, arrived, waited)
	}
	var last eval.Frame
	frames, decisions := 0, 0
	for _, f := range r.Frames {
		if f.Contender != result.Name {
			continue
		}
		if frames++; f.At < last.At {
			t.Errorf("%s: a frame at %v after one at %v", result.Name, f.At, last.At)
		}
		last = f
	}
	inUse := 0
	for _, n := range last.Nodes {
		if n.Pods > 0 {
			inUse++
		}
		if n.CPU < 0 || n.CPU > 1 {
			t.Errorf("%s: %+v", result.Name, n)
		}
	}
	o := result.Outcomes[0]
	if len(last.Nodes) != o.Nodes {
		t.Errorf("%s: %d nodes in a frame; the outcome has %d", result.Name, len(last.Nodes), o.Nodes)
	}
	if inUse != o.NodesInUse || last.Waiting != o.Unscheduled || frames < 20 || frames > 100 {
		t.Errorf("%s: %d nodes in use and %d pods waiting in the last of %d frames; the outcome has %d and %d",
			result.Name, inUse, last.Waiting, frames, o.NodesInUse, o.Unscheduled)
	}
	for _, d := range r.Decisions {
		if d.Contender != result.Name {
			continue
		}
		decisions++
		if d.Node == "" || d.Node == d.RunnerUp || d.Feasible < 1 || (d.RunnerUp == "" && d.Feasible > 1 && d.RunnerUpScore != 0) ||
			d.Waited < 0 {
			t.Errorf("%+v", d)
		}
		if d.RunnerUp != "" && d.RunnerUpScore > d.Score {
			t.Errorf("the runner-up has the higher score: %+v", d)
		}
	}
	if decisions < 20 || decisions > 310 {
		t.Errorf("%s: %d decisions", result.Name, decisions)
	}
}

// Summarise agrees with counting.
func TestSummarise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		times := rapid.SliceOf(rapid.Float64Range(0.1, 9)).Draw(t, "times")
		atOnce, never := rapid.IntRange(0, 5).Draw(t, "at once"), rapid.IntRange(0, 3).Draw(t, "never")
		all := append(make([]float64, atOnce), times...)
		var w eval.Waits
		w.Summarise(atOnce, times, never)
		if w.Pods != len(all)+never || w.Never != never || w.Waited != len(times)+never || len(all) > 0 && len(w.Quantiles) != len(eval.Quantiles) {
			t.Fatalf("%+v", w)
		}
		for i, v := range w.Quantiles {
			least := each.Count(all, func(x float64) bool { return x <= v })
			if float64(least) < eval.Quantiles[i]*float64(len(all)) || !slices.Contains(all, v) {
				t.Fatalf("quantile %v of %v is %v", eval.Quantiles[i], all, v)
			}
		}
	})
}

// A tally has a class for each request, or a few if there are many. It counts only pods that did not get a node soon as having waited.
func TestTally(t *testing.T) {
	core := func(n int64) eval.Class {
		return eval.ClassOf(&cluster.Pod{Requests: cluster.Resources{MilliCPU: 1000 * n, Memory: n << 30}})
	}
	tally := eval.Tally{Soon: 1}
	for _, wait := range []float64{0, 0.5, 1, 2} {
		tally.Add("a", core(1), wait, true)
	}
	tally.Add("a", core(2), 9, false)
	tally.Add("b", core(1), 3, true)
	rows := tally.Rows("a", "b", "c")
	if len(rows) != 3 {
		t.Fatalf("%+v", rows)
	}
	first, second, third := rows[0], rows[1], rows[2]
	if first.Class != "1 CPU, 1 GiB" || first.Pods != 4 || first.Waited != 1 || first.Mean != 0.875 || first.Quantiles[4] != 2 ||
		second.Never != 1 || second.Waited != 1 || third.Contender != "b" || third.Waited != 1 {
		t.Errorf("%+v", rows)
	}
	for n := range int64(12) {
		tally.Add("b", core(n+2), 0, true)
	}
	special := core(1)
	special.Where = "disk=ssd"
	tally.Add("d", special, 1, true)
	if got := special.String(); got != "1 CPU, 1 GiB, disk=ssd" {
		t.Errorf("a class with a selector is %q", got)
	}
	if got := tally.Rows("a")[0].Class; got != "under 4 CPU" {
		t.Errorf("of 13 requests the class is %q", got)
	}
}

// A frame has no control plane, unless there is nothing else.
func TestWorkers(t *testing.T) {
	node := func(name string, taints ...cluster.Taint) *cluster.Node {
		return &cluster.Node{
			Name: name, Taints: taints, Allocatable: cluster.Resources{MilliCPU: 3000, Memory: 4},
			Requested: cluster.Resources{MilliCPU: 1000, Memory: 1, Pods: 2},
		}
	}
	control := node("c", cluster.Taint{Key: "node-role.kubernetes.io/control-plane", Effect: cluster.NoSchedule})
	if got := eval.Workers([]*cluster.Node{control, node("a", cluster.Taint{Key: "gpu", Effect: cluster.NoSchedule})}); len(got) != 1 ||
		got[0] != (eval.Node{Name: "a", CPU: 0.3333, Memory: 0.25, Pods: 2}) {
		t.Errorf("%+v", got)
	}
	if got := eval.Workers([]*cluster.Node{control}); len(got) != 1 || got[0].Name != "c" {
		t.Errorf("%+v", got)
	}
}
