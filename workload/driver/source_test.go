package driver

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
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
	pods := fatal.Value(openb.ReadPods(strings.NewReader("name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time\n"+
		"b,500,1024,1,250,9,12\na,500,1024,1,1000,4,10\n"), "pods.csv"))(t)
	source := Traced(openb.Trace(pods), 60, 1, nil)
	plan, err := source.Plan(Capacity{})
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
	w := fatal.Value(record.Create(dir, record.Options{}))(t)
	now := int64(1_795_651_200_000) // 2026-11-26
	f := observe.NewFollower(observe.Config{Out: w, Now: func() int64 { return now }})
	known := observe.NewKnown()
	for _, name := range []string{"1.json", "2.json"} {
		file := fatal.Value(os.Open(filepath.Join("testdata", "hostname-label-short", name)))(t)
		defer file.Close() //nolint:errcheck // it is only read
		o := fatal.Value(observe.ReadObjects(file, name))(t)
		known.Look([]observe.File{{Objects: o, Path: name, At: now}})
		known.Tell(f)
		now += 3_600_000
	}
	fatal.Value(w.Close())(t)
	pools, _, err := nodepool.Recorded(record.Moment{Dir: dir})
	fatal.If(t, err)
	played := fatal.Value(play.LoadReplay(dir))(t)
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

// A node's GPUs come from its slices, unless its capacity has them.
func TestMeasureCountsSlices(t *testing.T) {
	node := func(name string, gpus int64) *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Status:     corev1.NodeStatus{Allocatable: kube.Capacity(cluster.Resources{MilliCPU: 1000, Pods: 10, GPU: gpus})},
		}
	}
	slice := func(of string, gpus int) *resourceapi.ResourceSlice {
		s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: of}}
		s.Spec.Driver, s.Spec.NodeName, s.Spec.Devices = kube.GPUDriver, ptr.To(of), make([]resourceapi.Device, gpus)
		return s
	}
	c := fakecluster.New(node("a", 0), node("b", 4), node("c", 2), slice("a", 8), slice("b", 4))
	capacity, err := Measure(context.Background(), c.Client, nil)
	if err != nil || capacity.Allocatable.GPU != 14 {
		t.Errorf("%v: %d GPUs", err, capacity.Allocatable.GPU)
	}
}

// stepper is a run whose steps and events of pods a test makes itself.
type stepper struct {
	*runner
	t *testing.T
	c *fakecluster.Cluster
}

func stepped(t *testing.T, c *fakecluster.Cluster, cfg Config) stepper {
	t.Helper()
	fatal.If(t, cfg.complete())
	r := &runner{Config: cfg, fills: cfg.Plan.Fills(), start: cfg.Clock.Now(), pods: newPodWatch(cfg.replay != nil)}
	fatal.If(t, r.prepare(context.Background()))
	r.begin()
	return stepper{r, t, c}
}

func (s stepper) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// get returns a pod as the API server has it.
func (s stepper) get(name string) *corev1.Pod {
	s.t.Helper()
	all, err := s.c.Client.CoreV1().Pods("").List(context.Background(), metav1.ListOptions{})
	s.must(err)
	for i := range all.Items {
		if all.Items[i].Name == name {
			return &all.Items[i]
		}
	}
	return nil
}

// add applies the step that creates a Deployment, and sees its pods.
func (s stepper) add(d workload.Deployment) {
	s.t.Helper()
	s.must(s.step(context.Background(), workload.Step{Action: workload.Add, Deployment: d}))
	for i := range d.Replicas {
		if p := s.get(podName(d, i)); p != nil {
			s.pods.set(p)
		}
	}
}

// others deletes a pod as a foreign program would.
func (s stepper) others(name string, seen bool) {
	s.t.Helper()
	p := s.get(name)
	s.must(s.c.Client.CoreV1().Pods(p.Namespace).Delete(context.Background(), name, metav1.DeleteOptions{}))
	if seen {
		s.see(p)
	}
}

// see lets the watch see that a pod is gone, and the run act on it.
func (s stepper) see(p *corev1.Pod) {
	s.t.Helper()
	s.pods.drop(p)
	s.pods.vanish(p)
	s.must(s.noteGone(context.Background()))
	if now := s.get(p.Name); now != nil {
		s.pods.set(now)
	}
}

func (s stepper) remove(d workload.Deployment) {
	s.t.Helper()
	s.must(s.step(context.Background(), workload.Step{Action: workload.Delete, Deployment: d}))
}

// check compares the counts of the fill.
func (s stepper) check(want FillSummary) {
	s.t.Helper()
	s.noteBinding()
	s.end()
	got := s.sum.Fills[len(s.sum.Fills)-1]
	if d := cmp.Diff(want, got, cmpopts.IgnoreFields(FillSummary{}, "Elapsed", "Binding", "Load")); d != "" {
		s.t.Error(d)
	}
	if got.Pods != got.Arrived-got.Left-got.Lost {
		s.t.Errorf("the counts do not add up: %+v", got)
	}
}

