package driver

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/workload/driver/fakecluster"
)

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
	room, err := Measure(context.Background(), c.Client, nil)
	if err != nil || room.Allocatable.GPU != 14 {
		t.Errorf("%v: %d GPUs", err, room.Allocatable.GPU)
	}
}
