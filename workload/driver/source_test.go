package driver

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"gnnsched/internal/fatal"
	"gnnsched/kwok/nodepool"
	"gnnsched/workload"
	"gnnsched/workload/driver/fakecluster"
	"gnnsched/workload/record"
	"gnnsched/workload/record/observe"
	"gnnsched/workload/record/play"
	"gnnsched/workload/trace/openb"
	"gnnsched/workload/usage"
)

func TestTraced(t *testing.T) {
	pods, err := openb.ReadPods(strings.NewReader("name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time\n"+
		"b,500,1024,1,250,9,12\na,500,1024,1,1000,4,10\n"), "pods.csv")
	fatal.If(t, err)
	source := Traced(openb.Trace(pods), 60, 1, nil)
	plan, err := source.Plan(Room{})
	if err != nil || !source.Fixed {
		t.Fatal(err, source.Fixed)
	}
	if f := plan.Fills()[0]; f.Pods != 1 || f.Deployments != 1 || f.Deleted != 1 {
		t.Errorf("got %+v: want one pod that comes and goes", f)
	}
	var c Config
	if source.Pace(&c); !c.Bare || c.Speed != 60 {
		t.Errorf("paced as %+v", c)
	}
}

// A pod that selects a node by a hostname that is not its name, as on AWS and OpenShift, selects the simulated node of kwokcluster up
// --pools RECORD.
func TestHostnameOfARecord(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "x.record")
	w, err := record.Create(dir, record.Options{})
	fatal.If(t, err)
	now := int64(1_795_651_200_000) // 2026-11-26
	f := observe.NewFollower(observe.Config{Out: w, Now: func() int64 { return now }})
	known := observe.NewKnown()
	for _, name := range []string{"1.json", "2.json"} {
		file, err := os.Open(filepath.Join("testdata", "hostname-label-short", name))
		fatal.If(t, err)
		defer file.Close() //nolint:errcheck // it is only read
		o, err := observe.ReadObjects(file, name)
		fatal.If(t, err)
		known.Look([]observe.File{{Objects: o, Path: name, At: now}})
		known.Tell(f)
		now += 3_600_000
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	pools, _, err := nodepool.Recorded(record.Moment{Dir: dir})
	fatal.If(t, err)
	played, err := play.LoadReplay(dir)
	fatal.If(t, err)
	cfg := config(t, fakecluster.New())
	cfg.replay, cfg.Namespace = &played, "sim"
	s := &stage{Config: cfg, spaces: map[string]string{}, classes: map[priority]string{}, nodes: map[string]string{}}
	for i := range pools {
		n := pools[i].Node(0)
		s.nodes[n.Name] = n.Labels[corev1.LabelHostname]
	}
	const want = "worker-1-lab-example-com-0"
	if got := s.pod("p").Spec.NodeSelector[corev1.LabelHostname]; got != want || s.nodes[want] != want {
		t.Errorf("it selects %q among %v, want %q", got, s.nodes, want)
	}
}

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

func TestProgressString(t *testing.T) {
	p := Progress{
		Phase: Settling, Fill: 1, Fills: 2, Pods: 210, Bound: 120, Load: workload.Load{CPU: 0.124, Memory: 0.08, Pods: 0.11},
		Left: 8200 * time.Millisecond,
	}
	if got, want := p.String(), "fill 1/2: 120/210 bound, cpu 12% mem 8% pods 11%, waiting for 90 pods to be bound, 8s to go"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	p.Left = -1
	if got := p.String(); strings.Contains(got, "to go") {
		t.Errorf("got %q with no estimate", got)
	}
	p.Phase, p.deleting = Resetting, 17
	if got, want := p.String(), "fill 1/2: deleting, 17 objects left"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestGPULine(t *testing.T) {
	got := gpuLine(GPUSummary{
		Capacity: 10_000, Asked: 13_000, Allocated: 9_500, AllocatedAtFull: 9_000, UnscheduledCPU: 1, UnscheduledShare: 2, UnscheduledWhole: 3,
	})
	want := "95.00% of 10 allocated, 130.0% asked for (90.00% of what came until 100% were); without a node: 1 pods without GPU, " +
		"2 with a share of one, 3 with whole ones"
	if got != want {
		t.Errorf("got %q", got)
	}
}

func TestFrequentReasons(t *testing.T) {
	var all []Reason
	for i := range 13 {
		all = append(all, Reason{Pods: 20 - i, Message: string(rune('a' + i))})
	}
	if shown, more := frequent(all); len(shown) != 10 || more.Pods != 10+9+8 || more.Message != "3 other reasons; -o json has them" {
		t.Errorf("%d shown, more %+v", len(shown), more)
	}
	if shown, more := frequent(all[:10]); len(shown) != 10 || more.Pods != 0 {
		t.Errorf("%d shown, more %+v", len(shown), more)
	}
}
