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
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/policy/preference"
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
	bed := newBenchBed(b, "bench", Args{Checkpoint: file, Preferences: preference.Off}, nodes)
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		took = append(took, bed.decision(b, i))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1000, "p50-µs/decision")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1000, "p99-µs/decision")
	if n, err := Fallbacks("bench"); n != 0 || err != nil {
		b.Errorf("%d decisions were not the network's, %v", n, err)
	}
}

// BenchmarkPreferences measures what a decision with preferences first costs, as a ratio to one
// without preferences. The decisions of both alternate. "alone" is a pod to which no preference
// applies, "replica" one of a Service, so that the default topology spread applies.
func BenchmarkPreferences(b *testing.B) {
	for name, app := range map[string]string{"alone": "", "replica": "web"} {
		for _, nodes := range []int{10, 100, 1000, 5000} {
			b.Run(fmt.Sprintf("%s/candidates=%d", name, nodes), func(b *testing.B) { benchmarkPreferences(b, app, nodes) })
		}
	}
}

func benchmarkPreferences(b *testing.B, app string, nodes int) {
	args := Args{Variant: "gnn", Preferences: preference.Off}
	without := newBenchBed(b, "without", args, nodes)
	args.Preferences = preference.First
	with := newBenchBed(b, "with", args, nodes)
	without.app, with.app = app, app
	var first, off []time.Duration
	for i := 0; b.Loop(); i++ {
		first, off = append(first, with.decision(b, i)), append(off, without.decision(b, i))
	}
	slices.Sort(first)
	slices.Sort(off)
	b.ReportMetric(float64(first[len(first)/2])/float64(off[len(off)/2]), "first/off")
}

// benchBed is a bed with nodes that run five pods each.
type benchBed struct {
	*bed
	snapshot *cache.Snapshot
	nodes    []*v1.Node
	app      string // of the pods that are decided
}

func newBenchBed(b *testing.B, profile string, args Args, nodes int) *benchBed {
	args.Deadline = duration(time.Minute)
	bed := newBed(b, profile, args, service())
	capacity := map[v1.ResourceName]string{v1.ResourceCPU: "64", v1.ResourceMemory: "256Gi", v1.ResourcePods: "110"}
	var state clusterState
	for i := range nodes {
		name := fmt.Sprintf("node-%d", i)
		state.nodes = append(state.nodes, st.MakeNode().Name(name).Capacity(capacity).Label(v1.LabelHostname, name).Label(v1.LabelTopologyZone,
			zones[i%3]).Obj())
		for j := range 5 {
			state.pods = append(state.pods, benchPod(len(state.pods), j, name))
		}
	}
	bed.load(b, state)
	return &benchBed{bed: bed, snapshot: bed.snapshot(profile), nodes: state.nodes}
}

// decision places a pod and returns how long PreScore takes for the next one.
func (b *benchBed) decision(t *testing.B, i int) time.Duration {
	p := benchPod(5*len(b.nodes)+i, i, b.nodes[i%len(b.nodes)].Name)
	fatal.If(t, b.sched.Cache.AddPod(b.log, p))
	fatal.If(t, b.sched.Cache.UpdateSnapshot(b.log, b.snapshot))
	infos, err := b.snapshot.NodeInfos().List()
	fatal.If(t, err)
	cycle, waiting := framework.NewCycleState(), benchPod(0, i+1, "")
	waiting.Labels = map[string]string{"app": b.app}
	start := time.Now()
	if st := b.plugin.PreScore(b.ctx, cycle, waiting, infos); !st.IsSuccess() {
		t.Fatal(st.AsError())
	}
	took := time.Since(start)
	fatal.If(t, b.sched.Cache.RemovePod(b.log, p))
	return took
}

func benchPod(i, shape int, node string) *v1.Pod {
	ask := [...]map[v1.ResourceName]string{
		{v1.ResourceCPU: "500m", v1.ResourceMemory: "2Gi"}, {v1.ResourceCPU: "1", v1.ResourceMemory: "2Gi"},
		{v1.ResourceCPU: "4", v1.ResourceMemory: "4Gi"},
	}[shape%3]
	name := fmt.Sprintf("pod-%d", i)
	return st.MakePod().Namespace("default").Name(name).UID(name).Node(node).Req(ask).Obj()
}
