package eval_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/cluster"
	"gnnsched/internal/each"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/eval"
	contenders "gnnsched/scheduler/eval/contender"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/preference"
	"gnnsched/scheduler/sim"
	"gnnsched/workload/trace/openb"
)

// TestShippedCheckpoints holds the scores of every shipped checkpoint, and of the learned weights of rule, on states that a heuristic brings
// about, so that no change of features, encoder or network changes them. The kernels in assembly and in Go round differently, which the tolerance
// allows.
func TestShippedCheckpoints(t *testing.T) {
	var got strings.Builder
	for _, name := range append(checkpoint.ShippedNames(), "rule") {
		if slices.Contains(checkpoint.ShippedFor(checkpoint.GPUGraph), name) {
			scoreEpisode(t, &got, name, gpuEnvironment(t, openb.Taints{}), name)
			continue
		}
		for _, scenario := range []string{"small8", "zonal"} {
			s, err := eval.Find(scenario)
			fatal.If(t, err)
			env, err := sim.New(s.Config)
			fatal.If(t, err)
			scoreEpisode(t, &got, name+" "+scenario, env, name)
		}
	}
	const tolerance = 1e-5
	if diff := differentNumbers(fatal.ReadGolden(t, "shipped.txt"), got.String(), tolerance); diff != "" {
		fatal.Golden(t, "shipped.txt", got.String()) // shows every line, or writes the file
		t.Logf("first difference beyond the tolerance: %s", diff)
	}
}

// gpuEnvironment is a cluster of four kinds of GPU machines, on which shares, whole devices and pods
// that name models arrive.
func gpuEnvironment(t *testing.T, taints openb.Taints) *sim.Env {
	t.Helper()
	var nodes []openb.Node
	var pods []openb.Pod
	for i := range 16 {
		nodes = append(nodes, openb.Node{
			Name: fmt.Sprintf("node-%02d", i), MilliCPU: []int64{32_000, 64_000, 96_000, 128_000}[i%4], MemoryMiB: 262_144,
			GPUs: []int64{2, 4, 8, 8}[i%4], Model: []string{"P100", "T4", "V100M32", "G2"}[i%4],
		})
	}
	for i := range 120 {
		p := openb.Pod{
			Name: fmt.Sprintf("pod-%03d", i), MilliCPU: int64(1000 * (1 + i%12)), MemoryMiB: int64(1024 * (1 + i%7)), GPUs: 1, GPUMilli: 1000,
		}
		switch i % 5 {
		case 0:
			p.GPUMilli = int64(100 + 90*(i%9))
		case 1:
			p.GPUs = []int64{2, 4, 8}[i%3]
		case 2:
			p.Models = []string{"T4", "G2"}
		}
		pods = append(pods, p)
	}
	nodes, pods, err := taints.Apply(rand.New(rand.NewPCG(3, 4)), nodes, pods)
	fatal.If(t, err)
	pack := fatal.Value(objective.Parse("pack"))(t)
	return fatal.Value(sim.New(sim.Config{Objective: pack, OpenB: &sim.OpenB{Nodes: nodes, Pods: pods, Factor: 1.3}}))(t)
}

// scoreEpisode plays an episode with best fit and writes the network's scores of every fortieth
// decision's first candidates.
func scoreEpisode(t *testing.T, to *strings.Builder, title string, env *sim.Env, shipped string) {
	t.Helper()
	const every, candidates, decisions = 40, 6, 200
	x := fatal.Value(contenders.Named(shipped))(t)
	network := x.New(policy.Setting{Typical: env.Typical()})
	h := fatal.Value(heuristic.Find("best-fit"))(t)
	player := h.New(policy.Setting{})
	fatal.If(t, env.Reset(5))
	for step := 0; !env.Done() && step < decisions; step++ {
		rows := env.Candidates()
		scores := make([]float32, len(rows))
		fatal.If(t, network.Score(env.Snapshot(), env.Pending(), rows, scores))
		if step%every == 0 {
			fmt.Fprintf(to, "%s %d:", title, step)
			for _, v := range scores[:min(candidates, len(scores))] {
				fmt.Fprintf(to, " %.7g", v)
			}
			to.WriteByte('\n')
		}
		fatal.If(t, player.Score(env.Snapshot(), env.Pending(), rows, scores))
		env.Step(policy.Best(scores))
	}
}

