package autoscale

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gnnsched/internal/fatal"
)

// consolidated returns a consolidator behind Cluster Autoscaler.
func consolidated(t *testing.T) Scaler {
	t.Helper()
	c := catalog(t)
	s, err := NewClusterAutoscaler(c, "price", Utilised, 1)
	fatal.If(t, err)
	return NewConsolidator(s.(Yielder), c)
}

func TestConsolidator(t *testing.T) {
	node := func(name, kind string, pods ...*v1.Pod) Node {
		l := Launch{Name: name, Pool: "general", Type: kind, Zone: "a"}
		return Node{Object: catalog(t).Node(l), Launch: l, Ready: true, Pods: pods}
	}
	job := func(hours time.Duration) func(*v1.Pod) {
		return func(p *v1.Pod) {
			owner("Job")(p)
			p.Status.StartTime = &metav1.Time{Time: began.Add(-hours * time.Hour)}
		}
	}
	none := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"},
		Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}}
	boots := node("z", "small")
	boots.Ready = false
	for _, c := range []struct {
		name    string
		cluster Cluster
		want    []string
		starts  string // the type of a machine
	}{
		{"the dearer one", Cluster{Nodes: []Node{node("a", "small", pod("x", "1")), node("b", "large", pod("y", "1"))}}, []string{"b"}, ""},
		{"one of two, which takes no pods", Cluster{Nodes: []Node{node("a", "small", pod("x", "1")), node("b", "small", pod("y", "1")),
			node("c", "large", pod("z", "5"))}}, []string{"a"}, ""},
		{"a job's work is worth more", Cluster{Nodes: []Node{node("a", "small", pod("x", "1")), node("b", "large", pod("y", "1", job(100)))}},
			[]string{"a"}, ""},
		{"nobody makes it anew", Cluster{Nodes: []Node{node("a", "small", pod("x", "1")),
			node("b", "large", pod("y", "1", func(p *v1.Pod) { p.OwnerReferences = nil }))}}, []string{"a"}, ""},
		{"a pod that no machine takes waits", Cluster{Nodes: []Node{node("a", "small", pod("x", "1")), node("b", "large", pod("y", "1"))},
			Waiting: []*v1.Pod{pod("w", "9")}}, []string{"b"}, ""},
		{"a pool below its limit", Cluster{Nodes: []Node{node("a", "large", pod("x", "8")), node("b", "large", pod("y", "1")),
			node("c", "small", pod("z", "2", job(100)))}}, nil, "small"},
		{"a pool at its limit", Cluster{Nodes: []Node{node("a", "large", pod("x", "8")), node("b", "large", pod("y", "1")),
			node("c", "small", pod("z", "2", job(100))), node("d", "small", pod("v", "2", job(100)))}}, nil, ""},
		{"a budget forbids it", Cluster{Nodes: []Node{node("a", "small", pod("x", "1")), node("b", "large", pod("y", "1"))},
			Budgets: []*policyv1.PodDisruptionBudget{none}}, nil, ""},
		{"a pod waits", Cluster{Nodes: []Node{node("a", "small", pod("x", "1")), node("b", "large", pod("y", "1")), boots},
			Waiting: []*v1.Pod{pod("w", "2")}}, nil, ""},
		{"a smaller machine", Cluster{Nodes: []Node{node("b", "large", pod("y", "1"))}}, nil, "small"},
		{"no smaller machine for a job", Cluster{Nodes: []Node{node("b", "large", pod("y", "1", job(100)))}}, nil, ""},
		{"full", Cluster{Nodes: []Node{node("a", "small", pod("x", "2")), node("b", "large", pod("y", "7"))}}, nil, ""},
	} {
		c.cluster.Now = began
		plan, err := consolidated(t).Step(t.Context(), &c.cluster)
		fatal.If(t, err)
		slices.Sort(plan.Remove)
		if starts := len(plan.Start) > 0; !slices.Equal(plan.Remove, c.want) || starts != (c.starts != "") || starts && plan.Start[0].Type != c.starts {
			t.Errorf("%s: %+v", c.name, plan)
		}
	}
}

// The machine that is started for a node's pods takes them when it is ready. If they fit elsewhere by then, it is left to the autoscaler.
func TestReplacement(t *testing.T) {
	c := catalog(t)
	l := Launch{Name: "b", Pool: "general", Type: "large", Zone: "a"}
	old := Node{Object: c.Node(l), Launch: l, Ready: true, Pods: []*v1.Pod{pod("y", "1")}}
	s := consolidated(t)
	see := func(after time.Duration, nodes ...Node) Plan {
		plan, err := s.Step(t.Context(), &Cluster{Now: began.Add(after), Nodes: nodes})
		fatal.If(t, err)
		return plan
	}
	first := see(0, old)
	if len(first.Start) != 1 || len(first.Remove) > 0 {
		t.Fatalf("%+v", first)
	}
	l = first.Start[0]
	fresh := Node{Object: c.Node(l), Launch: l, Started: began}
	if plan := see(30*time.Second, old, fresh); len(plan.Start)+len(plan.Remove) > 0 {
		t.Errorf("while it boots: %+v", plan)
	}
	fresh.Ready = true
	if plan := see(40*time.Second, old, fresh); !slices.Equal(plan.Remove, []string{"b"}) || len(plan.Start) > 0 {
		t.Errorf("when it is ready: %+v", plan)
	}
	if plan := see(41*time.Second, fresh); len(plan.Start)+len(plan.Remove) > 0 || plan.Next.IsZero() {
		t.Errorf("afterwards: %+v", plan)
	}
}
