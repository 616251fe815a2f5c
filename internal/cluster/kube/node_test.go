package kube

import (
	"slices"
	"strings"
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
		{name: "all resources", list: offered, labels: map[string]string{GPUModelLabel: "T4", productLabel: "Tesla-T4"}, gpu: 8, model: "T4",
			known: true, shared: true},
		{name: "device plugin", list: requests(GPUResource, "2"), labels: map[string]string{productLabel: "Tesla-T4"}, gpu: 2,
			model: "Tesla-T4", known: true},
		{name: "count", list: requests(GPUCountResource, "3"), gpu: 3, known: true, shared: true},
		{name: "milli", list: requests(GPUMilliResource, "4000"), gpu: 4, known: true, shared: true},
		{name: "more than a DeviceSet holds", list: requests(GPUResource, "65"), gpu: 65},
	} {
		n := cluster.Node{}
		object := &corev1.Node{}
		object.Labels = c.labels
		SetGPUs(&n, object, AmountsIn(c.list))
		if n.Allocatable.GPU != c.gpu || n.GPUModel != c.model || n.HasDevices() != c.known || c.known && int64(len(n.GPUs)) != c.gpu {
			t.Errorf("%s: %d devices of %q, %v", c.name, n.Allocatable.GPU, n.GPUModel, n.GPUs)
		}
		if got := AmountsIn(c.list).SharesGPUs(); got != c.shared {
			t.Errorf("%s: shares GPUs: %v", c.name, got)
		}
	}
}

// Lost devices are closed where idle ones are, and the others keep their numbers.
func TestCloseLost(t *testing.T) {
	object := &corev1.Node{}
	object.Status.Capacity, object.Status.Allocatable = requests(GPUResource, "4"), requests(GPUResource, "2")
	for _, c := range []struct {
		name   string
		used   []int64
		before cluster.DeviceSet
		want   []int64
	}{
		{"the highest idle ones", []int64{0, 0, 0, 0}, 0, []int64{0, 0, 1000, 1000}},
		{"none in use", []int64{0, 5, 0, 1000}, 0, []int64{1000, 5, 1000, 1000}},
		{"those of before", []int64{0, 0, 0, 0}, cluster.Device(0), []int64{1000, 0, 0, 1000}},
		{"too few idle", []int64{1, 2, 3, 0}, 0, []int64{1, 2, 3, 1000}},
	} {
		n := Node(object)
		if n.Allocatable.GPU != 2 || len(n.GPUs) != 4 {
			t.Fatalf("%d allocatable devices of %d", n.Allocatable.GPU, len(n.GPUs))
		}
		copy(n.GPUs, c.used)
		if lost := CloseLost(n, c.before); !slices.Equal(n.GPUs, c.want) || lost.Len() > 2 {
			t.Errorf("%s: %v, want %v", c.name, n.GPUs, c.want)
		}
	}
}

func TestPower(t *testing.T) {
	node := func(text string) *corev1.Node {
		n := &corev1.Node{}
		n.Annotations = map[string]string{PowerAnnotation: text}
		return n
	}
	m, err := Power(node(`{"idle": 60, "full": 240, "curve": [100, 140, 190], "sleep": 5}`))
	if err != nil || m.Idle != 60 || m.At(0.5) != 140 || *m.Sleep != 5 {
		t.Errorf("%+v, %v", m, err)
	}
	if m, err := Power(&corev1.Node{}); m != nil || err != nil {
		t.Errorf("without an annotation: %+v, %v", m, err)
	}
	for text, want := range map[string]string{
		"":                           "annotation gnnsched.io/power: ",
		"60":                         "annotation gnnsched.io/power: ",
		`{"idle": 60}`:               "full: 0 is not 60 to 100000 watts",
		`{}`:                         "full: 0 is not 0.001 to 100000 watts",
		`{"idle": 1, "max": 2}`:      "max",
		`{"idle": "\n\u001b[31m"}`:   "annotation gnnsched.io/power: ",
		strings.Repeat(" ", 5000):    "5000 bytes, more than 4096",
		`{"idle": -1, "full": 1e99}`: "idle: -1",
	} {
		m, err := Power(node(text))
		if err == nil || !strings.Contains(err.Error(), want) || strings.ContainsAny(err.Error(), "\n\x1b") || m != nil {
			t.Errorf("%.40q: %+v, %v, want %q", text, m, err, want)
		}
	}
}
