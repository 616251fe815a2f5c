package main

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	clocktest "k8s.io/utils/clock/testing"

	"gnnsched/internal/runfolder"
)

func filmedNode(name string, taints ...v1.Taint) *v1.Node {
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.NodeSpec{Taints: taints},
		Status: v1.NodeStatus{Allocatable: v1.ResourceList{
			v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("8Gi"), v1.ResourcePods: resource.MustParse("10"),
		}},
	}
}

func filmedPod(name, on string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Spec: v1.PodSpec{NodeName: on, Containers: []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("1"), v1.ResourceMemory: resource.MustParse("4Gi")},
		}}}},
	}
}

// The frames have the worker nodes with what their pods request, and the pods that wait. Nothing runs after End.
func TestFilm(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	dir := filepath.Join(t.TempDir(), "run")
	w, err := runfolder.Create(dir, runfolder.Manifest{Kind: "runsim"}, clocktest.NewFakePassiveClock(time.Unix(0, 0)))
	if err != nil {
		t.Fatal(err)
	}
	control := v1.Taint{Key: "node-role.kubernetes.io/control-plane", Effect: v1.TaintEffectNoSchedule}
	client := fake.NewClientset(filmedNode("a"), filmedNode("b"), filmedNode("control", control), filmedPod("p", "a"), filmedPod("waits", ""))
	f, err := startFilm(context.Background(), client, w, "s", "gnn")
	if err != nil {
		t.Fatal(err)
	}
	f.End()
	if err := w.Close(nil); err != nil {
		t.Fatal(err)
	}
	r, err := runfolder.Read(dir)
	if err != nil || len(r.Frames) < 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, x := range r.Frames {
		if x.Scenario != "s" || x.Contender != "gnn" || x.Waiting != 1 || len(x.Nodes) != 2 ||
			x.Nodes[0] != (runfolder.Node{Name: "a", CPU: 0.25, Memory: 0.5, Pods: 1}) || x.Nodes[1].Pods != 0 {
			t.Errorf("%+v", x)
		}
	}
}
