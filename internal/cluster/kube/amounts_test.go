package kube_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"gnnsched/internal/cluster/kube"
)

// While a running container shrinks from four cores to one, its node still gives it four.
func TestEffectiveRequestsCountAResizeInProgress(t *testing.T) {
	cores := func(s string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(s)}
	}
	p := &corev1.Pod{
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: cores("1")}}}},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			Name: "c", AllocatedResources: cores("4"), Resources: &corev1.ResourceRequirements{Requests: cores("4")},
		}}},
	}
	if got := kube.Requests(p).MilliCPU; got != 1000 {
		t.Errorf("Requests returns %d millicores, want 1000", got)
	}
	if got := kube.EffectiveRequests(p).MilliCPU; got != 4000 {
		t.Errorf("EffectiveRequests returns %d millicores, want 4000", got)
	}
}
