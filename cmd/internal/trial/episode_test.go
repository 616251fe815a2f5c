package trial

import (
	"flag"
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/replay"
	"gnnsched/scheduler/sim"
	"gnnsched/workload/record"
)

// sourceOf draws the episode of seed 3 with a unit of time; 0: the default, or the scenario's own.
func sourceOf(t *testing.T, s eval.Scenario, unit time.Duration) replay.Source {
	t.Helper()
	set := flag.NewFlagSet("", flag.ContinueOnError)
	set.Duration("unit", time.Minute, "")
	if unit != 0 {
		fatal.If(t, set.Parse([]string{"--unit", unit.String()}))
	}
	return fatal.Value(episodes(ucli.NewContext(nil, set, nil), s, []uint64{2, 3}))(t)[1]
}

// A replay of an episode has its nodes and, at the same times, its pods.
func TestEpisodes(t *testing.T) {
	for name, unit := range map[string]time.Duration{
		"jobs": time.Minute, "scarce": 10 * time.Second, "scarce-spot": time.Second, "diurnal": 1500 * time.Millisecond, "mixed-gpu95": time.Hour,
		"blind": 0, "family-affinity": time.Minute,
	} {
		t.Run(name, func(t *testing.T) {
			s := fatal.Value(eval.Find(name))(t)
			r := sourceOf(t, s, unit)
			if unit == 0 {
				unit = 15 * time.Second // the scenario's own
			}
			env := fatal.Value(sim.New(s.Config))(t)
			fatal.If(t, env.Reset(3))
			checkNodes(t, r.Nodes, env.Nodes())
			at := func(units float64) int64 { return r.From + int64(math.Round(units*float64(unit.Milliseconds()))) }
			plan := env.Plan()
			if len(plan) != len(r.Pods) || r.To != at(plan[len(plan)-1].At+1) || r.Notes[0] != fmt.Sprintf("a unit of the scenario's time is %g s", unit.Seconds()) {
				t.Fatalf("%d pods of %d to %d: %q", len(r.Pods), len(plan), r.To, r.Notes)
			}
			for i, a := range plan {
				p := r.Pods[i]
				ends := at(max(a.At, env.FillEnd()) + a.Lifetime)
				if math.IsInf(a.Lifetime, 1) || ends >= r.To {
					ends = 0
				}
				if p.Arrived != at(a.At) || p.Ended < ends-1 || p.Ended > ends+1 || p.OwnerKind == "" {
					t.Fatalf("%+v of %+v, want the end %d", p, a, ends)
				}
				checkPod(t, p, a.Pod)
			}
		})
	}
}

func checkNodes(t *testing.T, rows []record.Node, nodes []*cluster.Node) {
	t.Helper()
	if len(rows) != len(nodes) {
		t.Fatalf("%d nodes of %d", len(rows), len(nodes))
	}
	for i, n := range nodes {
		r, labels := rows[i], map[string]string{"kubernetes.io/hostname": n.Name}
		maps.Copy(labels, n.Labels)
		has := cluster.Resources{MilliCPU: r.MilliCPU, Memory: r.Memory, Pods: r.Pods, GPU: r.GPU}
		if has != n.Allocatable || !maps.Equal(record.Labels(r.Labels), labels) || strings.Count(r.Taints, `"key"`) != len(n.Taints) {
			t.Errorf("%+v of %+v", r, n)
		}
	}
}

func checkPod(t *testing.T, r record.Pod, p *cluster.Pod) {
	t.Helper()
	requests := cluster.Resources{MilliCPU: r.MilliCPU, Memory: r.Memory, GPU: r.GPU, GPUMilli: r.GPUMilli, Pods: 1}
	if requests != p.Requests || !maps.Equal(record.Labels(r.NodeSelector), p.NodeSelector) || !strings.HasPrefix(r.Name, p.Name) ||
		strings.Count(r.Tolerations, `"key"`) != len(p.Tolerations) || (r.Affinity == "") != (len(p.NodeAffinity) == 0) || record.Check(&r) != nil {
		t.Fatalf("%+v of %+v", r, p)
	}
}

// Deployments are ReplicaSets, whose pods have labels if the scenario spreads them. Single pods that leave are Jobs. What a replay has no
// place for is named.
func TestOwnersOfEpisodes(t *testing.T) {
	for _, c := range []struct {
		scenario string
		kinds    string // of owners
		labels   bool
		lacks    string
	}{
		{"scarce", "Job", false, ""},
		{"jobs", "ReplicaSet", true, ""},
		{"small8", "ReplicaSet", true, ""},
		{"scarce-deployments", "ReplicaSet", false, ""},
		{"traffic", "Job ReplicaSet", false, "send each other"},
		{"blind", "Job ReplicaSet", true, "what pods use (they use what they request)"},
	} {
		r := sourceOf(t, fatal.Value(eval.Find(c.scenario))(t), 0)
		scales, pods := map[string]int32{}, map[string]int32{}
		for _, o := range r.Objects {
			var s record.Scale
			fatal.If(t, record.ReadColumn(o.Scale, &s))
			if o.Kind == record.KindJob {
				s.Replicas = s.Completions
			}
			scales[o.Name] = max(scales[o.Name], *s.Replicas)
		}
		for _, p := range r.Pods {
			if !strings.Contains(c.kinds, p.OwnerKind) || p.OwnerKind == "ReplicaSet" && (p.Labels != "") != c.labels {
				t.Fatalf("%s: %+v", c.scenario, p)
			}
			pods[p.OwnerName]++
		}
		for name, n := range pods {
			if scales[name] < 1 || scales[name] > n {
				t.Errorf("%s: %s has up to %d replicas of %d pods", c.scenario, name, scales[name], n)
			}
		}
		if notes := strings.Join(r.Notes, "\n"); !strings.Contains(notes, c.lacks) || (c.lacks != "") != strings.Contains(notes, "not played") {
			t.Errorf("%s: notes %q, want %q", c.scenario, notes, c.lacks)
		}
	}
}
