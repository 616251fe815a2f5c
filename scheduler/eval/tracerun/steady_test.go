package tracerun

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/rs/zerolog"

	"gnnsched/internal/cluster"
	"gnnsched/internal/golden"
	"gnnsched/scheduler/eval/agreement"
	"gnnsched/scheduler/eval/testbed/inprocess"
	"gnnsched/scheduler/server"
	"gnnsched/scheduler/sim"
	"gnnsched/workload/driver"
)

// The figures count from the end of the warm-up to the end.
func TestOutcomeOf(t *testing.T) {
	never := math.Inf(1)
	share, whole := cluster.Pod{Requests: cluster.Resources{GPUMilli: 500}}, cluster.Pod{Requests: cluster.Resources{GPU: 1}}
	got := outcomeOf([]stay{
		{pod: whole, initial: true, appeared: -9, bound: -8, left: 150},                           // 50 s within
		{pod: whole, initial: true, appeared: -9, bound: never, left: -1},                         // rejected
		{pod: share, appeared: 50, bound: 50, left: never},                                        // 100 s of a half
		{pod: whole, appeared: 90, bound: 120, left: 140, refused: true},                          // waits 20 s within, runs 20 s
		{pod: whole, appeared: 110, bound: never, left: never, refused: true},                     // waits 90 s so far
		{pod: whole, appeared: 150, bound: 152, left: 160},                                        // runs 8 s, after a decision of 2 s
		{pod: share, appeared: 170, bound: 250, left: never, refused: true},                       // bound after the end
		{pod: cluster.Pod{Requests: cluster.Resources{MilliCPU: 1}}, appeared: 300, bound: never}, // after the end
	}, 100, 200, 2000)
	if want := (50.0 + 50 + 20 + 8) / 100 / 2; math.Abs(got.Allocation-want) > 1e-12 {
		t.Errorf("allocation %v, want %v", got.Allocation, want)
	}
	if want := (20.0 + 90 + 2 + 30) / 100; math.Abs(got.Waiting-want) > 1e-12 {
		t.Errorf("%v pods wait, want %v", got.Waiting, want)
	}
	if want := (20.0 + 90 + 2 + 15) / 3600; math.Abs(got.GPUHours-want) > 1e-12 || got.Rejected != 1 {
		t.Errorf("%v GPU hours, want %v; %d rejected", got.GPUHours, want, got.Rejected)
	}
	want := sim.Waits{Pods: 2, Waited: 1, Mean: 46, P95: 90, GPUHours: 112.0 / 3600, Unfinished: 1}
	if d := cmp.Diff(want, got.Classes[1], cmpopts.EquateApprox(0, 1e-12)); d != "" {
		t.Error(d)
	}
	want = sim.Waits{Pods: 1, Waited: 1, Mean: 30, P95: 30, GPUHours: 15.0 / 3600, Unfinished: 1}
	if d := cmp.Diff(want, got.Classes[0], cmpopts.EquateApprox(0, 1e-12)); d != "" {
		t.Error(d)
	}
}

// madeSteadyReport returns made-up trials; the last one was interrupted.
func madeSteadyReport() *SteadyReport {
	r := &SteadyReport{
		PodsFile: "/data/openb_pod_list_default.csv", Load: 0.95, Nodes: 20, GPUs: 100, Speed: 240, WarmUp: 21_600, Duration: 43_200,
	}
	for i, policy := range []string{"fgd", "kube-scheduler"} {
		for _, seed := range []uint64{42, 43, 44} {
			o := &sim.SteadyOutcome{
				Allocation: 0.9 - 0.05*float64(i) + 0.001*float64(seed), Waiting: 3, GPUHours: float64(seed) * float64(i+1), Rejected: 1,
			}
			o.Classes[4] = sim.Waits{Pods: 9, Waited: 4, Mean: 300, P95: 900, GPUHours: o.GPUHours, Unfinished: 2}
			s := *o
			s.Allocation += 0.01
			r.Trials = append(r.Trials, SteadyTrial{
				Policy: policy, Seed: seed, Measured: 43_200, Cluster: o, Simulated: &s, Started: 40, SameStart: 40 - 10*i, timing: timing{0.025, 0.5},
			})
		}
	}
	r.Trials[5].Measured = 21_600
	return r
}

