package kube

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"gnnsched/internal/cluster"
)

func TestSetGPUs(t *testing.T) {
	offered := corev1.ResourceList{}
	AddGPUs(offered, 8)
	for _, c := range []struct {
		name   string
		labels map[string]string
		list   corev1.ResourceList
		gpu    int64
		model  string
		known  bool // the devices are known one by one
		shared bool
	}{
		{name: "none", list: requests("cpu", "4"), labels: map[string]string{GPUModelLabel: "T4"}},
		{name: "all resources", list: offered, labels: map[string]string{GPUModelLabel: "T4", productLabel: "Tesla-T4"}, gpu: 8, model: "T4", known: true, shared: true},
		{name: "device plugin", list: requests(GPUResource, "2"), labels: map[string]string{productLabel: "Tesla-T4"}, gpu: 2, model: "Tesla-T4", known: true},
		{name: "count", list: requests(GPUCountResource, "3"), gpu: 3, known: true, shared: true},
		{name: "milli", list: requests(GPUMilliResource, "4000"), gpu: 4, known: true, shared: true},
		{name: "more than a DeviceSet holds", list: requests(GPUResource, "65"), gpu: 65},
	} {
		n := cluster.Node{}
		SetGPUs(&n, c.labels, AmountsIn(c.list))
		if n.Allocatable.GPU != c.gpu || n.GPUModel != c.model || n.HasDevices() != c.known || c.known && int64(len(n.GPUs)) != c.gpu {
			t.Errorf("%s: %d devices of %q, %v", c.name, n.Allocatable.GPU, n.GPUModel, n.GPUs)
		}
		if got := AmountsIn(c.list).SharesGPUs(); got != c.shared {
			t.Errorf("%s: shares GPUs: %v", c.name, got)
		}
	}
}