// differentNumbers returns the first difference between two texts that is not a number within the
// tolerance, relative to numbers over 1; empty if there is none.
func differentNumbers(want, got string, tolerance float64) string {
	a, b := strings.Fields(want), strings.Fields(got)
	if len(a) != len(b) {
		return fmt.Sprintf("%d words, want %d", len(b), len(a))
	}
	for i := range a {
		if a[i] == b[i] {
			continue
		}
		x, errX := strconv.ParseFloat(a[i], 64)
		y, errY := strconv.ParseFloat(b[i], 64)
		if errX != nil || errY != nil || math.Abs(x-y) > tolerance*max(1, math.Abs(x)) {
			return fmt.Sprintf("%q, want %q", b[i], a[i])
		}
	}
	return ""
}

// Where few nodes have what some pods need, who keeps room for them has fewer pods waiting. The bounds leave room for other seeds:
// docs/results/waiting.md has the means of 40.
func TestRoomIsKept(t *testing.T) {
	for name, bounds := range map[string][]string{
		"scarce":             {"gnn.waiting <= 0.35*linear.waiting", "price.waiting < reserve.waiting", "reserve.waiting < 0.6*linear.waiting"},
		"scarce-deployments": {"gnn.waiting <= 0.7*linear.waiting"},
		"scarce-zones":       {"gnn.waiting <= 0.95*linear.waiting"},
		"scarce-arch":        {"gnn.waiting <= 0.65*linear.waiting"},
		"scarce-spot":        {"gnn.waiting <= 1.2*linear.waiting"},
		"scarce8":            {"gnn.waiting <= 0.97*linear.waiting"},
		"family-scarce":      {"gnn.waiting <= 1.03*linear.waiting"},
		"lossy":              {"gnn.waiting <= 0.9*linear.waiting"},
	} {
		s := fatal.Value(eval.Find(name))(t)
		var policies []eval.Contender
		for _, name := range []string{"linear", "reserve", "price", "gnn"} {
			x := fatal.Value(contenders.Named(name))(t)
			policies = append(policies, x)
		}
		c := fatal.Value(eval.Compare(t.Context(), s, policies, eval.Seeds(101, 12), nil))(t)
		var thresholds []eval.Threshold
		for _, text := range append(bounds, "gnn.waiting <= 1.12*price.waiting") {
			threshold := fatal.Value(eval.ParseThreshold(text))(t)
			thresholds = append(thresholds, threshold)
		}
		fatal.If(t, c.Judge(thresholds))
		for _, v := range c.Verdicts {
			if !v.Pass {
				t.Errorf("%s: %s", name, v)
			}
		}
	}
}

// Default spreading is weighed against a policy's scores. kube-scheduler adds its own to those of all preferences. Both matter in the
// episode.
func TestPreferencesAreWeighed(t *testing.T) {
	env := started(t, "hetero80", preference.First)
	bestFit, kubernetes := named(t, "best-fit"), named(t, "kube-scheduler")
	overruled, weighed := 0, 0
	for steps := 0; !env.Done() && steps < 1000; steps++ {
		rows, sums := env.Candidates(), env.Preferences()
		own := make([]float32, len(rows))
		fatal.If(t, kubernetes.Score(env.Snapshot(), env.Pending(), rows, own))
		total := scores(t, env, kubernetes)
		for i := range total {
			if sums != nil && total[i] != own[i]+float32(sums[i]) || sums == nil && total[i] != own[i] {
				t.Fatalf("kube-scheduler's score %v of candidate %d is not %v plus that of preferences", total[i], i, own[i])
			}
		}
		if !slices.Contains(env.Preferred(), int32(policy.Best(total))) {
			weighed++
		}
		fatal.If(t, bestFit.Score(env.Snapshot(), env.Pending(), rows, own))
		after, want := scores(t, env, bestFit), slices.Clone(own)
		if spread := env.PreferencesBy(preference.Weights{Spread: 1}); spread != nil {
			preference.Weigh(want, nil, spread)
		}
		if !slices.Equal(after, want) {
			t.Fatalf("best-fit's scores %v are %v, want %v", own, after, want)
		}
		if policy.Best(after) != policy.Best(own) {
			overruled++
		}
		env.Step(policy.Best(after))
	}
	if overruled == 0 || weighed == 0 {
		t.Errorf("preferences overruled best-fit %d times, and kube-scheduler preferences %d times", overruled, weighed)
	}
}

