package driver

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	testclock "k8s.io/utils/clock/testing"

	"gnnsched/internal/cluster"
	"gnnsched/workload"
	"gnnsched/workload/cleanup"
	"gnnsched/workload/driver/fakecluster"
)

// Each pod's wait ends with its first node, or at the end of the fill. A pod that is gone before counts as one without a node.
func TestWaits(t *testing.T) {
	clock := testclock.NewFakeClock(time.Unix(1e9, 0))
	var told []string
	shape := workload.Shape{Requests: cluster.Resources{MilliCPU: 500, Pods: 1}}
	names := []string{"soon", "late", "never", "gone", "missed"}
	var steps []workload.Step
	for i, n := range names {
		d := workload.Deployment{Name: n, Replicas: 1, Shape: shape}
		d.Shape.Requests.MilliCPU += int64(i)
		steps = append(steps, workload.Step{Action: workload.Add, Deployment: d})
	}
	c := fakecluster.New(&corev1.Node{})
	c.Slots, c.Reason = 0, "no room"
	s := stepped(t, c, Config{
		Client: c.Client, Cleaner: &cleanup.Client{Metadata: c.Metadata, Kinds: c, Clock: clock}, Plan: workload.Plan{Steps: steps},
		SchedulerName: "gnn", RunID: "r", Bare: true, Clock: clock,
		Waited: func(r cluster.Resources, wait time.Duration, placed bool) {
			told = append(told, fmt.Sprintf("%s %v %v", names[r.MilliCPU-500], wait, placed))
		},
	})
	for _, step := range steps {
		s.add(step.Deployment)
	}
	see := func(deployment int, after time.Duration, change func(*corev1.Pod)) {
		clock.Step(after)
		p := s.get(podName(steps[deployment].Deployment, 0)).DeepCopy()
		p.Spec.NodeName = "n"
		change(p)
	}
	see(0, 0, s.pods.set)
	see(1, 3*time.Second, s.pods.set)
	see(1, time.Second, func(p *corev1.Pod) { p.Labels["again"] = "yes"; s.pods.set(p) })
	see(3, 0, func(p *corev1.Pod) { p.Spec.NodeName = ""; s.pods.drop(p) })
	see(4, time.Second, s.pods.drop) // it was bound since the last event
	s.end()
	slices.Sort(told)
	if want := []string{"gone 5s false", "late 3s true", "missed 5s true", "never 5s false", "soon 0s true"}; !slices.Equal(told, want) {
		t.Errorf("%q, want %q", told, want)
	}
	told = nil
	s.begin()
	if s.tellWaits(); len(told) != 0 {
		t.Errorf("%q were told twice", told)
	}
}
