package server

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"gnnsched/internal/cluster/kube"
	"gnnsched/kwok/nodepool"
)

// A pod goes where the objective of its own or its namespace's annotation wants it, within the limits of the operator:
// to the node that is awake for energy, and to one that sleeps for balance. What is outside of the limits, or no
// objective, is refused and counted, and the profile's objective counts.
func TestObjectiveAnnotation(t *testing.T) {
	l := newLab(t, []nodepool.Pool{{Name: "worker", Count: 8, Capacity: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("16"), corev1.ResourceMemory: resource.MustParse("16Gi"),
		corev1.ResourcePods: resource.MustParse("110"),
	}}})
	const awake = "worker-0"
	power := fmt.Sprintf(`{"metadata": {"annotations": {%q: %q}}}`, kube.PowerAnnotation, `{"idle": 100, "full": 200, "sleep": 5}`)
	for i := range 8 {
		if _, err := l.client.CoreV1().Nodes().Patch(t.Context(), fmt.Sprint("worker-", i), types.MergePatchType, []byte(power),
			metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	own, saving := l.namespace(t, "own"), l.namespace(t, "saving")
	const energy, balance = "balance=1,energy=17.5", "balance=1"
	space := fmt.Sprintf(`{"metadata": {"annotations": {"gnnsched.io/objective": %q}}}`, energy)
	if _, err := l.client.CoreV1().Namespaces().Patch(t.Context(), saving, types.MergePatchType, []byte(space),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	l.createAsking(t, asking{namespace: own, name: "load", node: awake, cpu: "6"})
	l.bound(t, own, 1)

	defer l.schedule(t, Profile{SchedulerName: "wishes",
		Args: Args{Variant: "wishes", Objective: "balance", ObjectiveLimits: "balance=0.1:1,energy=0:0.9"}})()
	count := map[string]int{own: 1}
	for _, c := range []struct {
		namespace, annotation string
		awake                 bool
	}{
		{own, energy, true},
		{saving, "", true}, // as its namespace asks
		{saving, balance, false},
		{own, balance, false},
		{own, "", false},          // as the profile says
		{own, "energy=1", false},  // refused: nothing of balance
		{own, "speed=1", false},   // refused: no such term
		{saving, "\x7f=1", false}, // refused: a pod's own annotation comes first, malformed or not
	} {
		name := fmt.Sprint("pod-", count[c.namespace])
		count[c.namespace]++
		l.createAsking(t, asking{namespace: c.namespace, name: name, cpu: "2", objective: c.annotation})
		for _, p := range l.bound(t, c.namespace, count[c.namespace]) {
			if p.Name == name && (p.Spec.NodeName == awake) != c.awake {
				t.Errorf("the pod in %s with objective %q is on %s; on %s: want %v", c.namespace, c.annotation, p.Spec.NodeName, awake, c.awake)
			}
		}
	}
	m := l.metrics(t)
	for result, want := range map[string]float64{"served": 4, "refused": 3} {
		if got := m.sum("gnnsched_objective_annotations_total", "profile", "wishes", "result", result); got != want {
			t.Errorf("%v annotations were %s, want %v", got, result, want)
		}
	}
}

// asking is a pod of the scheduler wishes, with as many Gi as CPUs. It runs already if it has a node.
type asking struct{ namespace, name, node, cpu, objective string }

func (l *lab) createAsking(t *testing.T, a asking) {
	t.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: a.name},
		Spec: corev1.PodSpec{SchedulerName: "wishes", NodeName: a.node, Containers: []corev1.Container{{
			Name: "main", Image: "registry.k8s.io/pause:3.10", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse(a.cpu), corev1.ResourceMemory: resource.MustParse(a.cpu + "Gi"),
			}},
		}}},
	}
	if a.objective != "" {
		p.Annotations = map[string]string{"gnnsched.io/objective": a.objective}
	}
	if _, err := l.client.CoreV1().Pods(a.namespace).Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