// With preferences off, scores are the policy's own.
func TestPreferencesOff(t *testing.T) {
	env := started(t, "zonal", preference.Off)
	p := named(t, "kube-scheduler")
	for steps := 0; !env.Done() && steps < 100; steps++ {
		own := make([]float32, len(env.Candidates()))
		fatal.If(t, p.Score(env.Snapshot(), env.Pending(), env.Candidates(), own))
		if got := scores(t, env, p); !slices.Equal(got, own) {
			t.Fatalf("step %d: %v, want %v", steps, got, own)
		}
		env.Step(policy.Best(own))
	}
}

// YAML reads an unquoted off as a boolean.
func TestPreferencesInScenarioFile(t *testing.T) {
	source := fatal.Value(eval.Source("aaml"))(t)
	got, err := eval.Read("mine.yaml", append(source, "preferences: off\n"...))
	if err != nil || got[0].Preferences != preference.Off {
		t.Errorf("%+v, %v", got, err)
	}
}

// started returns the first episode of a built-in scenario.
func started(t *testing.T, scenario string, m preference.Mode) *sim.Env {
	t.Helper()
	s := fatal.Value(eval.Find(scenario))(t)
	s.Preferences = m
	env, err := sim.New(s.Config)
	if err == nil {
		err = env.Reset(1)
	}
	fatal.If(t, err)
	return env
}

func named(t *testing.T, name string) policy.Policy {
	t.Helper()
	h := fatal.Value(heuristic.Find(name))(t)
	return h.New(policy.Setting{})
}

func scores(t *testing.T, env *sim.Env, p policy.Policy) []float32 {
	t.Helper()
	return fatal.Value(eval.Scores(env, p, nil))(t)
}

// trial holds a policy's placements of an environment's pods.
type trial struct {
	scores  [][]float32
	nodes   []string
	devices []cluster.DeviceSet
}

func try(t *testing.T, name string, taints openb.Taints) (x trial) {
	t.Helper()
	named := fatal.Value(contenders.Named(name))(t)
	env := gpuEnvironment(t, taints)
	p := named.New(policy.Setting{Typical: env.Typical()})
	fatal.If(t, env.Reset(5))
	for !env.Done() {
		scores := fatal.Value(eval.Scores(env, p, nil))(t)
		best := policy.Best(scores)
		n := env.Snapshot().Nodes[env.Candidates()[best]]
		on := policy.Devices(p, n, env.Pending())
		x.scores, x.nodes, x.devices = append(x.scores, scores), append(x.nodes, n.Name), append(x.devices, on)
		env.StepOn(best, on)
	}
	return x
}

// With every node tainted and every pod tolerating it, scores, nodes and devices are those without
// taints.
func TestTaintsThatAllPodsTolerate(t *testing.T) {
	for _, name := range []string{"gpu-gnn", "fgd"} {
		plain, tainted := try(t, name, openb.Taints{}), try(t, name, openb.Taints{Pools: 1, Tolerating: 1, CPU: true})
		if len(plain.nodes) < 50 {
			t.Fatalf("%d decisions", len(plain.nodes))
		}
		if d := cmp.Diff(plain, tainted, cmp.AllowUnexported(trial{})); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// The devices count if some pods with GPUs tolerate the taint, though those without do not.
func TestTaintsCountForPodsWithGPUs(t *testing.T) {
	for _, x := range []struct {
		taints openb.Taints
		whole  bool
	}{
		{openb.Taints{Pools: 1, Tolerating: 1}, true}, {openb.Taints{Pools: 1, Tolerating: 0.5}, true}, {openb.Taints{Pools: 1}, false},
		{openb.Taints{Pools: 0.5}, false},
	} {
		env := gpuEnvironment(t, x.taints)
		fatal.If(t, env.Reset(5))
		open := each.Count(env.Snapshot().Nodes, func(n *cluster.Node) bool { return env.Typical().Open(n) })
		if all := len(env.Snapshot().Nodes); (open == all) != x.whole {
			t.Errorf("%+v: %d of %d nodes are open", x.taints, open, all)
		}
	}
}
