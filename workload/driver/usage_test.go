package driver

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gnnsched/workload"
	"gnnsched/workload/usage"
)

// Pods carry the model of their shape. A model that does not fit an annotation is refused.
func TestUsageOnPods(t *testing.T) {
	want := &usage.Model{Work: 60, Curves: [usage.Dimensions]usage.Curve{usage.CPU: usage.Constant(0.5)}}
	d := workload.Deployment{Name: "web", Replicas: 1, Shape: workload.Shape{Usage: want}}
	cfg := Config{SchedulerName: "gnn", RunID: "r1", Namespace: "ns", Image: "img"}
	got, err := usage.ParseAnnotation(cfg.pods(d, 1)[0].Annotations[usage.Annotation])
	if err != nil || !cmp.Equal(want, got) {
		t.Errorf("%v: %s", err, cmp.Diff(want, got))
	}
	d.Shape.Usage = nil
	if a := cfg.deployment(d, 1).Spec.Template.Annotations; a != nil {
		t.Errorf("a pod without usage is annotated: %v", a)
	}

	d.Shape.Requests.Pods = 1
	d.Shape.Usage = &usage.Model{Curves: [usage.Dimensions]usage.Curve{usage.CPU: &usage.Series{
		Step: 1, Scale: 0.001, Values: make([]float32, 20_000),
	}}}
	for i := range 20_000 {
		d.Shape.Usage.Curves[usage.CPU].(*usage.Series).Values[i] = 0.123456
	}
	cfg.Plan.Steps = []workload.Step{{Deployment: d}}
	if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "step 1 of the plan: web: usage: the model has") {
		t.Errorf("%v", err)
	}
}
