//go:build !service && !k136

package karpenter

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"gnnsched/scheduler/autoscale"
)

var start = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

func amounts(cpu, memory string) v1.ResourceList {
	return v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory),
		v1.ResourcePods: resource.MustParse("110")}
}

// shop returns a catalog with types of 2, 4 and 8 cores in zones a and b; one of 8 in zone a is also sold as spot.
func shop(pools ...autoscale.Pool) *autoscale.Catalog {
	c := &autoscale.Catalog{Pools: pools}
	for _, cores := range []int{2, 4, 8} {
		t := autoscale.Type{
			Name:        fmt.Sprintf("m%d", cores),
			Capacity:    amounts(fmt.Sprint(cores), fmt.Sprintf("%dGi", 4*cores)),
			Allocatable: amounts(fmt.Sprintf("%dm", cores*1000-100), fmt.Sprintf("%dGi", 4*cores-1)),
			Labels:      map[string]string{v1.LabelArchStable: "amd64", v1.LabelOSStable: "linux", "cloud.example/cores": fmt.Sprint(cores)},
			Boot:        time.Minute,
			Offerings:   []autoscale.Offering{{Zone: "a", Price: float64(cores)}, {Zone: "b", Price: float64(cores) * 1.1}},
		}
		c.Types = append(c.Types, t)
	}
	return c
}

// pool returns a pool of on-demand machines. Its manifest has what stands in spec, as JSON.
func pool(name, disruption, more string) autoscale.Pool {
	return autoscale.Pool{Name: name, Manifest: []byte(`{"metadata": {"name": "` + name + `"}, "spec": {` + more +
		`"disruption": ` + disruption + `, "template": {"metadata": {"labels": {"team": "x"}}, "spec": {
		"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
		"requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}]}}}}`)}
}

const atOnce = `{"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]}`

func pod(name, cpu string, change ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), Labels: map[string]string{"app": "web"}}}
	p.Spec.Containers = []v1.Container{{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
		v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse("100Mi")}}}}
	for _, f := range change {
		f(p)
	}
	return p
}

// world carries out plans: machines boot for a minute, waiting pods go to the first machine with room for their CPU.
type world struct {
	t       testing.TB
	scaler  autoscale.Scaler
	catalog *autoscale.Catalog
	c       autoscale.Cluster
	log     []string
}

func newWorld(t testing.TB, catalog *autoscale.Catalog, opts ...Option) *world {
	s, err := New(catalog, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return &world{t: t, scaler: s, catalog: catalog, c: autoscale.Cluster{Now: start}}
}

func (w *world) node(name string) *autoscale.Node {
	for i := range w.c.Nodes {
		if w.c.Nodes[i].Object.Name == name {
			return &w.c.Nodes[i]
		}
	}
	return nil
}

// add adds a machine.
func (w *world) add(l autoscale.Launch, ready bool, pods ...*v1.Pod) {
	var typ autoscale.Type
	for _, t := range w.catalog.Types {
		if t.Name == l.Type {
			typ = t
		}
	}
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: l.Name, Labels: map[string]string{v1.LabelHostname: l.Name, v1.LabelTopologyZone: l.Zone}}}
	n.Status.Capacity, n.Status.Allocatable = typ.Capacity, typ.Allocatable
	w.c.Nodes = append(w.c.Nodes, autoscale.Node{Object: n, Launch: l, Started: w.c.Now, Ready: ready, Pods: pods})
	slices.SortFunc(w.c.Nodes, func(a, b autoscale.Node) int { return cmp.Compare(a.Object.Name, b.Object.Name) })
}

// step lets the scaler decide, and carries its plan out.
func (w *world) step() autoscale.Plan {
	w.t.Helper()
	plan, err := w.scaler.Step(w.t.Context(), &w.c)
	if err != nil {
		w.t.Fatal(err)
	}
	say := func(what string, args ...any) {
		w.log = append(w.log, fmt.Sprintf("%4.0fs ", w.c.Now.Sub(start).Seconds())+fmt.Sprintf(what, args...))
	}
	for _, l := range plan.Start {
		w.add(l, false)
		say("start %s %s %s", l.Name, l.Type, l.Zone)
	}
	for _, name := range plan.Close {
		w.node(name).Closed = true
		say("close %s", name)
	}
	for _, name := range plan.Open {
		w.node(name).Closed = false
		say("open %s", name)
	}
	for _, name := range plan.Remove {
		n := w.node(name)
		w.c.Waiting = append(w.c.Waiting, n.Pods...)
		w.c.Nodes = slices.DeleteFunc(w.c.Nodes, func(n autoscale.Node) bool { return n.Object.Name == name })
		say("remove %s", name)
	}
	if !plan.Next.IsZero() && !plan.Next.After(w.c.Now) {
		w.t.Fatalf("next is %v at %v", plan.Next, w.c.Now)
	}
	return plan
}

// run goes on for a time, from each Next and each machine that gets ready to the next one.
func (w *world) run(d time.Duration) string {
	w.t.Helper()
	for end := w.c.Now.Add(d); ; {
		w.place()
		plan := w.step()
		for len(plan.Start)+len(plan.Close)+len(plan.Open)+len(plan.Remove) > 0 {
			w.place()
			plan = w.step()
		}
		at := plan.Next
		for i := range w.c.Nodes {
			if n := &w.c.Nodes[i]; !n.Ready {
				if ready := n.Started.Add(time.Minute); at.IsZero() || ready.Before(at) {
					at = ready
				}
			}
		}
		if at.IsZero() || at.After(end) {
			w.c.Now = end
			break
		}
		w.c.Now = at
		for i := range w.c.Nodes {
			if n := &w.c.Nodes[i]; !n.Started.Add(time.Minute).After(at) {
				n.Ready = true
			}
		}
	}
	out := strings.Join(w.log, "\n")
	w.log = nil
	return out
}

// place gives waiting pods to the first machines with room.
func (w *world) place() {
	w.c.Waiting = slices.DeleteFunc(slices.Clone(w.c.Waiting), func(p *v1.Pod) bool {
		for i := range w.c.Nodes {
			n := &w.c.Nodes[i]
			free := n.Object.Status.Allocatable.Cpu().DeepCopy()
			for _, q := range n.Pods {
				free.Sub(q.Spec.Containers[0].Resources.Requests[v1.ResourceCPU])
			}
			if n.Ready && !n.Closed && free.Cmp(p.Spec.Containers[0].Resources.Requests[v1.ResourceCPU]) >= 0 {
				n.Pods = append(slices.Clip(n.Pods), p)
				return true
			}
		}
		return false
	})
}