// If others delete pods of a record, pods with an owner that would create them come again, and the rest are lost.
func TestReplacements(t *testing.T) {
	owned := part{row: record.Pod{Name: "owned", OwnerKind: "ReplicaSet", OwnerName: "web-1"}, node: "n1"}
	agent := part{row: record.Pod{Name: "agent", OwnerKind: "DaemonSet", Daemon: true,
		Affinity: `{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"a","operator":"Exists"}]}]}}}`}, node: "n1"}
	static := part{row: record.Pod{Name: "static", OwnerKind: "Node", Daemon: true}, node: "n1"}
	c := fakecluster.New(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	s := stepped(t, c, replayOf(t, c, owned, agent, static, named("bare"), named("late")))
	for _, step := range s.Plan.Steps {
		s.add(step.Deployment)
	}
	c.Slots, c.Reason = 0, "no room"
	for _, name := range []string{"owned", "agent", "static", "bare"} {
		s.others(name, true)
	}
	if s.get("bare") != nil {
		t.Error("a pod without an owner came again")
	}
	for name, want := range map[string]string{
		"owned":  "",
		"agent":  "&NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution:&NodeSelector{NodeSelectorTerms:[]NodeSelectorTerm{NodeSelectorTerm{MatchExpressions:[]NodeSelectorRequirement{NodeSelectorRequirement{Key:a,Operator:Exists,Values:[],},},MatchFields:[]NodeSelectorRequirement{NodeSelectorRequirement{Key:metadata.name,Operator:In,Values:[n1],},},},},},PreferredDuringSchedulingIgnoredDuringExecution:[]PreferredSchedulingTerm{},}",
		"static": "&NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution:&NodeSelector{NodeSelectorTerms:[]NodeSelectorTerm{NodeSelectorTerm{MatchExpressions:[]NodeSelectorRequirement{},MatchFields:[]NodeSelectorRequirement{NodeSelectorRequirement{Key:metadata.name,Operator:In,Values:[n1],},},},},},PreferredDuringSchedulingIgnoredDuringExecution:[]PreferredSchedulingTerm{},}",
	} {
		p, got := s.get(name), ""
		if p == nil || p.Spec.NodeName != "" {
			t.Fatalf("%s did not come again without a node: %+v", name, p)
		}
		if p.Spec.Affinity != nil {
			got = p.Spec.Affinity.NodeAffinity.String()
		}
		if got != want {
			t.Errorf("%s has the affinity %s", name, got)
		}
	}
	// It is deleted again before it has a node, and leaves without one. It had one before.
	s.others("owned", true)
	s.remove(s.existing["owned"])
	s.see(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "owned", Namespace: "gnnsched-sim-shop"}})
	// The run has not noticed its deletion when it is to leave.
	s.others("late", false)
	s.remove(s.existing["late"])
	s.check(FillSummary{
		Deployments: 5, Arrived: 5, Placed: 5, Deleted: 1, Left: 1, Lost: 2, Replaced: 4, Pods: 2, Created: 2, Pending: 2,
		Reasons: []Reason{{2, "no room"}},
	})
	var out bytes.Buffer
	want := "\ndeleted by others in fill 1, such as by preemption: 6 pod(s), of which 4 came again, as their owners would create them\n"
	if err := (Report{Summary: s.sum}).Write(&out, "table"); err != nil || !strings.Contains(out.String(), want) {
		t.Errorf("%v:\n%s", err, out.String())
	}
}

// A pod that the API server does not accept again is lost.
func TestReplacementIsRefused(t *testing.T) {
	c := fakecluster.New()
	s := stepped(t, c, replayOf(t, c, part{row: record.Pod{Name: "a", OwnerKind: "Job"}}, named("b")))
	s.add(s.Plan.Steps[0].Deployment)
	s.add(s.Plan.Steps[1].Deployment)
	refuse(c, func(*corev1.Pod) error { return says(403, metav1.StatusReasonForbidden, "no more") })
	s.others("a", true)
	s.remove(s.Plan.Steps[0].Deployment) // the plan does not know
	s.check(FillSummary{Deployments: 2, Arrived: 2, Placed: 2, Lost: 1, Pods: 1, Created: 1, Bound: 1, Refused: []Reason{{1, "no more"}}})
}

// Pods of a trace that others delete are lost, one by one.
func TestLostPodsOfATrace(t *testing.T) {
	c := fakecluster.New()
	cfg := config(t, c)
	cfg.Bare, cfg.Plan = true, workload.Plan{Steps: []workload.Step{arrival("a", 3), arrival("b", 1), arrival("c", 2)}}
	s := stepped(t, c, cfg)
	for _, step := range cfg.Plan.Steps {
		s.add(step.Deployment)
	}
	s.others("a-1", true)
	s.others("c-0", true)
	s.others("c-1", true)
	s.others("a-2", false)
	s.remove(cfg.Plan.Steps[0].Deployment) // one is left of three
	s.remove(cfg.Plan.Steps[2].Deployment)
	// A pod that went is seen only after another has its name.
	was := s.get("b")
	s.others("b", false)
	again := was.DeepCopy()
	again.UID = "later"
	_, err := c.Client.CoreV1().Pods(was.Namespace).Create(context.Background(), again, metav1.CreateOptions{})
	s.must(err)
	s.see(was)
	if want := arrival("b", 1).Deployment.Requests(); s.requested != want {
		t.Errorf("requested %v, want %v", s.requested, want)
	}
	s.check(FillSummary{Deployments: 3, Arrived: 6, Placed: 7, Deleted: 1, Left: 1, Lost: 4, Pods: 1, Created: 1, Bound: 1})
}

// A Deployment that others have deleted is lost.
func TestLostDeployment(t *testing.T) {
	c := fakecluster.New()
	cfg := config(t, c)
	cfg.Plan = workload.Plan{Steps: []workload.Step{arrival("a", 3)}}
	s := stepped(t, c, cfg)
	d := cfg.Plan.Steps[0].Deployment
	s.add(d)
	s.must(c.Client.AppsV1().Deployments(DefaultNamespace).Delete(context.Background(), "a", metav1.DeleteOptions{}))
	s.remove(d)
	s.check(FillSummary{Deployments: 1, Arrived: 3, Lost: 3})
}
