package dra

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// A pod that another plugin refuses before LearnedDevices looks at it is unschedulable, and no error.
func TestPostFilterOfARefusedPod(t *testing.T) {
	_, status := (&plugin{}).PostFilter(t.Context(), framework.NewCycleState(), &v1.Pod{}, framework.NewDefaultNodeToStatus())
	if status.Code() != fwk.Unschedulable {
		t.Errorf("the status is %v", status)
	}
}
