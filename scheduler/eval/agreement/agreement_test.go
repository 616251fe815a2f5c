package agreement

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktest "k8s.io/utils/clock/testing"

	"gnnsched/internal/cluster"
	"gnnsched/internal/exit"
	"gnnsched/internal/golden"
	"gnnsched/internal/runfolder"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/runlog"
	"gnnsched/scheduler/eval/testbed/inprocess"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/preference"
	"gnnsched/scheduler/policy/stock"
	"gnnsched/scheduler/server"
	"gnnsched/scheduler/server/stockconfig"
	"gnnsched/scheduler/sim"
	"gnnsched/workload"
)

// scenario has a few nodes of different sizes, so that scores rarely tie, and more pods than fit,
// some of which leave.
func scenario() eval.Scenario {
	size := func(milliCPU, gi int64) sim.NodeSize {
		return sim.NodeSize{Weight: 1, Allocatable: cluster.Resources{MilliCPU: milliCPU, Memory: gi << 30, Pods: 110}}
	}
	shape := func(name string, milliCPU, gi int64) workload.Shape {
		return workload.Shape{Name: name, Weight: 1, Requests: cluster.Resources{MilliCPU: milliCPU, Memory: gi << 30, Pods: 1}}
	}
	return eval.Scenario{Name: "test", About: "a few nodes and more pods than fit", Config: sim.Config{
		Nodes: sim.Exactly(3), Zones: sim.Exactly(2), ControlPlane: true, Initial: 0.2,
		Sizes:    []sim.NodeSize{size(7100, 17), size(9300, 37), size(13700, 29), size(17900, 53)},
		Shapes:   []workload.Shape{shape("a", 700, 1), shape("b", 1100, 3), shape("c", 2300, 2)},
		Replicas: sim.IntRange{Min: 1, Max: 4}, Load: sim.FloatRange{Min: 1, Max: 1}, Turnover: 1,
		Objective: objective.Mix{{Term: objective.Balance{}, Weight: 1}},
	}}
}

// gpuScenario has a few nodes with shared GPUs, and more pods than fit, some of which leave.
func gpuScenario() eval.Scenario {
	size := func(milliCPU, gpus int64, model string) sim.NodeSize {
		return sim.NodeSize{
			Weight: 1, Allocatable: cluster.Resources{MilliCPU: milliCPU, Memory: 64 << 30, GPU: gpus, Pods: 110}, GPUModel: model,
		}
	}
	shape := func(name string, r cluster.Resources, models ...string) workload.Shape {
		r.MilliCPU += 400
		r.Memory, r.Pods = 1<<30, 1
		return workload.Shape{Name: name, Weight: 1, Requests: r, GPUModels: models}
	}
	return eval.Scenario{Name: "gpus", About: "a few nodes with GPUs", Config: sim.Config{
		Nodes: sim.Exactly(4), Sizes: []sim.NodeSize{size(7100, 2, "T4"), size(9300, 4, "T4"), size(13700, 3, "G2")},
		Shapes: []workload.Shape{
			shape("share", cluster.Resources{GPUMilli: 300}), shape("large", cluster.Resources{GPUMilli: 700}, "T4", "A10"),
			shape("whole", cluster.Resources{GPU: 1}, "T4"), shape("two", cluster.Resources{GPU: 2, MilliCPU: 900}),
			shape("none", cluster.Resources{MilliCPU: 500}),
		},
		Replicas: sim.IntRange{Min: 1, Max: 3}, Load: sim.FloatRange{Min: 0.9, Max: 0.9}, Turnover: 1,
		Objective: objective.Mix{{Term: objective.Balance{}, Weight: 1}},
	}}
}

// seed draws nodes of different sizes and more pods than fit at the end.
const seed = 14

func contender(t *testing.T, name string, p server.Profile) Contender {
	h, err := heuristic.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	p.SchedulerName = name
	return Contender{Contender: eval.Contender{Name: h.Name, New: h.New, RandomTies: h.RandomTies}, Profile: p}
}

