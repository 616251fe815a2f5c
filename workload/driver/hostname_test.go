package driver

import (
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"gnnsched/internal/fatal"
	"gnnsched/kwok/nodepool"
	"gnnsched/workload/driver/fakecluster"
	"gnnsched/workload/record"
	"gnnsched/workload/record/observe"
	"gnnsched/workload/record/play"
)

// A pod that selects a node by a hostname that is not its name, as on AWS and OpenShift, selects the simulated node of kwokcluster up
// --pools RECORD.
func TestHostnameOfARecord(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "x.record")
	w, err := record.Create(dir, record.Options{})
	fatal.If(t, err)
	now := int64(1_795_651_200_000) // 2026-11-26
	f := observe.NewFollower(observe.Config{Out: w, Now: func() int64 { return now }})
	known := observe.NewKnown()
	for _, name := range []string{"1.json", "2.json"} {
		file, err := os.Open(filepath.Join("testdata", "hostname-label-short", name))
		fatal.If(t, err)
		defer file.Close() //nolint:errcheck // it is only read
		o, err := observe.ReadObjects(file, name)
		fatal.If(t, err)
		known.Look([]observe.File{{Objects: o, Path: name, At: now}})
		known.Tell(f)
		now += 3_600_000
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	pools, _, err := nodepool.Recorded(record.Moment{Dir: dir})
	fatal.If(t, err)
	played, err := play.LoadReplay(dir)
	fatal.If(t, err)
	cfg := config(t, fakecluster.New())
	cfg.Replay, cfg.Namespace = &played, "sim"
	s := &stage{Config: cfg, spaces: map[string]string{}, classes: map[priority]string{}, nodes: map[string]string{}}
	for i := range pools {
		n := pools[i].Node(0)
		s.nodes[n.Name] = n.Labels[corev1.LabelHostname]
	}
	const want = "worker-1-lab-example-com-0"
	if got := s.pod("p").Spec.NodeSelector[corev1.LabelHostname]; got != want || s.nodes[want] != want {
		t.Errorf("it selects %q among %v, want %q", got, s.nodes, want)
	}
}
