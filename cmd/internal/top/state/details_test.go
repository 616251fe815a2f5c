package state

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDetails(t *testing.T) {
	c := New()
	c.SetNode(worker("a"))
	for _, p := range []struct{ name, node, workload string }{
		{"web-10", "a", "Deployment/web"}, {"web-9", "a", "Deployment/web"}, {"web-11", "b", "Deployment/web"}, {"web-12", "", "Deployment/web"},
		{"lone", "b", ""}, {"other", "", ""},
	} {
		pod := pod(p.name, p.node, 100, 1<<20)
		pod.Workload, pod.GPU = p.workload, 500
		c.SetPod(pod, noon)
	}
	var names []string
	for _, p := range c.PodsOn("a") {
		names = append(names, p.Name)
	}
	if d := cmp.Diff([]string{"web-9", "web-10"}, names); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	want := BoundPod{Namespace: "default", Name: "web-9", Workload: "Deployment/web", Scheduler: "gnn", CPU: 100, Memory: 1 << 20, GPU: 500}
	got := c.PodsOn("a")[0]
	if !got.Created.Equal(pod("", "", 0, 0).Created) {
		t.Errorf("created at %v", got.Created)
	}
	got.Created = want.Created
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	if got := c.PodsOn("nowhere"); got != nil {
		t.Errorf("pods on no node: %v", got)
	}
	if d := cmp.Diff([]Workload{
		{Namespace: "default", Name: "Deployment/web", Bound: 3, Pending: 1, Nodes: 2, CPU: 400, Memory: 4 << 20, GPU: 2000},
		{Namespace: "default", Bound: 1, Pending: 1, Nodes: 1, CPU: 200, Memory: 2 << 20, GPU: 1000},
	}, c.Workloads()); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	c.SetPod(Pod{Namespace: "default", Name: "lone", Done: true}, noon)
	c.SetPod(Pod{Namespace: "default", Name: "other", Done: true}, noon)
	if got := c.Workloads(); len(got) != 1 {
		t.Errorf("a workload without pods stays: %v", got)
	}
}
