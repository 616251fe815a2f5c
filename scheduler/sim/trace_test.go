package sim

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat"

	"gnnsched/internal/cluster"
	"gnnsched/internal/each"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/objective"
	"gnnsched/workload"
)

// A pod list of the openb format is a trace like any other: its pods come and go at its times, on any
// nodes.
func TestPodListIsATrace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pods.csv")
	err := os.WriteFile(file, []byte("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time\n"+
		"late,1000,1024,1,600,T4,50,90\nearly,1000,1024,1,700,,10,40\nelsewhere,1000,1024,1,100,G2,20,30\n"), 0o600)
	fatal.If(t, err)
	c := Config{
		Nodes: Exactly(1), Sizes: []NodeSize{{Weight: 1, Allocatable: cluster.Resources{MilliCPU: 8000, Memory: 8 << 30, GPU: 1, Pods: 10},
			GPUModel: "T4"}},
		Trace: &Trace{File: file, Resampling: Resampling{Resample: new(false)}}, Objective: objective.Mix{{Term: objective.Balance{}, Weight: 1}},
	}
	e := fatal.Value(New(c))(t)
	fatal.If(t, e.Reset(1))
	var order []string
	for !e.Done() {
		order = append(order, e.Pending().Name)
		e.Step(0)
	}
	if o := e.Outcome(); len(order) != 2 || order[0] != "early" || order[1] != "late" || o.Unscheduled != 1 {
		t.Errorf("%v ran, %+v", order, o)
	}
}

// bursty is a trace of 40 bursts, an hour apart, of 25 pods within 25 seconds. The pods of a burst are
// alike; bursts differ in requests and lifetimes.
func bursty() (out workload.Trace) {
	rng := rand.New(rand.NewPCG(7, 7))
	for burst := range 40 {
		d := workload.Deployment{Name: fmt.Sprintf("job-%d", burst), Replicas: 1}
		d.Shape.Requests = cluster.Resources{MilliCPU: int64(100 * (1 + rng.IntN(40))), Memory: 1 << 30, Pods: 1}
		lifetime := float64(60 * (1 + rng.IntN(100)))
		for i := range 25 {
			out = append(out, workload.Arrival{At: float64(3600*burst + i), Lifetime: lifetime, Deployment: d})
		}
	}
	return out.FromZero()
}

// meanDemand returns the CPU that the pods of a trace request on average over the time of their arrivals,
// if each runs at once.
func meanDemand(t workload.Trace) (milliCPU float64) {
	for _, a := range t {
		milliCPU += float64(a.Deployment.Shape.Requests.MilliCPU) * a.Lifetime
	}
	return milliCPU / t[len(t)-1].At
}

// dispersion returns variance / mean of the arrivals in windows of the given seconds: 1 for a Poisson process, more
// for bursts.
func dispersion(t workload.Trace, window float64) float64 {
	counts := make([]float64, int(t[len(t)-1].At/window)+1)
	for _, a := range t {
		counts[int(a.At/window)]++
	}
	mean, variance := stat.PopMeanVariance(counts, nil)
	return variance / mean
}

// likeness returns the correlation between the requests of successive arrivals.
func likeness(t workload.Trace) float64 {
	cpu := each.Map(t, func(a workload.Arrival) float64 { return float64(a.Deployment.Shape.Requests.MilliCPU) })
	return stat.Correlation(cpu[1:], cpu[:len(cpu)-1], nil)
}

// Resampled episodes keep the trace's demand, the pace of its arrivals and its bursts of pods that are
// alike, and differ by seed. Single arrivals drawn at random, which are blocks of 1, would mix the bursts.
func TestResampledTraceKeepsStatistics(t *testing.T) {
	whole := bursty()
	var demand, length, bursts, alike, mixed float64
	const seeds = 100
	seen := map[string]bool{}
	for seed := range uint64(seeds) {
		got := Resampling{Block: 50}.resample(stream(seed, streamWorkload), whole, 0)
		if len(got) != len(whole) || got[0].At != 0 ||
			!slices.IsSortedFunc(got, func(a, b workload.Arrival) int { return cmp.Compare(a.At, b.At) }) {
			t.Fatalf("seed %d: %d arrivals, the first at %v", seed, len(got), got[0].At)
		}
		again := Resampling{Block: 50}.resample(stream(seed, streamWorkload), whole, 0)
		if !reflect.DeepEqual(got, again) {
			t.Fatalf("seed %d gives two workloads", seed)
		}
		seen[fmt.Sprint(got)] = true
		demand += meanDemand(got) / seeds
		length += got[len(got)-1].At / seeds
		bursts += dispersion(got, 600) / seeds
		alike += likeness(got) / seeds
		mixed += likeness(Resampling{Block: 1}.resample(stream(seed, streamWorkload), whole, 0)) / seeds
	}
	if len(seen) != seeds {
		t.Errorf("%d workloads on %d seeds", len(seen), seeds)
	}
	near := func(what string, got, want, tolerance float64) {
		if math.Abs(got/want-1) > tolerance {
			t.Errorf("%s: %.4g, the trace has %.4g", what, got, want)
		}
	}
	near("demand", demand, meanDemand(whole), 0.05)
	near("length", length, whole[len(whole)-1].At, 0.05)
	near("dispersion", bursts, dispersion(whole, 600), 0.2) // less, because blocks begin and end within bursts
	near("likeness", alike, likeness(whole), 0.05)
	if math.Abs(mixed) > 0.05 {
		t.Errorf("successive arrivals of single draws have a correlation of %.3g", mixed)
	}
}