// The real scheduler agrees with the simulator: a heuristic in our plugin gives every pod the same
// node, and upstream's profile takes decisions that have the best score in our copy of its scoring.
func TestClusterAgreesWithSimulator(t *testing.T) {
	c := Config{Scenario: scenario(), Contenders: []Contender{
		contender(t, "best-fit", server.Profile{Args: server.Args{Policy: "best-fit"}}),
		contender(t, "kube-scheduler", server.Profile{Args: server.Args{Variant: server.DefaultProfile}}),
	}}
	dir := filepath.Join(t.TempDir(), "run")
	w, err := runfolder.Create(dir, runfolder.Manifest{Kind: "eval"}, clocktest.NewFakePassiveClock(time.Unix(0, 0)))
	if err != nil {
		t.Fatal(err)
	}
	log := runlog.New(w, 1, len(c.Contenders))
	watched := c.Scenario
	watched.Name = OnCluster(c.Scenario)
	for i := range c.Contenders {
		c.Contenders[i].Contender = log.Watched(watched, []eval.Contender{c.Contenders[i].Contender}, seed)[0]
	}
	r := &Report{Scenario: c.Scenario, Seeds: []uint64{seed}, Trials: agrees(t, c)}
	log.WriteRows(watched.Name, r.Policies(), r.Folder()...)
	if err := w.Close(nil); err != nil {
		t.Fatal(err)
	}
	inFolder(t, dir, r)
}

// inFolder checks that a folder has the data of a report of one seed: the metrics of cluster and simulator, frames of the cluster, the
// chosen nodes and the waiting times.
func inFolder(t *testing.T, dir string, want *Report) {
	t.Helper()
	got, err := runfolder.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Scenarios) != 2 || len(got.Verdicts) != 2 || len(got.Tables) != 2 || len(got.Episodes) != 4 {
		t.Fatalf("%d scenarios, %d verdicts, %d tables, %d episodes", len(got.Scenarios), len(got.Verdicts), len(got.Tables), len(got.Episodes))
	}
	for _, x := range want.Trials {
		var frames []runfolder.Frame
		for _, f := range got.Frames {
			if f.Contender == x.Policy {
				frames = append(frames, f)
			}
		}
		pods, never, decisions := 0, 0, 0
		for _, w := range got.Waits {
			if w.Contender == x.Policy {
				pods, never = pods+w.Pods, never+w.Never
			}
		}
		for _, d := range got.Decisions {
			if d.Contender == x.Policy && d.Node != "" && d.Feasible > 0 {
				decisions++
			}
		}
		if len(frames) < 2 || frames[len(frames)-1].Waiting != x.Cluster.Unscheduled || decisions == 0 || pods != x.Cluster.Arrived ||
			never != x.Cluster.Unscheduled {
			t.Errorf("%s: %d frames, %d decisions, %d pods, %d without a node; the trial has %+v", x.Policy, len(frames),
				decisions, pods, never, x.Cluster)
		}
		for _, e := range got.Episodes {
			if e.Contender == x.Policy && e.Scenario == "test on a cluster" && e.Values["cost"] != x.Cluster.Cost {
				t.Errorf("%+v, want the cost %v", e, x.Cluster.Cost)
			}
		}
	}
}

// The same with GPU devices, which the policy chooses and the pods' annotations record.
func TestClusterAgreesOnDevices(t *testing.T) {
	agrees(t, Config{Scenario: gpuScenario(),
		Contenders: []Contender{contender(t, "gpu-packing", server.Profile{Args: server.Args{Policy: "gpu-packing"}})}})
}

// The same with lost nodes, whose pods arrive again.
func TestClusterAgreesOnLoss(t *testing.T) {
	s := scenario()
	s.Nodes, s.Lose = sim.Exactly(6), 0.4
	got := agrees(t, Config{Scenario: s, Contenders: []Contender{contender(t, "best-fit",
		server.Profile{Args: server.Args{Policy: "best-fit"}})}})
	if n := got[0].Cluster.Nodes; n != 4 {
		t.Errorf("%d of six nodes are left, want 4", n)
	}
}

// Weights from a file decide in the plugin as they do in the simulator. Preferences are off in both, and in
// upstream's profile.
func TestClusterAgreesOnWeights(t *testing.T) {
	s, name := scenario(), "linear:../../policy/linear/linear-pack.json"
	s.Preferences = preference.Off
	agrees(t, Config{Scenario: s, Contenders: []Contender{
		contender(t, name, server.Profile{Args: server.Args{Policy: name}}),
		contender(t, "kube-scheduler", server.Profile{Args: server.Args{Variant: server.DefaultProfile}}),
	}})
}

