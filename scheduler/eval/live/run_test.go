package live_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"gnnsched/internal/cluster"
	"gnnsched/internal/each"
	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/eval"
	sources "gnnsched/scheduler/eval/contender"
	"gnnsched/scheduler/eval/live"
	"gnnsched/scheduler/eval/testbed/inprocess"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/preference"
	"gnnsched/scheduler/policy/stock"
	"gnnsched/scheduler/server"
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

// trace has machines and pods as in openb's lists, and more pods than fit.
func trace(t *testing.T) eval.Scenario {
	t.Helper()
	dir := t.TempDir()
	pods := &strings.Builder{}
	fmt.Fprintln(pods, "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec")
	for i := range 60 {
		ask := []string{"1,1000,", "1,300,", "1,460,A10|T4", "2,1000,T4", "0,0,"}[i%5]
		fmt.Fprintf(pods, "pod-%d,%d,%d,%s\n", i, 500+100*(i%7), 1024, ask)
	}
	o := &sim.OpenB{NodesFile: filepath.Join(dir, "nodes.csv"), PodsFile: filepath.Join(dir, "pods.csv"), Factor: 1.3, InOrder: true}
	nodes := "sn,cpu_milli,memory_mib,gpu,model\nnode-0,16000,65536,4,T4\nnode-1,8000,32768,2,G2\nnode-2,12000,65536,4,A10\n"
	fatal.If(t, errors.Join(os.WriteFile(o.NodesFile, []byte(nodes), 0o600), os.WriteFile(o.PodsFile, []byte(pods.String()), 0o600)))
	return eval.Scenario{Name: "trace", About: "a small trace", Config: sim.Config{
		OpenB: o, Objective: objective.Mix{{Term: objective.Balance{}, Weight: 1}},
	}}
}

// seed draws nodes of different sizes and more pods than fit at the end.
const seed = 14

func contender(t *testing.T, name string, p server.Profile) live.Contender {
	t.Helper()
	h := fatal.Value(heuristic.Find(name))(t)
	p.SchedulerName = name
	return live.Contender{Contender: eval.Contender{Name: h.Name, New: h.New, RandomTies: h.RandomTies}, Profile: p}
}

// The real scheduler agrees with the simulator: a heuristic in our plugin gives every pod the same node, and upstream's profile and stock
// profiles take decisions that have the best score in our copies of their scoring.
func TestClusterAgreesWithSimulator(t *testing.T) {
	agrees(t, live.Config{Scenario: scenario(), Contenders: append(stockContenders(t),
		contender(t, "best-fit", server.Profile{Args: server.Args{Policy: "best-fit"}}),
		contender(t, "kube-scheduler", server.Profile{Args: server.Args{Variant: server.DefaultProfile}}),
	)})
}

// The same with GPU devices, which a policy and a network choose and the pods' annotations record, on a trace.
func TestClusterAgreesOnDevices(t *testing.T) {
	network := fatal.Value(sources.Named("gpu-gnn"))(t)
	got := agrees(t, live.Config{Scenario: trace(t), Contenders: []live.Contender{
		contender(t, "fgd", server.Profile{Args: server.Args{Policy: "fgd"}}),
		{Contender: network, Profile: server.Profile{SchedulerName: "gpu-gnn", Args: server.Args{Variant: "gpu-gnn"}}},
	}})
	for _, x := range got {
		if x.Cluster.GPU.Allocation < 0.5 {
			t.Errorf("%s: %+v", x.Policy, x.Cluster.GPU)
		}
	}
}

// The same with partitions of GPUs, which claims ask for. Policies put each on the node, the GPU and the start of the simulator, and
// upstream's allocator the first that fits on the node.
func TestClusterAgreesOnPartitions(t *testing.T) {
	s := eval.Scenario{Name: "mig", About: "partitions of two models", Config: sim.Config{
		MIG:         &sim.MIG{Models: []string{"A100", "H100"}, Machines: 2, GPUs: 2, Mix: "skew-small", Loads: []float64{1.3}},
		Preferences: preference.Off,
	}}
	upstream := contender(t, "kube-scheduler", server.Profile{Args: server.Args{Variant: server.DefaultProfile}})
	nodes := upstream.New
	upstream.New = func(s policy.Setting) policy.Policy { return policy.FirstFit(nodes(s)) }
	c := live.Config{Scenario: s, Contenders: []live.Contender{upstream}}
	for _, name := range []string{"mig:best-fit", "mig:placements", "gpu-best-fit", "mig:value"} {
		c.Contenders = append(c.Contenders, contender(t, name, server.Profile{Args: server.Args{Policy: name}}))
	}
	agrees(t, c)
}

