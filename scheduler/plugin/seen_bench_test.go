package plugin

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"gnnsched/internal/fatal"
	"gnnsched/scheduler/objective"
)

// BenchmarkCandidatesSeen compares networks that see all feasible nodes with networks that see only
// those that the preferences leave. It reports the objective's mean cost of both, of which lower is
// better, and the share of the clusters on which the latter is lower. ADR 8 quotes it.
func BenchmarkCandidatesSeen(b *testing.B) {
	for variant, name := range map[string]string{"gnn": "balance", "acgnn": "balance", "acgnn-pack": "pack"} {
		b.Run(variant, func(b *testing.B) {
			term, err := objective.Parse(name)
			fatal.If(b, err)
			const clusters = 24
			for b.Loop() {
				var all, left, better float64
				for seed := range uint64(clusters) {
					x, y := costAfter(b, variant, seed, false, term), costAfter(b, variant, seed, true, term)
					all, left = all+x/clusters, left+y/clusters
					if y < x {
						better += 1. / clusters
					}
				}
				b.ReportMetric(all, "all-cost")
				b.ReportMetric(left, "left-cost")
				b.ReportMetric(better, "left-better")
			}
		})
	}
}

// costAfter fills a random cluster and returns the objective's cost.
func costAfter(b *testing.B, variant string, seed uint64, onlyLeft bool, term objective.Term) float64 {
	rng := rand.New(rand.NewPCG(seed, 3))
	state := mixedCluster(rng)
	var sets []runtime.Object
	var pods []*v1.Pod
	for i := range 40 {
		set, replicas := replicaSet(rng, fmt.Sprint("set-", i))
		sets, pods = append(sets, set), append(pods, replicas...)
	}
	profile := fmt.Sprint(variant, "-", seed, "-", onlyLeft)
	bed := newBed(b, profile, Args{Variant: variant, Deadline: duration(time.Minute)}, sets...)
	bed.plugin.learns = onlyLeft
	bed.load(b, state)
	for _, p := range pods {
		r, err := bed.decide(profile, p)
		fatal.If(b, err)
		p.Spec.NodeName = r.SuggestedHost
		fatal.If(b, bed.sched.Cache.AddPod(bed.log, p))
	}
	fatal.If(b, bed.sched.Cache.UpdateSnapshot(bed.log, bed.snapshot(profile)))
	infos, err := bed.snapshot(profile).NodeInfos().List()
	fatal.If(b, err)
	bed.plugin.mirror.sync(infos, false)
	return term.Cost(bed.plugin.mirror.snapshot.Nodes)
}

// mixedCluster returns 16 empty nodes of different sizes in three zones.
func mixedCluster(rng *rand.Rand) (state clusterState) {
	for i := range 16 {
		cpu := []int{8, 16, 32}[rng.IntN(3)]
		name := fmt.Sprint("n", i)
		state.nodes = append(state.nodes, st.MakeNode().Name(name).Capacity(map[v1.ResourceName]string{
			v1.ResourceCPU: fmt.Sprint(cpu), v1.ResourceMemory: fmt.Sprintf("%dGi", cpu*[]int{2, 4}[rng.IntN(2)]), v1.ResourcePods: "110",
		}).Label(v1.LabelHostname, name).Label(v1.LabelTopologyZone, zones[i%3]).Obj())
	}
	return state
}

// replicaSet returns a ReplicaSet and its one to six pods.
func replicaSet(rng *rand.Rand, name string) (set *appsv1.ReplicaSet, pods []*v1.Pod) {
	set = &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec:       appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}},
	}
	ask := map[v1.ResourceName]string{
		v1.ResourceCPU: fmt.Sprintf("%dm", 250*(1+rng.IntN(8))), v1.ResourceMemory: fmt.Sprintf("%dMi", 512*(1+rng.IntN(10))),
	}
	for k := range 1 + rng.IntN(6) {
		id := fmt.Sprint(name, "-", k)
		p := st.MakePod().Namespace("default").Name(id).UID(id).Label("app", name).Req(ask).Obj()
		p.OwnerReferences = []metav1.OwnerReference{owner("apps/v1", "ReplicaSet", name)}
		pods = append(pods, p)
	}
	return set, pods
}
