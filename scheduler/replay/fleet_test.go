package replay

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"gnnsched/internal/fatal"
	"gnnsched/scheduler/autoscale"
	"gnnsched/scheduler/objective"
	"gnnsched/workload/record"
)

const machineTypes = `
- {name: m4, resources: {cpu: 4, memory: 16Gi}, overhead: {}, offerings: [{price: 0.4}], boot: 30s}
- {name: m8, resources: {cpu: 8, memory: 32Gi}, overhead: {}, offerings: [{price: 0.7}, {price: 0.2, spot: true}], boot: 30s, interruptionsPerDay: 24000}
- {name: never, resources: {cpu: 64, memory: 32Gi}, overhead: {}, offerings: [{price: 9}], boot: 1s, failures: 0.999999999}
`

// script is a scaler that does what a test wants, at the seconds after t0 at which it is asked.
type script struct {
	t    testing.TB
	plan func(second int64, c *autoscale.Cluster) autoscale.Plan
}

func (s script) Step(_ context.Context, c *autoscale.Cluster) (autoscale.Plan, error) {
	return s.plan((c.Now.UnixMilli()-t0)/1000, c), nil
}

func start(name, of string) autoscale.Plan {
	return autoscale.Plan{Start: []autoscale.Launch{{Name: name, Pool: "default", Type: of}}}
}

// scaled plays a source with a scaler.
func scaled(t testing.TB, s Source, scaler func(*autoscale.Catalog, uint64) (autoscale.Scaler, error), change ...func(*Scaling)) (Course, map[string]string) {
	t.Helper()
	catalog, err := autoscale.Read([]byte(machineTypes), nil)
	fatal.If(t, err)
	scaling := &Scaling{Catalog: catalog, New: scaler}
	for _, f := range change {
		f(scaling)
	}
	p, err := begin(t.Context(), s, Config{Profile: profile(t, "most-allocated"), Objective: objective.Balance{}, Blocks: 20, Seed: 1, Scaling: scaling}, false)
	if err == nil {
		err = p.run(t.Context())
	}
	fatal.If(t, err)
	homes := map[string]string{}
	for uid, pod := range p.Running {
		homes[string(uid)] = pod.Spec.NodeName
	}
	return p.finish(), homes
}

func scripted(t testing.TB, plan func(second int64, c *autoscale.Cluster) autoscale.Plan) func(*autoscale.Catalog, uint64) (autoscale.Scaler, error) {
	return func(*autoscale.Catalog, uint64) (autoscale.Scaler, error) { return script{t, plan}, nil }
}

func owned(kind string) func(*record.Pod) {
	return func(p *record.Pod) { p.OwnerKind, p.OwnerName = kind, "x" }
}

func unbound(p *record.Pod) { p.Bound, p.Node = 0, "" }

// A pod waits until its machine has booted, which costs from its start on, and DaemonSets' pods are on it.
func TestMachineBoots(t *testing.T) {
	asked := false
	daemon := pod("agent", 0, func(p *record.Pod) {
		p.Daemon, p.OwnerKind, p.OwnerName = true, "DaemonSet", "agent"
		p.Affinity = `{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{}]}}}` // the recorder took the node's name out
	})
	c, homes := scaled(t, source([]record.Pod{daemon, pod("web", 10, unbound)}), scripted(t, func(at int64, c *autoscale.Cluster) autoscale.Plan {
		if len(c.Waiting) == 0 || asked {
			return autoscale.Plan{}
		}
		asked = true
		return start("n", "m4")
	}))
	whole := c.Whole()
	if homes["web"] != "n" || homes["agent/n"] != "n" || c.Waits[0] != 30 || c.Started != 1 {
		t.Errorf("%v, %+v", homes, c)
	}
	if got, want := whole.Mean(Bill), 0.4*0.9; got < want-1e-9 || got > want+1e-9 || whole.Mean(Machines) != 0.9 || c.Hours["m4"] != 90/3600. {
		t.Errorf("%v an hour, want %v; %v machines, %v", got, want, whole.Mean(Machines), c.Hours)
	}
}

// Nodes that a recorder listed just after it began were there before; nodes that came later are left to the autoscaler.
func TestListedNodesAreThere(t *testing.T) {
	s := source([]record.Pod{pod("x", 10, unbound)}, node("a"), node("late"))
	s.Nodes[0].From, s.Nodes[1].From = s.From+9, s.From+20_000
	var saw []string
	scaled(t, s, scripted(t, func(_ int64, c *autoscale.Cluster) autoscale.Plan {
		saw = saw[:0]
		for _, n := range c.Nodes {
			saw = append(saw, n.Object.Name)
		}
		return autoscale.Plan{}
	}))
	if len(saw) != 1 || saw[0] != "a" {
		t.Errorf("the autoscaler saw %q", saw)
	}
}

