package plugin

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/plugin/canary"
)

// sharing returns the arguments of a profile with a share, by namespace.
func sharing(args Args, of float64) Args {
	args.Canary = &canary.Args{Of: of, By: canary.ByNamespace}
	return args
}

// begun waits until the share has begun.
func (b *bed) begun(t *testing.T) (learned, rest string) {
	t.Helper()
	for range 1000 {
		for i := range 100 {
			ns := fmt.Sprint("ns-", i)
			if b.plugin.groupOf(inNamespace(ns)) == canary.Learned {
				learned = ns
			} else {
				rest = ns
			}
		}
		if learned != "" && rest != "" {
			return learned, rest
		}
		time.Sleep(time.Millisecond) // its goroutine reads the lease
	}
	t.Fatal("the share does not begin")
	return "", ""
}

func inNamespace(ns string) *v1.Pod {
	p := &v1.Pod{}
	p.Namespace = ns
	return p
}

// For the rest, the nodes with the highest score are those of the default profile, all of them. For the canary, the
// scores are those of the profile's network.
func TestShareOfThePods(t *testing.T) {
	const profile = "sharing"
	b := newBed(t, profile, sharing(Args{Checkpoint: untrained(t, 1, nil)}, 0.5), service())
	learned, rest := b.begun(t)
	differed := false
	rapid.Check(t, func(t *rapid.T) {
		state := drawState(t)
		defer b.load(t, state)()
		state.waiting.Namespace = rest
		if _, err := b.decide(profile, state.waiting); err != nil {
			t.Skip("fits nowhere")
		}
		want, got := b.totals(t, defaultProfile, state.waiting), b.totals(t, profile, state.waiting)
		best, ours := bestOf(want), bestOf(got)
		if d := cmp.Diff(best, ours); d != "" {
			t.Fatalf("the rest gets other nodes than by the default profile: %s", d)
		}
		state.waiting.Namespace = learned
		nodes, _ := b.filter(t, profile, state.waiting)
		opinion, err := Ask(b.ctx, b.sched.Profiles[profile], state.waiting, nodes, false)
		fatal.If(t, err)
		got = b.totals(t, profile, state.waiting)
		for i, n := range opinion.Nodes {
			if got[i].TotalScore != int64(n.Score) {
				t.Fatalf("%s has %d for the canary, %d by the network", got[i].Name, got[i].TotalScore, n.Score)
			}
		}
		differed = differed || !slices.Equal(best, bestOf(got))
	})
	if !differed {
		t.Error("the network never chose another node than the default profile")
	}
}

// bestOf returns the names of the nodes with the highest total.
func bestOf(scores []fwk.NodePluginScores) (names []string) {
	most := int64(math.MinInt64)
	for _, s := range scores {
		most = max(most, s.TotalScore)
	}
	for _, s := range scores {
		if s.TotalScore == most {
			names = append(names, s.Name)
		}
	}
	return names
}

// noting notes whose devices a decider chooses.
type noting struct {
	decider
	namespaces map[string]int
}

func (a noting) devices(v view, scored bool) (cluster.DeviceSet, error) {
	a.namespaces[v.pod.Namespace]++
	return a.decider.devices(v, scored)
}

// The policy chooses GPU devices for the canary only. Both groups are in the same books: neither gets devices that the
// other holds.
func TestShareOfDevices(t *testing.T) {
	const profile = "sharing-gpus"
	b := newBed(t, profile, sharing(Args{Policy: "fgd"}, 0.5))
	learned, rest := b.begun(t)
	chose := noting{b.plugin.active.load(), map[string]int{}}
	b.plugin.active.store(chose)
	b.sched.Cache.AddNode(b.log, gpuNode("a", "T4", 1))
	b.sched.Cache.AddNode(b.log, gpuNode("b", "T4", 1))
	used := map[string]int{}
	for i, ns := range []string{learned, rest, learned, rest, rest} {
		pod := gpuPod(fmt.Sprint("p", i), share(500))
		pod.Namespace = ns
		bound, _, err := b.attempt(t, profile, pod)
		if (err == nil) != (i < 4) {
			t.Fatalf("pod %d on two devices for two halves each: %v", i, err)
		}
		if err == nil {
			used[bound.Spec.NodeName+bound.Annotations[kube.GPUIndexAnnotation]]++
		}
	}
	if d := cmp.Diff(map[string]int{"a0": 2, "b0": 2}, used); d != "" {
		t.Errorf("halves on each device: %s", d)
	}
	if d := cmp.Diff(map[string]int{learned: 2}, chose.namespaces); d != "" {
		t.Errorf("devices that the policy chose, by namespace: %s", d)
	}
}

// A scheduler that ends cancels its bindings. That is no failure of the canary; a binding that fails is.
func TestEndOfTheSchedulerStopsNothing(t *testing.T) {
	const profile = "sharing-ends"
	b := newBed(t, profile, sharing(Args{Policy: "gpu-best-fit"}, 0.5))
	learned, rest := b.begun(t)
	b.load(t, clusterState{nodes: []*v1.Node{gpuNode("a", "T4", 4), gpuNode("b", "T4", 2)}})
	ended, end := context.WithCancel(b.ctx)
	end()
	made := 0
	fail := func(ctx context.Context, times int) {
		for range times {
			made++
			for _, namespace := range []string{rest, learned} {
				name := fmt.Sprint(namespace, made)
				pod := gpuPod(name, cluster.Resources{Pods: 1})
				pod.Namespace, pod.UID = namespace, types.UID(name)
				bound, cycle, err := b.attempt(t, profile, pod)
				fatal.If(t, err)
				if namespace == rest {
					b.sched.Profiles[profile].RunPostBindPlugins(b.ctx, cycle, bound, bound.Spec.NodeName)
				} else {
					b.sched.Profiles[profile].RunReservePluginsUnreserve(ctx, cycle, pod, "a")
				}
			}
		}
	}
	const many = 20
	if fail(ended, many); b.plugin.groupOf(inNamespace(learned)) != canary.Learned {
		t.Error("the end of the scheduler stops the share")
	}
	if fail(b.ctx, many); b.plugin.groupOf(inNamespace(learned)) != canary.Rest {
		t.Error("bindings that fail do not stop the share")
	}
}

// The time of each attempt reaches the canary of its profile, and slow ones stop it.
func TestSlowAttemptsStop(t *testing.T) {
	const profile = "sharing-slowly"
	b := newBed(t, profile, sharing(Args{Policy: "gpu-best-fit"}, 0.5))
	learned, _ := b.begun(t)
	for range 1000 {
		Attempted(b.sched.Profiles[profile], inNamespace(learned), time.Minute)
	}
	if b.plugin.groupOf(inNamespace(learned)) != canary.Rest {
		t.Error("attempts of a minute do not stop the share")
	}
}
