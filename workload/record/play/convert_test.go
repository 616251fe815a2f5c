package play

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gnnsched/internal/cluster"
	"gnnsched/workload"
	"gnnsched/workload/record"
)

// A trace that became a record is played unchanged, with each replica by itself.
func TestPodRows(t *testing.T) {
	shape := workload.Shape{Requests: cluster.Resources{MilliCPU: 500, Memory: 1 << 30, GPUMilli: 250, Pods: 1},
		Limits:       cluster.Resources{MilliCPU: 600},
		NodeSelector: map[string]string{"disk": "ssd"}, GPUModels: []string{"T4"},
		Tolerations: []cluster.Toleration{{Key: "a", Value: "b"}, {Key: "c", Exists: true, Effect: cluster.NoExecute}}}
	one := func(name string) workload.Deployment {
		return workload.Deployment{Name: name, Replicas: 1, Shape: shape}
	}
	two := one("web")
	two.Replicas = 2
	in := workload.Trace{{At: 0, Lifetime: 2.5, Deployment: one("job")}, {At: 90_000.25, Lifetime: math.Inf(1), Deployment: two}}
	rows := PodRows(in)
	got, lacks, err := arrivals(rows)
	if err != nil || len(lacks) > 0 {
		t.Fatalf("lacks %v, %v", lacks, err)
	}
	want := workload.Trace{
		in[0], {At: 90_000.25, Lifetime: math.Inf(1), Deployment: one("web-0")}, {At: 90_000.25, Lifetime: math.Inf(1), Deployment: one("web-1")},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if rows[0].Arrived != Midnight || rows[2].Workload != "Deployment/web" || rows[1].UID == rows[2].UID || rows[0].End != record.Deleted {
		t.Errorf("rows %+v", rows)
	}
}

func TestNodeRows(t *testing.T) {
	n := &cluster.Node{Name: "n-1", GPUModel: "T4", Zone: "z", Labels: map[string]string{"topology.kubernetes.io/zone": "z"},
		Taints:      []cluster.Taint{{Key: "k", Effect: cluster.NoSchedule}},
		Allocatable: cluster.Resources{MilliCPU: 4000, Memory: 1 << 30, Pods: 10, GPU: 2}}
	rows := NodeRows([]*cluster.Node{n})
	got, open, err := machine(&rows[0])
	got.Name, got.Version = n.Name, 0
	if d := cmp.Diff(n, got.Node); err != nil || !open || d != "" {
		t.Errorf("open %v, %v: %s", open, err, d)
	}
}