// An autoscaler looks when it asked for it, also soon after another look, so that it sees what came meanwhile.
func TestLooksWhenAsked(t *testing.T) {
	large := func(ms int64) func(*record.Pod) {
		return func(p *record.Pod) { p.Arrived, p.Bound, p.Node, p.MilliCPU = p.Arrived+ms, 0, "", 5000 }
	}
	asked, saw := false, 0
	scaled(t, source([]record.Pod{pod("x", 10, large(0)), pod("y", 10, large(3))}, node("a")), scripted(t, func(_ int64, c *autoscale.Cluster) (out autoscale.Plan) {
		if !asked {
			asked, out.Next = true, time.UnixMilli(seconds(10)+5)
		}
		saw = max(saw, len(c.Waiting))
		return out
	}))
	if saw != 2 {
		t.Errorf("it saw %d pods", saw)
	}
}

// The machines of the record that the catalog knows are there at the beginning, with their pods. The pods of others wait.
func TestBeginsWithTheRecord(t *testing.T) {
	odd := node("odd")
	odd.MilliCPU = 3000
	running := pod("old", -50)
	lost := pod("lost", -40, func(p *record.Pod) { p.Node = "odd" })
	c, homes := scaled(t, source([]record.Pod{running, lost}, node("a"), odd), scripted(t, func(int64, *autoscale.Cluster) autoscale.Plan {
		return autoscale.Plan{}
	}))
	if homes["old"] != "a" || homes["lost"] != "a" || c.Pods != 1 || !strings.Contains(strings.Join(c.Notes, ";"), "1 nodes of the record, such as odd") {
		t.Errorf("%v, %+v", homes, c)
	}
	if notes := strings.Join(c.Notes, ";"); !strings.Contains(notes, "such as m4 for a") || strings.Contains(notes, "fit no pod") {
		t.Error(notes)
	}
}

// A drained machine goes when disruption budgets have let its pods go. What owners make anew runs elsewhere; work begins again.
func TestDrain(t *testing.T) {
	job := pod("job", 0, unbound, owned("Job"), func(p *record.Pod) { p.Ended, p.End = seconds(45), record.Succeeded })
	bare := pod("bare", 0, unbound)
	web := func(name string) record.Pod {
		return pod(name, 0, unbound, owned("ReplicaSet"), func(p *record.Pod) { p.Labels = `{"app":"web"}` })
	}
	s := source([]record.Pod{job, bare, web("w1"), web("w2")}, node("a"))
	s.Objects = []record.Object{{Kind: record.KindBudget, Namespace: "shop", Name: "web", From: t0,
		Spec: `{"minAvailable":1,"selector":{"matchLabels":{"app":"web"}}}`}}
	c, homes := scaled(t, s, scripted(t, func(at int64, c *autoscale.Cluster) autoscale.Plan {
		switch {
		case len(c.Nodes) == 1 && at < 10:
			out := start("b", "m4")
			out.Next = time.UnixMilli(seconds(35))
			return out
		case at == 35:
			return autoscale.Plan{Remove: []string{"a"}}
		}
		return autoscale.Plan{Next: time.UnixMilli(seconds(35))}
	}))
	if c.Evicted != 4 || c.Abandoned != 1 || c.LostCoreHours < 34.9/3600 || c.LostCoreHours > 35.1/3600 {
		t.Errorf("%d evicted, %d abandoned, %v core seconds lost", c.Evicted, c.Abandoned, c.LostCoreHours*3600)
	}
	if homes["w1"] != "b" || homes["w2"] != "b" || homes["bare"] != "" || homes["job"] != "" {
		t.Errorf("%v", homes)
	}
	if before, after := c.Blocks[3].Mean(Machines), c.Blocks[19].Mean(Machines); before != 2 || after != 1 {
		t.Errorf("%v machines, then %v", before, after)
	}
	if got := c.Hours["m4"] * 3600; got < 100+35 || got > 100+60 { // the second pod of the budget stays until the first runs again
		t.Errorf("%v", got)
	}
}

// Types that fit no pod, and budgets that allow no eviction, are named.
func TestNamesWhatIsOfNoUse(t *testing.T) {
	s := source([]record.Pod{pod("web", 0, unbound, func(p *record.Pod) { p.Labels, p.MilliCPU = `{"app":"web"}`, 5000 })})
	s.Objects = []record.Object{{Kind: record.KindBudget, Namespace: "shop", Name: "web", From: t0,
		Spec: `{"maxUnavailable":0,"selector":{"matchLabels":{"app":"web"}}}`}}
	c, _ := scaled(t, s, scripted(t, func(int64, *autoscale.Cluster) autoscale.Plan { return autoscale.Plan{} }))
	notes := strings.Join(c.Notes, ";")
	for _, want := range []string{"1 types, such as m4, fit no pod", "1 disruption budgets, such as shop/web, allow no eviction"} {
		if !strings.Contains(notes, want) {
			t.Errorf("no %q: %s", want, notes)
		}
	}
}

