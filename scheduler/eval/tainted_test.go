package eval_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/eval"
	contenders "gnnsched/scheduler/eval/contender"
	"gnnsched/scheduler/policy"
	"gnnsched/workload/trace/openb"
)

// trial holds a policy's placements of an environment's pods.
type trial struct {
	scores  [][]float32
	nodes   []string
	devices []cluster.DeviceSet
}

func try(t *testing.T, name string, taints openb.Taints) (x trial) {
	t.Helper()
	named, err := contenders.Named(name)
	fatal.If(t, err)
	env := gpuEnvironment(t, taints)
	p := named.New(policy.Setting{Typical: env.Typical()})
	fatal.If(t, env.Reset(5))
	for !env.Done() {
		scores, err := eval.Scores(env, p, nil)
		fatal.If(t, err)
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
		open := 0
		for _, n := range env.Snapshot().Nodes {
			if env.Typical().Open(n) {
				open++
			}
		}
		if all := len(env.Snapshot().Nodes); (open == all) != x.whole {
			t.Errorf("%+v: %d of %d nodes are open", x.taints, open, all)
		}
	}
}
