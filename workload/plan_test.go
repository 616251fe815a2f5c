package workload

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gnnsched/internal/cluster"
)

// amount is a request and a limit; a limit of 0 means none.
type amount struct{ request, limit int64 }

// pods returns a Deployment of n pods.
func pods(name string, n int, cpu, mem amount) Deployment {
	return Deployment{Name: name, Replicas: n, Shape: Shape{
		Requests: cluster.Resources{MilliCPU: cpu.request, Memory: mem.request, Pods: 1},
		Limits:   cluster.Resources{MilliCPU: cpu.limit, Memory: mem.limit},
	}}
}

func TestPlanValidate(t *testing.T) {
	a := pods("a", 1, amount{100, 0}, amount{1 << 20, 0})
	for _, c := range []struct {
		name  string
		steps []Step
		want  string
	}{
		{"nothing", nil, ""},
		{"add, delete, add", []Step{{Action: Add, Deployment: a}, {Action: Delete, Deployment: a}, {Action: Add, Deployment: a}}, ""},
		{"add, reset, add", []Step{{Action: Add, Deployment: a}, {Action: Reset}, {Action: Add, Deployment: a}}, ""},
		{"twice", []Step{{Action: Add, Deployment: a}, {Action: Add, Deployment: a}}, `step 2 of the plan: "a" is already deployed`},
		{"delete first", []Step{{Action: Delete, Deployment: a}}, `step 1 of the plan: "a" is not deployed`},
		{"delete after reset", []Step{{Action: Add, Deployment: a}, {Action: Reset}, {Action: Delete, Deployment: a}}, "step 3"},
		{"name", []Step{{Action: Add, Deployment: pods("A", 1, amount{1, 0}, amount{1, 0})}}, `"A" cannot name a Deployment`},
		{"replicas", []Step{{Action: Add, Deployment: pods("a", 0, amount{1, 0}, amount{1, 0})}}, "0 replicas"},
		{"shape", []Step{{Action: Add, Deployment: pods("a", 1, amount{2, 1}, amount{1, 0})}}, "limits.cpu"},
		{"action", []Step{{Action: 7}}, "Action(7) is not an action"},
	} {
		err := Plan{Steps: c.steps}.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

func TestFills(t *testing.T) {
	a, b := pods("a", 2, amount{100, 0}, amount{1 << 20, 0}), pods("b", 3, amount{10, 0}, amount{1 << 10, 0})
	got := Plan{Steps: []Step{
		{Action: Add, Deployment: a}, {Action: Add, Deployment: b}, {Action: Delete, Deployment: a}, {Action: Reset},
		{Action: Add, Deployment: a}, {Action: Reset},
	}}.Fills()
	want := []Fill{
		{Deployments: 2, Deleted: 1, Pods: 5, Requests: cluster.Resources{MilliCPU: 30, Memory: 3 << 10, Pods: 3}},
		{Deployments: 1, Pods: 2, Requests: cluster.Resources{MilliCPU: 200, Memory: 2 << 20, Pods: 2}},
		{},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestTolerations(t *testing.T) {
	x := cluster.Toleration{Key: "x", Exists: true}
	shape := Shape{Tolerations: []cluster.Toleration{x, x}}
	p := Plan{Steps: []Step{
		{Action: Add, Deployment: Deployment{Shape: shape}}, {Action: Delete, Deployment: Deployment{Shape: shape}}, {Action: Reset},
	}}
	want := []cluster.Toleration{{Key: NodeTaint, Exists: true}, x}
	if d := cmp.Diff(want, p.Tolerations()); d != "" {
		t.Error(d)
	}
}