// A job that was evicted runs its whole time again.
func TestWorkBeginsAgain(t *testing.T) {
	job := pod("job", 0, unbound, owned("Job"), func(p *record.Pod) { p.Ended, p.End = seconds(45), record.Succeeded })
	for at, want := range map[int64]bool{20: true, 90: false} { // 20 + 45 s are within the window, and at 90 it is done
		done := false
		_, _ = scaled(t, source([]record.Pod{job}, node("a"), node("b")), scripted(t, func(now int64, c *autoscale.Cluster) autoscale.Plan {
			pods := 0
			for _, n := range c.Nodes {
				pods += len(n.Pods)
			}
			done = done || now >= 47 && now < 64 && pods == 1
			if now == at {
				for _, n := range c.Nodes {
					if len(n.Pods) > 0 {
						return autoscale.Plan{Remove: []string{n.Object.Name}, Next: time.UnixMilli(seconds(50))}
					}
				}
			}
			return autoscale.Plan{Next: time.UnixMilli(seconds(now + 10))}
		}))
		if done != want {
			t.Errorf("evicted at %d s: still runs at 50 s: %v", at, done)
		}
	}
}

// A provider takes spot machines back, and some machines never come.
func TestFaults(t *testing.T) {
	asked := map[string]bool{}
	s := source([]record.Pod{pod("web", 0, unbound, owned("ReplicaSet"))})
	s.To = seconds(2000)
	c, _ := scaled(t, s, scripted(t, func(at int64, c *autoscale.Cluster) autoscale.Plan {
		var out autoscale.Plan
		if !asked["never"] {
			asked["never"] = true
			out = start("n", "never")
		}
		if len(c.Waiting) > 0 && len(asked) < 4 {
			name := fmt.Sprint("spot", len(asked))
			asked[name] = true
			out.Start = append(out.Start, autoscale.Launch{Name: name, Pool: "default", Type: "m8", Spot: true})
		}
		return out
	}))
	if c.Failed != 1 || c.Interrupted == 0 || c.Evicted < c.Interrupted || c.Hours["never"] != 0.25 {
		t.Errorf("%+v", c)
	}
}

// Cluster Autoscaler starts machines for pods and removes them afterwards; equal seeds give equal courses, and nothing is lost.
func TestClusterAutoscaler(t *testing.T) {
	var pods []record.Pod
	for i := range 40 {
		pods = append(pods, pod(fmt.Sprint("p", i), int64(i*20), unbound, owned("Job"), func(p *record.Pod) {
			p.Ended, p.End = p.Arrived+300_000, record.Succeeded
		}))
	}
	s := source(pods)
	s.To = seconds(5000)
	of := func(c *autoscale.Catalog, seed uint64) (autoscale.Scaler, error) {
		return autoscale.NewClusterAutoscaler(c, "price", autoscale.Utilised, seed)
	}
	c, homes := scaled(t, s, of)
	if len(homes) != 0 || c.Unscheduled != 0 || c.Pods != 40 || c.Started == 0 || c.Blocks[19].Mean(Machines) != 0 {
		t.Errorf("%d still run, %+v", len(homes), c)
	}
	if again, _ := scaled(t, s, of); !reflect.DeepEqual(again, c) {
		t.Error("equal seeds give unequal courses")
	}
}

func TestFaultyScaler(t *testing.T) {
	for say, plan := range map[string]autoscale.Plan{"type \"x\"": start("n", "x"), "twice": {Start: append(start("n", "m4").Start, start("n", "m4").Start...)}} {
		_, err := Run(t.Context(), source([]record.Pod{pod("web", 0)}, node("a")), Config{Profile: profile(t, "most-allocated"),
			Objective: objective.Balance{}, Blocks: 2, Scaling: &Scaling{Catalog: readCatalog(t), New: scripted(t, func(int64, *autoscale.Cluster) autoscale.Plan {
				return plan
			})}})
		if err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("%v, want %s", err, say)
		}
	}
}

func readCatalog(t testing.TB) *autoscale.Catalog {
	t.Helper()
	c, err := autoscale.Read([]byte(machineTypes), nil)
	fatal.If(t, err)
	return c
}

// What owners ask of autoscalers reaches them.
func TestDisruptionReachesScalers(t *testing.T) {
	seen := map[string]*v1.Pod{}
	p := pod("web", 0, unbound, func(p *record.Pod) { p.DoNotDisrupt, p.Holds = `["karpenter.sh/do-not-disrupt=true"]`, `["emptyDir"]` })
	scaled(t, source([]record.Pod{p}, node("a")), scripted(t, func(_ int64, c *autoscale.Cluster) autoscale.Plan {
		for _, n := range c.Nodes {
			for _, p := range n.Pods {
				seen[p.Name] = p
			}
		}
		return autoscale.Plan{}
	}))
	if p := seen["web"]; p == nil || p.Annotations["karpenter.sh/do-not-disrupt"] != "true" || len(p.Spec.Volumes) != 1 {
		t.Errorf("%+v", seen)
	}
}
