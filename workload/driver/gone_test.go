package driver

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gnnsched/internal/fatal"
	"gnnsched/workload"
	"gnnsched/workload/driver/fakecluster"
	"gnnsched/workload/record"
)

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
