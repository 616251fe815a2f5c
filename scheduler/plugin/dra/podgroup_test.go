//go:build !k136

package dra

import (
	"testing"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// A group whose pods another plugin refused first is unschedulable, which is no error.
func TestPodGroupWithoutState(t *testing.T) {
	t.Parallel()
	if _, status := (&plugin{}).PodGroupPostFilter(t.Context(), framework.NewCycleState(), nil, nil); status.Code() != fwk.Unschedulable {
		t.Errorf("%v, want unschedulable", status)
	}
}