// Upstream's score plugins, configured by the file that is written for a profile, decide as the profile does in
// the simulator: 95 % of the decisions or more have its best score. They are all of them.
func TestClusterAgreesOnStock(t *testing.T) {
	p := stock.Default()
	p.Weights = stock.Weights{Fit: 13, Balanced: 7, Spread: 31, Taints: 30, NodeAffinity: 20, PodAffinity: 20, ImageLocality: 10}
	p.Fit = []stock.Weighted{{Resource: stock.CPU, Weight: 3}, {Resource: stock.Memory, Weight: 17}}
	shaped, packed := p, p
	shaped.Strategy, shaped.Shape = stock.RequestedToCapacityRatio,
		[]stock.Point{{Utilization: 0, Score: 4}, {Utilization: 50, Score: 10}, {Utilization: 100, Score: 1}}
	packed.Strategy, packed.NoDefaultSpread, packed.Weights.Balanced = stock.MostAllocated, true, 0
	var contenders []Contender
	for name, profile := range map[string]stock.Profile{"least": p, "shaped": shaped, "packed": packed} {
		text, err := stockconfig.Write(profile, "a test")
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), name+".yaml")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		read, err := stockconfig.Read(path)
		if err != nil {
			t.Fatal(err)
		}
		ours, err := stock.New(name, read)
		if err != nil {
			t.Fatal(err)
		}
		contenders = append(contenders, Contender{
			Contender: eval.Contender{Name: name, New: func(policy.Setting) policy.Policy { return ours }, RandomTies: true},
			Profile:   server.Profile{SchedulerName: name, Stock: &read, Args: server.Args{Variant: server.DefaultProfile}},
		})
	}
	agrees(t, Config{Scenario: scenario(), Contenders: contenders})
}

// Run refuses the openb trace.
func TestRunRefuses(t *testing.T) {
	s := eval.Scenario{Name: "trace", Config: sim.Config{OpenB: &sim.OpenB{}}}
	if _, err := Run(t.Context(), Config{Scenario: s, Seeds: []uint64{1}}); exit.Code(err) != exit.Usage ||
		!strings.Contains(err.Error(), "openb") {
		t.Errorf("the openb trace: %v", err)
	}
}

// agrees runs the seed on a cluster in this process and compares each trial with the simulator.
func agrees(t *testing.T, c Config) []Trial {
	c.Seeds, c.Launcher = []uint64{seed}, inprocess.Launcher{}
	c.Progress = func(float64, string) {}
	r, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range r.Trials {
		if got.Placed < 20 || got.Best != got.Placed || got.Simulated.Unscheduled == 0 {
			t.Errorf("%s: %+v", got.Policy, got)
		}
		i := slices.IndexFunc(c.Contenders, func(x Contender) bool { return x.Name == got.Policy })
		if c.Contenders[i].Profile.Variant == server.DefaultProfile { // upstream and our copy break ties with different random numbers
			continue
		}
		if d := cmp.Diff(got.Simulated, got.Cluster); d != "" || got.Same != got.Placed {
			t.Errorf("%s: %d of %d pods on the same node; -simulator +cluster:\n%s", got.Policy, got.Same, got.Placed, d)
		}
	}
	return r.Trials
}

func TestReportGolden(t *testing.T) {
	r := &Report{Scenario: eval.Scenario{Name: "made", About: "figures made up for a test"}, Seeds: []uint64{1, 2}}
	for i := range r.Seeds {
		for k, name := range []string{"kube-scheduler", "gnn"} {
			r.Trials = append(r.Trials, Trial{
				Policy: name, Seed: r.Seeds[i], Placed: 100, Same: 90 * k, Best: 100 - k,
				Simulated: sim.Outcome{Cost: 0.1, CPUStd: 0.2, MemoryStd: 0.3, NodesInUse: 10, Unscheduled: k},
				Cluster:   sim.Outcome{Cost: 0.1 + 0.01*float64(i), CPUStd: 0.2, MemoryStd: 0.27, NodesInUse: 10 - k, Unscheduled: i},
			})
		}
	}
	for file, markdown := range map[string]bool{"report.txt": false, "report.md": true} {
		var b bytes.Buffer
		if err := r.Write(&b, markdown); err != nil {
			t.Fatal(err)
		}
		golden.Check(t, file, b.String())
	}
}