// The same with lost nodes, whose pods arrive again, by weights from a file and without preferences.
func TestClusterAgreesOnLoss(t *testing.T) {
	s, name := scenario(), "linear:../../policy/linear/linear-pack.json"
	s.Nodes, s.Lose, s.Preferences = sim.Exactly(6), 0.4, preference.Off
	got := agrees(t, live.Config{Scenario: s, Contenders: []live.Contender{contender(t, name, server.Profile{Args: server.Args{Policy: name}})}})
	if n := got[0].Cluster.Nodes; n != 4 {
		t.Errorf("%d of six nodes are left, want 4", n)
	}
}

// stockContenders are upstream's score plugins, configured by the files that are written for profiles.
func stockContenders(t *testing.T) (contenders []live.Contender) {
	t.Helper()
	p := stock.Default()
	p.Weights = stock.Weights{Fit: 13, Balanced: 7, Spread: 31, Taints: 30, NodeAffinity: 20, PodAffinity: 20, ImageLocality: 10}
	p.Fit = []stock.Weighted{{Resource: stock.CPU, Weight: 3}, {Resource: stock.Memory, Weight: 17}}
	shaped, packed := p, p
	shaped.Strategy, shaped.Shape = stock.RequestedToCapacityRatio,
		[]stock.Point{{Utilization: 0, Score: 4}, {Utilization: 50, Score: 10}, {Utilization: 100, Score: 1}}
	packed.Strategy, packed.NoDefaultSpread, packed.Weights.Balanced = stock.MostAllocated, true, 0
	for name, profile := range map[string]stock.Profile{"least": p, "shaped": shaped, "packed": packed} {
		text := fatal.Value(server.WriteStockConfig(profile, "a test"))(t)
		path := filepath.Join(t.TempDir(), name+".yaml")
		fatal.If(t, os.WriteFile(path, text, 0o600))
		read := fatal.Value(server.ReadStockConfig(path))(t)
		ours := fatal.Value(stock.New(name, read))(t)
		contenders = append(contenders, live.Contender{
			Contender: eval.Contender{Name: name, New: func(policy.Setting) policy.Policy { return ours }, RandomTies: true},
			Profile:   server.Profile{SchedulerName: name, Stock: &read, Args: server.Args{Variant: server.DefaultProfile}},
		})
	}
	return contenders
}

// agrees runs the seed on a cluster in this process and compares each trial with the simulator.
func agrees(t *testing.T, c live.Config) []live.Trial {
	c.Seeds, c.Launcher = []uint64{seed}, inprocess.Launcher{}
	c.Progress = func(float64, string) {}
	r := fatal.Value(live.Run(t.Context(), c))(t)
	for _, got := range r.Trials {
		counts := got.Policy == "mig:value" // the pods that arrive, and the simulator knows the mix
		if got.Placed < 10 || got.Best != got.Placed && !counts || got.Simulated.Unscheduled == 0 {
			t.Errorf("%s: %+v", got.Policy, got)
		}
		waiting := each.Sum(got.Waiting, func(w live.Waiter) int { return w.Pods })
		if waiting != got.Cluster.Unscheduled {
			t.Errorf("%s: waiting pods %+v, want %d", got.Policy, got.Waiting, got.Cluster.Unscheduled)
		}
		i := slices.IndexFunc(c.Contenders, func(x live.Contender) bool { return x.Name == got.Policy })
		if counts || c.Contenders[i].Profile.Variant == server.DefaultProfile { // upstream and our copy break ties with different random numbers
			continue
		}
		if d := cmp.Diff(got.Simulated, got.Cluster); d != "" || got.Same != got.Placed {
			t.Errorf("%s: %d of %d pods on the same node; -simulator +cluster:\n%s", got.Policy, got.Same, got.Placed, d)
		}
	}
	return r.Trials
}

