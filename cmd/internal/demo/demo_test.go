package demo

import (
	"bytes"
	"context"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"k8s.io/utils/ptr"

	"gnnsched/internal/exit"
	"gnnsched/internal/golden"
	"gnnsched/scheduler/eval/testbed"
	"gnnsched/workload/driver"
)

func TestSummary(t *testing.T) {
	c := Config{Nodes: 10, Load: 0.5, Seeds: 2}
	learned, base := result{scheduler: "gnn"}, result{scheduler: "default-scheduler"}
	for range 2 {
		learned.add(driver.FillSummary{Pods: 500, Bound: 500, Binding: 2 * time.Second}, 0.01)
		base.add(driver.FillSummary{Pods: 500, Bound: 500, Binding: 4 * time.Second}, 0.03)
	}
	learned.p50, learned.p99, base.p50, base.p99 = 210*time.Microsecond, 1300*time.Microsecond, 340*time.Microsecond, 2*time.Second
	var b bytes.Buffer
	if err := writeSummary(&b, c, learned, base, 31*time.Second); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "summary.txt", b.String())
}

func TestVerdict(t *testing.T) {
	r := func(std float64, bound int) result { return result{scheduler: "gnn", std: std, bound: bound} }
	base := result{scheduler: "default-scheduler", std: 0.02, bound: 100}
	for _, c := range []struct {
		learned result
		want    string
	}{
		{r(0.01, 100), "In these workloads gnn spreads the load more evenly: its standard deviation is 50% lower."},
		{r(0.03, 100), "In these workloads gnn spreads the load less evenly: its standard deviation is 50% higher."},
		{r(0.0201, 100), "In these workloads gnn and default-scheduler spread the load alike."},
		{r(0.01, 99), "The two cannot be compared: they did not bind the same number of pods."},
		{result{scheduler: "gnn", std: 0.02, bound: 100, fallbacks: 3}, "In these workloads gnn and default-scheduler spread the load alike. In 3 decisions the network failed and upstream's scoring decided; the log says why."},
	} {
		if got := verdict(c.learned, base); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestQuantile(t *testing.T) {
	h := &dto.Histogram{SampleCount: ptr.To[uint64](100)}
	for _, b := range [][2]float64{{0.001, 0}, {0.002, 50}, {0.004, 90}, {0.008, 100}} {
		h.Bucket = append(h.Bucket, &dto.Bucket{UpperBound: ptr.To(b[0]), CumulativeCount: ptr.To(uint64(b[1]))})
	}
	for q, want := range map[float64]float64{0.5: 0.002, 0.25: 0.0015, 0.7: 0.003, 0.95: 0.006, 1: 0.008} {
		if got := quantile(h, q).Seconds(); math.Abs(got-want) > 1e-9 {
			t.Errorf("quantile %v: %v, want %v", q, got, want)
		}
	}
	if got := quantile(&dto.Histogram{}, 0.5); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
}

func TestValidate(t *testing.T) {
	good := Config{Nodes: 10, Load: 0.5, Seeds: 1, Variant: "gnn"}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for _, c := range []Config{{Load: 0.5, Seeds: 1}, {Nodes: 1, Seeds: 1}, {Nodes: 1, Load: math.NaN(), Seeds: 1}, {Nodes: 1, Load: 0.5}, {Nodes: 1, Load: 0.5, Seeds: 1, Variant: "default-scheduler"}} {
		if exit.Code(c.Validate()) != exit.Usage {
			t.Errorf("%+v: accepted", c)
		}
	}
}

// If kwokcluster cannot start, the error shows its last output and nothing is left.
func TestClusterThatFails(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "kwokcluster")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho first\necho the port is in use >&2\nexit 2\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	var out, progress bytes.Buffer
	err := Run(context.Background(), Config{Nodes: 3, Load: 0.5, Seeds: 1, Variant: "gnn", Launcher: testbed.Program(program), LogDir: dir, Out: &out, Err: &progress})
	if err == nil || !bytes.Contains([]byte(err.Error()), []byte("the port is in use")) {
		t.Errorf("got %v", err)
	}
	if out.Len() != 0 {
		t.Errorf("a summary of nothing: %s", out.String())
	}
	err = Run(context.Background(), Config{Nodes: 3, Load: 0.5, Seeds: 1, Variant: "gnn", Launcher: testbed.Program(filepath.Join(dir, "none")), LogDir: dir, Err: &progress})
	if exit.Code(err) != exit.Usage {
		t.Errorf("missing program: %v", err)
	}
}