// A block is a run of consecutive arrivals, with their times since each other. Pods get names that tell
// the copies of an arrival apart, and arrivals that shared a name share one still.
func TestResampledBlocks(t *testing.T) {
	whole := bursty()
	got := Resampling{}.resample(stream(3, streamWorkload), whole, 100) // blocks of 32, the root of 1,000
	if len(got) != 100 {
		t.Fatalf("%d arrivals for 100 pods", len(got))
	}
	for i, a := range got {
		if i%32 == 0 {
			continue
		}
		if after := a.At - got[i-1].At; after != 1 && after != 3600-24 && math.Abs(after-140.5) > 1 {
			t.Errorf("arrival %d comes %v s after the one before it", i, after)
		}
	}
	twice := newCopies(whole)
	for row, want := range map[int]string{0: "job-0", 1: "job-0", 25: "job-1"} {
		if name := twice.of(row); name != want {
			t.Errorf("first copy of arrival %d: %s", row, name)
		}
	}
	if a, b, c := twice.of(0), twice.of(1), twice.of(0); a != "job-0-2" || b != a || c != "job-0-3" {
		t.Errorf("further copies: %s, %s, %s", a, b, c)
	}
}

// FixedWorkload tells whether seeds differ in their pods.
func TestFixedWorkload(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trace.csv")
	fatal.If(t, os.WriteFile(file, []byte("arrival,cpu_request,mem_request,lifetime\n0,1,1Gi,5\n1,2,1Gi,5\n3,1,2Gi,9\n4,3,1Gi,2\n"),
		0o600))
	for _, c := range []struct {
		name  string
		trace Trace
		fixed bool
	}{
		{"resampled by default", Trace{File: file}, false},
		{"as recorded", Trace{File: file, Resampling: Resampling{Resample: new(false)}}, true},
		{"windows", Trace{File: file, Pods: 2}, false},
		{"one window", Trace{File: file, Pods: 4}, true},
		{"blocks instead of windows", Trace{File: file, Pods: 4, Resampling: Resampling{Resample: new(true), Block: 2}}, false},
	} {
		cfg := Config{
			Nodes: Exactly(2), Sizes: []NodeSize{{Weight: 1, Allocatable: cluster.Resources{MilliCPU: 8000, Memory: 8 << 30, Pods: 10}}},
			Trace: &c.trace, Objective: objective.Mix{{Term: objective.Balance{}, Weight: 1}},
		}
		e := fatal.Value(New(cfg))(t)
		if e.FixedWorkload() != c.fixed {
			t.Errorf("%s: fixed is %v", c.name, e.FixedWorkload())
		}
		workloads := map[string]bool{}
		for seed := range uint64(20) {
			fatal.If(t, e.Reset(seed))
			workloads[fmt.Sprint(e.arrivals.at, e.arrivals.pods, e.arrivals.deployments)] = true
		}
		if c.fixed != (len(workloads) == 1) {
			t.Errorf("%s: %d workloads on 20 seeds", c.name, len(workloads))
		}
	}
	if drawn := newEnv(t, openbConfig(t, 1.3), 1); drawn.FixedWorkload() {
		t.Error("an inflated trace has an order for each seed")
	}
	recorded, ok := openbConfig(t, 0).Resampled(false)
	if e := newEnv(t, recorded, 1); !ok || !e.FixedWorkload() {
		t.Error("a pod list as recorded is the same on each seed")
	}
	if e := newEnv(t, openbConfig(t, 0), 1); e.FixedWorkload() {
		t.Error("a pod list at its times is not resampled")
	}
	if _, ok := openbConfig(t, 1.3).Resampled(true); ok {
		t.Error("an inflated trace cannot be resampled")
	}
}

// Blocks of time keep the hour of each arrival, and pods that ran at the beginning of a part come first.
func TestBlocksOfTime(t *testing.T) {
	all := bursty()
	part := fatal.Value(Trace{From: 7200 + 10, To: 5 * 3600, Resampling: Resampling{BlockSeconds: 3600}}.part(all))(t)
	ran, others := split(part)
	for _, a := range ran {
		if a.At != -1 || a.Lifetime <= 0 || a.Lifetime > 6000 {
			t.Errorf("%+v", a)
		}
	}
	if len(ran) < 10 || len(others) != 15+50 || others[0].At != 0 {
		t.Errorf("%d ran, %d others from %v on", len(ran), len(others), others[0].At)
	}
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		drawn := Trace{Pods: 100, Resampling: Resampling{Resample: new(true), BlockSeconds: 3600}}.arrivals(rng, all)
		if n := drawn.Pods(); n != 100 {
			t.Errorf("%d pods", n)
		}
		for i, a := range drawn {
			if at := math.Mod(a.At, 3600); at != float64(i%25) || i > 0 && a.At < drawn[i-1].At {
				t.Fatalf("pod %d arrives at %v", i, a.At)
			}
		}
	}
	for text, c := range map[string]Trace{
		"trace.to": {From: 5, To: 5}, "trace.from": {From: math.NaN()}, "blockSeconds": {Resampling: Resampling{BlockSeconds: -1}},
		"excludes":       {Resampling: Resampling{Block: 2, BlockSeconds: 2}},
		"resample: true": {Resampling: Resampling{Resample: new(false), BlockSeconds: 2}},
	} {
		c.File = "x.csv"
		if err := (Config{Nodes: Exactly(1), Sizes: []NodeSize{{Weight: 1, Allocatable: AAMLNode}}, Trace: &c,
			Objective: objective.Mix{{Term: objective.Balance{}, Weight: 1}}}).Validate(); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