func TestSteadyReport(t *testing.T) {
	for name, write := range map[string]func(*bytes.Buffer) error{
		"steady.txt": func(b *bytes.Buffer) error { return madeSteadyReport().Write(b, false) },
		"steady.md":  func(b *bytes.Buffer) error { return madeSteadyReport().Write(b, true) },
		"steady.csv": func(b *bytes.Buffer) error { return madeSteadyReport().WriteCSV(b) },
		"steady.json": func(b *bytes.Buffer) error {
			e := json.NewEncoder(b)
			e.SetIndent("", "  ")
			r := madeSteadyReport()
			r.Trials = r.Trials[:1]
			return e.Encode(r)
		},
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		golden.Check(t, name, b.String())
	}
	var b bytes.Buffer
	if err := (&SteadyReport{}).Write(&b, false); err != nil || !strings.Contains(b.String(), "Nothing was measured") {
		t.Errorf("%v: %s", err, b.String())
	}
}

// If a seed was not played with every policy, the tables have the other seeds.
func TestSteadyReportOfPart(t *testing.T) {
	r := madeSteadyReport()
	r.Trials = r.Trials[:5]
	var b bytes.Buffer
	if err := r.Write(&b, false); err != nil || !strings.Contains(b.String(), "2 paired seeds (42 to 43)") {
		t.Errorf("%v: %s", err, b.String())
	}
}

// Pods come and go on a cluster as in the simulator. An interrupted round counts with its measurements.
func TestRunSteady(t *testing.T) {
	if testing.Short() {
		t.Skip("it lets pods come and go for half a minute")
	}
	for name, how := range map[string]driver.GPURequests{"annotations": driver.Annotated, "claims": driver.Claimed} {
		t.Run(name, func(t *testing.T) { runSteady(t, how) })
	}
}

func runSteady(t *testing.T, how driver.GPURequests) {
	pods := &strings.Builder{}
	fmt.Fprintln(pods, "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time")
	for i := range 20 {
		ask := []string{"1,1000,", "1,300,", "1,460,A10|T4", "2,1000,T4", "0,0,"}[i%5]
		fmt.Fprintf(pods, "pod-%d,%d,%d,%s,0,%d\n", i, 500+100*(i%7), 1024, ask, 100+50*(i%4))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := SteadyConfig{WarmUp: 200, Duration: 800, Speed: 100, Config: Config{
		NodesFile: write(t, "nodes.csv",
			"sn,cpu_milli,memory_mib,gpu,model\nnode-0,64000,65536,4,T4\nnode-1,64000,65536,2,G2\nnode-2,64000,65536,4,A10\n"),
		PodsFile: write(t, "pods.csv", pods.String()), Nodes: 3, GPUs: how, Factor: 1.2, Seeds: []uint64{42},
		Contenders: []agreement.Contender{
			contender(t, "fgd", server.Profile{Args: server.Args{Policy: "fgd"}}),
			contender(t, "kube-scheduler", server.Profile{Args: server.Args{Variant: server.DefaultProfile}}),
		},
		Launcher: inprocess.Launcher{}, Log: zerolog.Nop(),
		Progress: func(done float64, text string) {
			if done > 0.8 && strings.Contains(text, "of the trace") {
				cancel()
			}
		},
	}}
	r, err := RunSteady(ctx, c)
	if !errors.Is(err, context.Canceled) || len(r.Trials) != 2 || r.Trials[0].Measured != c.Duration ||
		!(r.Trials[1].Measured > 0 && r.Trials[1].Measured < c.Duration) {
		t.Fatalf("got %v, %+v", err, r)
	}
	for _, x := range r.Trials {
		if x.Fallbacks != 0 || x.AtOnce <= 0 {
			t.Errorf("%s: %+v", x.Policy, x)
		}
		if x.Started == 0 || x.Policy == "fgd" && x.SameStart != x.Started {
			t.Errorf("%s: %d of the %d pods of the start are on the devices of the simulator", x.Policy, x.SameStart, x.Started)
		}
		// kube-scheduler draws among ties, and other ties may leave room for another pod
		if x.SameStart == x.Started && x.Cluster.Rejected != x.Simulated.Rejected {
			t.Errorf("%s: %d pods are rejected, in the simulator %d", x.Policy, x.Cluster.Rejected, x.Simulated.Rejected)
		}
		waited, simulated := 0, 0
		for class := range x.Cluster.Classes {
			waited += x.Cluster.Classes[class].Waited
			simulated += x.Simulated.Classes[class].Waited
		}
		if x.Cluster.Allocation < 0.5 || x.Cluster.Allocation > 1 || waited == 0 || simulated == 0 || x.Cluster.GPUHours <= 0 {
			t.Errorf("%s: %d pods waited, in the simulator %d: %+v, simulated %+v", x.Policy, waited, simulated, *x.Cluster, *x.Simulated)
		}
	}
}
