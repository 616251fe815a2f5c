package agreement

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gnnsched/internal/cluster"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/testbed/inprocess"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/server"
	"gnnsched/scheduler/sim"
	"gnnsched/workload"
	"gnnsched/workload/usage"
)

// using has two nodes of 4 CPUs and pods that use three times the CPU that they request, or a tenth, and jobs that end when they
// have done their work. An episode takes a few seconds.
func using(t *testing.T) eval.Scenario {
	shape := func(name, model string) workload.Shape {
		m := &usage.Model{}
		if err := m.UnmarshalJSON([]byte(model)); err != nil {
			t.Fatal(err)
		}
		return workload.Shape{Name: name, Weight: 1, Requests: cluster.Resources{MilliCPU: 500, Memory: 1 << 30, Pods: 1}, Usage: m}
	}
	return eval.Scenario{Name: "using", About: "pods that use what they do not request", Config: sim.Config{
		Nodes: sim.Exactly(2), Sizes: []sim.NodeSize{{Weight: 1, Allocatable: cluster.Resources{MilliCPU: 4000, Memory: 16 << 30, Pods: 110}}},
		Shapes: []workload.Shape{
			shape("much", `{"cpu": "1500m", "memory": "1Gi"}`), shape("little", `{"cpu": "50m", "memory": "1Gi", "networkOut": 1000000}`),
			shape("job", `{"cpu": 1, "memory": "1Gi", "work": 2}`),
		},
		Replicas: sim.IntRange{Min: 1, Max: 2}, Load: sim.FloatRange{Min: 0.7, Max: 0.7}, Turnover: 1,
		Usage:     &sim.Usage{Unit: 0.3, Tick: 2, Known: 1, Network: 1e7},
		Objective: objective.Mix{{Term: objective.Balance{}, Weight: 1}},
	}}
}

// The cluster plays usage in real time: pods carry their models, the sampler plays them, a profile places by metrics.k8s.io or Prometheus,
// and the usage on the nodes' pages is close to the simulator's.
func TestClusterPlaysUsage(t *testing.T) {
	t.Run("metrics.k8s.io", func(t *testing.T) { playsUsage(t, "") })
	t.Run("prometheus", func(t *testing.T) { playsUsage(t, prometheus(t)) })
}

// prometheus returns the program, or skips the test.
func prometheus(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"prometheus", "../../../.cache/prometheus/usr/bin/prometheus"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("prometheus is not installed: run make prometheus, or install Debian's package")
	return ""
}

func playsUsage(t *testing.T, prometheus string) {
	var last string
	c := Config{
		Scenario: using(t), Seeds: []uint64{seed}, Launcher: inprocess.Launcher{}, Prometheus: prometheus,
		Progress:   func(_ float64, text string) { last = text },
		Contenders: []Contender{contender(t, "target-load-packing", server.Profile{Args: server.Args{Policy: "target-load-packing"}})},
	}
	r, err := Run(t.Context(), c)
	if err != nil {
		t.Fatalf("%v, after: %s", err, last)
	}
	x := r.Trials[0]
	s, got := x.Simulated.Usage, x.Cluster.Usage
	if x.Placed < 10 || s == nil || got == nil {
		t.Fatalf("trial %+v", x)
	}
	if s.Finished == 0 || got.BatchSlowdown < 1 || got.BatchSlowdown > 4 {
		t.Errorf("%d jobs end in the simulator, and on the cluster they take %v times as long", s.Finished, got.BatchSlowdown)
	}
	if math.Abs(got.Utilisation-s.Utilisation) > 0.2 || math.Abs(got.InUse-s.InUse) > 0.2 || got.Utilisation < 0.3 {
		t.Errorf("cluster %+v, simulator %+v", got, s)
	}
}

// Scenarios that a cluster cannot play are refused before it starts.
func TestUsageRefused(t *testing.T) {
	long := using(t)
	long.Usage.Unit = 10_000
	_, err := Run(t.Context(), Config{Scenario: long, Seeds: []uint64{seed}, Contenders: []Contender{{}}, Progress: func(float64, string) {}})
	if want := "an episode takes"; exit.Code(err) != exit.Usage || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

// A program that ends at once is an error with its last line.
func TestPrometheusThatEnds(t *testing.T) {
	program := filepath.Join(t.TempDir(), "prometheus")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho no such flag\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	c := Config{
		Scenario: using(t), Seeds: []uint64{seed}, Launcher: inprocess.Launcher{}, Prometheus: program, Progress: func(float64, string) {},
		Contenders: []Contender{{}},
	}
	if _, err := Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), "Prometheus did not start: no such flag") {
		t.Errorf("%v", err)
	}
}

// The page is copied from a test of the sampler.
func TestParsePage(t *testing.T) {
	text, err := os.ReadFile("../../../kwok/usage/testdata/cadvisor.txt")
	if err != nil {
		t.Fatal(err)
	}
	got, err := parsePage(string(text), map[string]bool{"two": true})
	if err != nil || got.used[usage.CPU] <= 0 || got.used[usage.Memory] <= 300<<20 || got.used[usage.DiskRead] <= 0 ||
		got.used[usage.NetworkOut] <= 0 || got.used[usage.NetworkIn] != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	// The two containers of two use a core; the node's own use and the other pod's are not the job's.
	if job := got.jobs["two"]; len(got.jobs) != 1 || math.Abs(job.got-14) > 1e-9 || job.lost != 0 || job.got >= got.used[usage.CPU] {
		t.Errorf("jobs %+v of %v", got.jobs, got.used[usage.CPU])
	}
	if _, err := parsePage("<html>", nil); err == nil {
		t.Error("no error")
	}
}

// Two nodes for 10 s: one used all of its 4 CPUs and lost 5 core-seconds, of which a batch job had 10 and lost 2, the other used
// 1; one sent more than the network has, the other nothing.
func TestTotals(t *testing.T) {
	offer := usage.Amounts{usage.CPU: 4, usage.Memory: 100, usage.NetworkOut: 1000}
	before := []counters{
		{used: usage.Amounts{usage.CPU: 7}, lost: 1, jobs: map[string]seconds{"job": {got: 3, lost: 1}, "ended": {got: 2}}}, {},
	}
	now := []counters{
		{used: usage.Amounts{usage.CPU: 47, usage.Memory: 50, usage.NetworkOut: 30_000, usage.DiskRead: 9}, lost: 6,
			jobs: map[string]seconds{"job": {got: 13, lost: 3}}},
		{used: usage.Amounts{usage.CPU: 10, usage.Memory: 50}},
	}
	p := player{offers: []usage.Amounts{offer, offer}}
	p.add(before, now, 10)
	got := p.outcome()
	// CPU 1 and 0.25, memory 0.5 twice, network 1 and 0; the disk has no capacity.
	want := sim.UsageOutcome{
		Throttled: 3, ThrottledPart: 3. / 43, BatchSlowdown: 1.2, Utilisation: 0.625, InUse: (0.625 + 0.5 + 0.5) / 3, HotTime: 0.5,
		Imbalance: (0.375 + 0 + 0.5) / 3,
	}
	if *got != want {
		t.Errorf("%+v, want %+v", *got, want)
	}
	if (*player)(nil).outcome() != nil {
		t.Error("without usage there is no outcome")
	}
}
