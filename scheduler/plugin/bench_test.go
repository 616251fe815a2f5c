package plugin

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"gnnsched/gnn/checkpoint"
)

// BenchmarkDecision measures a decision in PreScore with all nodes as candidates, after one pod was
// placed since the last decision. It includes the mirror's update, the graph, the network and the
// node scores. Every node runs five pods of three shapes.
func BenchmarkDecision(b *testing.B) {
	for _, encoder := range []checkpoint.Encoder{checkpoint.GNN, checkpoint.MLP} {
		for _, nodes := range []int{10, 100, 1000, 5000} {
			b.Run(fmt.Sprintf("%s/candidates=%d", encoder, nodes), func(b *testing.B) { benchmarkDecision(b, encoder, nodes) })
		}
	}
}

func benchmarkDecision(b *testing.B, encoder checkpoint.Encoder, nodes int) {
	file := untrainedOf(b, checkpoint.Architecture{Encoder: encoder, Head: checkpoint.DQN, Hidden: 32}, 1, nil)
	bed := newBed(b, "bench", Args{Checkpoint: file, Deadline: duration(time.Minute)})
	capacity := map[v1.ResourceName]string{v1.ResourceCPU: "64", v1.ResourceMemory: "256Gi", v1.ResourcePods: "110"}
	var state clusterState
	for i := range nodes {
		name := fmt.Sprintf("node-%d", i)
		state.nodes = append(state.nodes, st.MakeNode().Name(name).Capacity(capacity).Label(v1.LabelTopologyZone, zones[i%3]).Obj())
		for j := range 5 {
			state.pods = append(state.pods, benchPod(len(state.pods), j, name))
		}
	}
	bed.load(b, state)
	snapshot := bed.sched.Profiles["bench"].SnapshotSharedLister().(*cache.Snapshot)
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		p := benchPod(len(state.pods)+i, i, state.nodes[i%nodes].Name)
		if err := bed.sched.Cache.AddPod(bed.log, p); err != nil {
			b.Fatal(err)
		}
		if err := bed.sched.Cache.UpdateSnapshot(bed.log, snapshot); err != nil {
			b.Fatal(err)
		}
		infos, err := snapshot.NodeInfos().List()
		if err != nil {
			b.Fatal(err)
		}
		cycle, waiting := framework.NewCycleState(), benchPod(0, i+1, "")
		start := time.Now()
		if st := bed.plugin.PreScore(bed.ctx, cycle, waiting, infos); !st.IsSuccess() {
			b.Fatal(st.AsError())
		}
		took = append(took, time.Since(start))
		if err := bed.sched.Cache.RemovePod(bed.log, p); err != nil {
			b.Fatal(err)
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1000, "p50-µs/decision")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1000, "p99-µs/decision")
	if n, err := Fallbacks("bench"); n != 0 || err != nil {
		b.Errorf("%d decisions were not the network's, %v", n, err)
	}
}

func benchPod(i, shape int, node string) *v1.Pod {
	ask := [...]map[v1.ResourceName]string{
		{v1.ResourceCPU: "500m", v1.ResourceMemory: "2Gi"}, {v1.ResourceCPU: "1", v1.ResourceMemory: "2Gi"}, {v1.ResourceCPU: "4", v1.ResourceMemory: "4Gi"},
	}[shape%3]
	name := fmt.Sprintf("pod-%d", i)
	return st.MakePod().Namespace("default").Name(name).UID(name).Node(node).Req(ask).Obj()
}
