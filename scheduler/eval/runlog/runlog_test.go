package runlog_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	clocktest "k8s.io/utils/clock/testing"

	"gnnsched/internal/runfolder"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/contender"
	"gnnsched/scheduler/eval/runlog"
	"gnnsched/scheduler/sim"
)

// small returns a built-in scenario on few nodes.
func small(t *testing.T, name string, nodes int) eval.Scenario {
	t.Helper()
	s, err := eval.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	s.Config.Nodes, s.Config.Turnover = sim.Exactly(nodes), 1
	return s
}

// logged plays a scenario and returns the folder and the comparison.
func logged(t *testing.T, s eval.Scenario, policies ...string) (*runfolder.Run, *eval.Comparison) {
	t.Helper()
	all, err := contender.List(policies, nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "run")
	w, err := runfolder.Create(dir, runfolder.Manifest{Kind: "eval"}, clocktest.NewFakePassiveClock(time.Unix(0, 0)))
	if err != nil {
		t.Fatal(err)
	}
	log := runlog.New(w, 1, len(all))
	seeds := eval.Seeds(1, 3)
	c, err := eval.Compare(context.Background(), s, log.Watched(s, all, seeds[0]), seeds, nil)
	if err != nil {
		t.Fatal(err)
	}
	log.Write(c)
	if err := w.Close(nil); err != nil {
		t.Fatal(err)
	}
	r, err := runfolder.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	return r, c
}

// The folder agrees with the comparison's outcomes: pods by their waits, nodes by the last frame, differences by their means. Watching
// changes no outcome.
func TestFolderAgreesWithTheComparison(t *testing.T) {
	for _, s := range []eval.Scenario{small(t, "hetero95", 6), small(t, "lossy", 10), small(t, "bursty", 6)} {
		t.Run(s.Name, func(t *testing.T) {
			r, c := logged(t, s, "kube-scheduler", "best-fit")
			again, err := contender.List([]string{"kube-scheduler", "best-fit"}, nil)
			if err != nil {
				t.Fatal(err)
			}
			unwatched, err := eval.Compare(context.Background(), s, again, c.Seeds, nil)
			if err != nil {
				t.Fatal(err)
			}
			for k, result := range c.Results {
				if got, want := fmt.Sprintf("%+v", result.Outcomes), fmt.Sprintf("%+v", unwatched.Results[k].Outcomes); got != want {
					t.Errorf("%s: watched %s, else %s", result.Name, got, want)
				}
				agree(t, r, result)
			}
			if n := len(r.Differences); n != 4 {
				t.Errorf("%d differences, want one for each of four metrics", n)
			}
			if len(r.Verdicts) != 1 || len(r.Scenarios) != 1 || r.Scenarios[0].Baseline != "kube-scheduler" {
				t.Errorf("%+v, %+v", r.Verdicts, r.Scenarios)
			}
		})
	}
}

func agree(t *testing.T, r *runfolder.Run, result eval.Result) {
	t.Helper()
	var arrived, unscheduled, waited, pods, never, late int
	for _, o := range result.Outcomes {
		arrived, unscheduled, waited = arrived+o.Arrived, unscheduled+o.Unscheduled, waited+o.Waited
	}
	for _, w := range r.Waits {
		if w.Contender == result.Name {
			if w.Pods > w.Never && len(w.Quantiles) != len(runfolder.Quantiles) {
				t.Errorf("%+v", w)
			}
			pods, never, late = pods+w.Pods, never+w.Never, late+w.Waited
		}
	}
	if pods != arrived || never != unscheduled || late > waited || late < never {
		t.Errorf("%s: %d of %d pods never and %d late; the outcomes have %d of %d and %d",
			result.Name, never, pods, late, unscheduled, arrived, waited)
	}
	var last runfolder.Frame
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
