package plugin

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/feature"
	"gnnsched/internal/cluster"
	"gnnsched/scheduler/experience"
)

// A network for GPU clusters learns from its decisions: a step has what is idle on every node with GPUs, some vertices, and
// what waiting pods request until they have a node. The objective is gpu-idle.
func TestGPUDecisionsBecomeSteps(t *testing.T) {
	for _, head := range []checkpoint.Head{checkpoint.DQN, checkpoint.ActorCritic} {
		t.Run(string(head), func(t *testing.T) {
			profile := "learns-gpus-" + string(head)
			args := learning(t, 0.3)
			args.Learn.Objective = "gpu-idle"
			args.Checkpoint = untrainedOf(t, checkpoint.Architecture{Graph: checkpoint.GPUGraph, Encoder: checkpoint.GNN, Head: head, Hidden: 8},
				1, nil)
			b, finish := newLearningBed(t, profile, args)
			b.load(t, clusterState{nodes: []*v1.Node{gpuNode("a", "T4", 4), gpuNode("b", "T4", 4), gpuNode("c", "V100", 8)}})
			large := gpuPod("large", cluster.Resources{MilliCPU: 100, GPU: 64})
			for i := range 5 {
				pod := gpuPod("pod-"+string(rune('a'+i)), cluster.Resources{MilliCPU: 100, GPU: 1})
				if i == 2 {
					b.learner.PostFilter(b.ctx, framework.NewCycleState(), large, nil)
				}
				if i == 4 {
					b.learner.waiting.Placed(large.UID)
				}
				state, node, ok := b.cycle(t, profile, pod)
				if !ok {
					t.Fatal("no choice")
				}
				b.sched.Profiles[profile].RunPostBindPlugins(b.ctx, state, pod, node)
				bound := pod.DeepCopy()
				bound.Spec.NodeName = node
				if err := b.sched.Cache.AddPod(b.log, bound); err != nil {
					t.Fatal(err)
				}
				waitSent(t, profile, i+1)
			}
			for i, s := range finish() {
				checkGPUStep(t, i, s, head)
			}
		})
	}
}

func checkGPUStep(t *testing.T, i int, s experience.Step, head checkpoint.Head) {
	t.Helper()
	g := s.GPU
	if g == nil || s.State != nil || s.Number != uint64(i+1) || s.Features != feature.DefaultGPU().Hash() || s.Network == 0 {
		t.Fatalf("step %d: %+v", i, s)
	}
	all, idle := g.Devices()
	waiting := 0.0
	if i == 2 || i == 3 {
		waiting = 64
	}
	if len(g.Nodes) != 3 || len(g.Kinds) != 2 || all != 16 || idle != float64(16-i) || g.Waiting != waiting {
		t.Errorf("step %d: %d nodes of %d kinds, %v of %v devices idle, %v waiting", i, len(g.Nodes), len(g.Kinds), idle, all, g.Waiting)
	}
	if len(g.Vertices) != 3 || (len(g.Before) == 3) != (head == checkpoint.ActorCritic) || s.Before <= s.After {
		t.Errorf("step %d: %d vertices, %d candidates, cost %v to %v", i, len(g.Vertices), len(g.Before), s.Before, s.After)
	}
}