// A scenario that no cluster can play is refused before one starts.
func TestRunRefuses(t *testing.T) {
	s := scenario()
	s.Usage = &sim.Usage{}
	leave := eval.Scenario{Name: "leave", Config: sim.Config{MIG: &sim.MIG{Load: 0.9}}}
	for _, s := range []eval.Scenario{s, leave} {
		if _, err := live.Run(t.Context(), live.Config{Scenario: s, Seeds: []uint64{seed}}); exit.Code(err) != exit.Usage {
			t.Errorf("%s: got %v", s.Name, err)
		}
	}
}

func TestReportGolden(t *testing.T) {
	r := &live.Report{Scenario: eval.Scenario{Name: "made", About: "figures made up for a test"}, Seeds: []uint64{1, 2}}
	for i := range r.Seeds {
		for k, name := range []string{"kube-scheduler", "gnn"} {
			r.Trials = append(r.Trials, live.Trial{
				Policy: name, Seed: r.Seeds[i], Placed: 100, Same: 90 * k, Best: 100 - k,
				Simulated: sim.Outcome{Cost: 0.1, CPUStd: 0.2, MemoryStd: 0.3, NodesInUse: 10, Unscheduled: k},
				Cluster:   sim.Outcome{Cost: 0.1 + 0.01*float64(i), CPUStd: 0.2, MemoryStd: 0.27, NodesInUse: 10 - k, Unscheduled: i},
				Waiting:   slices.Repeat([]live.Waiter{{Kind: "4 CPU, 16 GiB, disk=local", Pods: 1, Nodes: 2, Others: 7}}, i),
			})
		}
	}
	for file, markdown := range map[string]bool{"report.txt": false, "report.md": true} {
		var b bytes.Buffer
		fatal.If(t, r.Write(&b, markdown))
		fatal.Golden(t, file, b.String())
	}
}

// The candidates of the simulator are those nodes with room whose labels upstream's node affinity matches, also for the selectors and the
// required affinity (In, NotIn, Gt) that family-affinity draws; and each pod has a node on an empty cluster.
func TestCandidatesMeetUpstreamsAffinity(t *testing.T) {
	s := fatal.Value(eval.Find("family-affinity"))(t)
	operators := map[string]int{}
	env := fatal.Value(sim.New(s.Config))(t)
	for seed := range uint64(12) {
		fatal.If(t, env.Reset(seed))
		rng := rand.New(rand.NewPCG(seed, 1))
		matches := map[string][]bool{} // by kind of pod: the nodes
		empty := slices.Clone(env.Snapshot().Nodes)
		for _, a := range env.Plan() {
			key := cluster.KindKey(a.Pod)
			if matches[key] != nil {
				continue
			}
			required := nodeaffinity.GetRequiredNodeAffinity(live.Pod("p", "s", a.Pod))
			fits := 0
			for _, n := range empty {
				ok := fatal.Value(required.Match(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: n.Labels}}))(t)
				matches[key] = append(matches[key], ok)
				if ok && n.Tolerated(a.Pod.Tolerations) && a.Pod.Requests.Within(n.Allocatable) {
					fits++
				}
			}
			if fits == 0 {
				t.Errorf("seed %d: no node for a pod that needs %s", seed, a.Pod.Where())
			}
			for _, term := range a.Pod.NodeAffinity {
				for _, r := range term {
					operators[r.Operator]++
				}
			}
		}
		for !env.Done() {
			p := env.Pending()
			var want []int32
			for row, n := range env.Snapshot().Nodes {
				room := p.Requests.Within(n.Free())
				if room && matches[cluster.KindKey(p)][row] && n.Tolerated(p.Tolerations) {
					want = append(want, int32(row))
				}
			}
			if !slices.Equal(env.Candidates(), want) {
				t.Fatalf("seed %d: candidates %v, want %v, for %s", seed, env.Candidates(), want, p.Where())
			}
			env.Step(rng.IntN(len(want)))
		}
	}
	if operators["In"] == 0 || operators["NotIn"] == 0 || operators["Gt"] == 0 {
		t.Errorf("operators %v", operators)
	}
}
