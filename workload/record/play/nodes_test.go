package play

import (
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"gnnsched/internal/cluster"
	"gnnsched/workload/record"
)

// recorded writes a record with the given nodes.
func recorded(t *testing.T, nodes ...record.Node) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "a@b.record")
	w, err := record.Create(dir, record.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		w.Node(n)
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestMachines(t *testing.T) {
	hour := int64(3_600_000)
	size := record.Node{MilliCPU: 4000, Memory: 8 << 30, Pods: 110}
	with := func(name string, from, to int64, change func(*record.Node)) record.Node {
		n := size
		n.Name, n.From, n.To = name, from, to
		if change != nil {
			change(&n)
		}
		return n
	}
	dir := recorded(t,
		with("ip-10-0-0-1.ec2.internal", hour, 0, func(n *record.Node) {
			n.GPU, n.GPUModel, n.Labels = 2, "T4", `{"topology.kubernetes.io/zone":"a","disk":"ssd"}`
			n.Taints = `[{"key":"gpu","effect":"NoSchedule"}]`
			n.Extended = `{"ephemeral-storage":"10Gi","attachable-volumes-aws-ebs":"39"}`
		}),
		with("small", hour, 2*hour, nil),
		with("small", 2*hour, 3*hour, func(n *record.Node) { n.MilliCPU, n.Gone = 2000, true }),
		with("cordoned", hour, 0, func(n *record.Node) { n.Unschedulable = true }),
		with("broken", hour, 0, func(n *record.Node) { n.Taints = `[{"key":"node.kubernetes.io/not-ready","effect":"NoExecute"}]` }),
		with("virtual", hour, 0, func(n *record.Node) { n.MilliCPU = 0 }),
	)
	first := Machine{Node: &cluster.Node{Name: "ip-10-0-0-1-ec2-internal", Zone: "a", GPUModel: "T4",
		Labels:      map[string]string{"topology.kubernetes.io/zone": "a", "disk": "ssd"},
		Taints:      []cluster.Taint{{Key: "gpu", Effect: cluster.NoSchedule}},
		Allocatable: cluster.Resources{MilliCPU: 4000, Memory: 8 << 30, Pods: 110, GPU: 2}},
		Extended: corev1.ResourceList{"ephemeral-storage": resource.MustParse("10Gi")}}
	small := func(cpu int64) Machine {
		return Machine{
			Node:     &cluster.Node{Name: "small", Allocatable: cluster.Resources{MilliCPU: cpu, Memory: 8 << 30, Pods: 110}},
			Extended: corev1.ResourceList{},
		}
	}
	for path, want := range map[string][]Machine{
		dir:                           {first},
		dir + "@1970-01-01T01:00:00Z": {first, small(4000)},
		dir + "@1970-01-01T02:00:00Z": {first, small(2000)},
		dir + "@1970-01-01T03:00:00Z": {first},
	} {
		m, ok, err := record.ParseMoment(path)
		if err != nil || !ok {
			t.Fatalf("%s: %v, %v", path, ok, err)
		}
		got, notes, err := Machines(m)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if d := cmp.Diff(want, got, cmpopts.IgnoreFields(cluster.Node{}, "Version")); d != "" {
			t.Errorf("%s: %s", path, d)
		}
		if len(notes) != 1 || !strings.HasPrefix(notes[0], "3 nodes that took no pods") {
			t.Errorf("%s: notes %q", path, notes)
		}
	}
}

func TestMachinesRefuses(t *testing.T) {
	size := record.Node{Name: "n", From: 1000, MilliCPU: 4000, Memory: 8 << 30, Pods: 110}
	bad := size
	bad.Extended = `{"x.y/z":"lots"}`
	cordoned := size
	cordoned.Unschedulable = true
	for want, path := range map[string]string{
		`x.y/z: "lots" is no amount`:                     recorded(t, bad),
		"none of the 1 nodes took pods":                  recorded(t, cordoned),
		"the record begins at 1970-01-01T00:00:01Z":      recorded(t, size) + "@1970-01-01T00:00:00.5Z",
		`"noon" is no time such as 2026-03-01T12:00:00Z`: recorded(t, size) + "@noon",
	} {
		m, ok, err := record.ParseMoment(path)
		if err == nil && ok {
			_, _, err = Machines(m)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, ok, err := record.ParseMoment(t.TempDir() + "@noon"); ok || err != nil {
		t.Errorf("a folder without a record: %v, %v", ok, err)
	}
}
