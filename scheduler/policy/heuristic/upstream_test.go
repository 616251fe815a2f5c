package heuristic

import (
	"context"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	configlatest "k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	fwkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/policytest"
)

// upstream returns kube-scheduler's own framework with the given score plugins and the default
// weights and arguments. Unless it is nil, edit changes the strategy of NodeResourcesFit.
func upstream(t *testing.T, edit func(*config.ScoringStrategy), score ...string) framework.Framework {
	metrics.Register()
	cfg, err := configlatest.Default()
	if err != nil {
		t.Fatal(err)
	}
	profile := cfg.Profiles[0]
	for _, c := range profile.PluginConfig {
		if args, ok := c.Args.(*config.NodeResourcesFitArgs); ok && edit != nil {
			edit(args.ScoringStrategy)
		}
	}
	weights := map[string]int32{}
	for _, p := range profile.Plugins.MultiPoint.Enabled {
		weights[p.Name] = p.Weight
	}
	profile.Plugins = &config.Plugins{
		QueueSort: config.PluginSet{Enabled: []config.Plugin{{Name: names.PrioritySort}}},
		Bind:      config.PluginSet{Enabled: []config.Plugin{{Name: names.DefaultBinder}}},
	}
	for _, name := range score {
		profile.Plugins.PreScore.Enabled = append(profile.Plugins.PreScore.Enabled, config.Plugin{Name: name})
		profile.Plugins.Score.Enabled = append(profile.Plugins.Score.Enabled, config.Plugin{Name: name, Weight: weights[name]})
	}
	client := fake.NewClientset()
	f, err := fwkruntime.NewFramework(t.Context(), plugins.NewInTreeRegistry(), &profile,
		fwkruntime.WithClientSet(client), fwkruntime.WithInformerFactory(informers.NewSharedInformerFactory(client, 0)))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// totals returns upstream's total score of every node.
func totals(t *rapid.T, f framework.Framework, s *cluster.Snapshot, p *cluster.Pod) []int64 {
	nodes := make([]fwk.NodeInfo, len(s.Nodes))
	for i, n := range s.Nodes {
		nodes[i] = nodeInfo(n)
	}
	ctx := context.Background()
	state := framework.NewCycleState()
	pod := v1Pod("pending", p.Requests)
	if st := f.RunPreScorePlugins(ctx, state, pod, nodes); !st.IsSuccess() {
		t.Fatal(st.AsError())
	}
	scores, st := f.RunScorePlugins(ctx, state, pod, nodes)
	if !st.IsSuccess() {
		t.Fatal(st.AsError())
	}
	out := make([]int64, len(scores))
	for i, s := range scores {
		out[i] = s.TotalScore
	}
	return out
}

// nodeInfo converts a node to the type that kube-scheduler's cache holds.
func nodeInfo(n *cluster.Node) fwk.NodeInfo {
	var pods []*v1.Pod
	for i, g := range n.Groups {
		for j := range g.Count {
			pods = append(pods, v1Pod(fmt.Sprintf("%d-%d", i, j), g.Each))
		}
	}
	info := framework.NewNodeInfo(pods...)
	info.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name}, Status: v1.NodeStatus{Allocatable: kube.Capacity(n.Allocatable)}})
	return info
}

// v1Pod returns a pod with one container. Requests of 0 are left out.
func v1Pod(name string, r cluster.Resources) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: kube.NonzeroResourceList(r)}}}},
	}
}

func mostAllocatedStrategy(s *config.ScoringStrategy) { s.Type = config.MostAllocated }

// ratioStrategy sets the strategy RequestedToCapacityRatio with a shape.
func ratioStrategy(shape []shapePoint) func(*config.ScoringStrategy) {
	return func(s *config.ScoringStrategy) {
		s.Type, s.RequestedToCapacityRatio = config.RequestedToCapacityRatio, &config.RequestedToCapacityRatioParam{}
		for _, p := range shape {
			s.RequestedToCapacityRatio.Shape = append(s.RequestedToCapacityRatio.Shape, config.UtilizationShapePoint{Utilization: int32(p.utilization), Score: int32(p.score)})
		}
	}
}

// On any state, the policies that copy kube-scheduler's scoring give the same integers as its
// plugins.
func TestSameAsUpstream(t *testing.T) {
	sameAsUpstream(t, Kubernetes{}, upstream(t, nil, names.NodeResourcesFit, names.NodeResourcesBalancedAllocation))
	sameAsUpstream(t, fullest{}, upstream(t, mostAllocatedStrategy, names.NodeResourcesFit))
	shapes := [][]shapePoint{binPacking, {{0, 10}, {100, 0}}, {{50, 7}}, {{20, 3}, {21, 9}, {80, 0}}}
	for i := range 6 {
		shapes = append(shapes, rapid.Custom(drawShape).Example(i))
	}
	for _, shape := range shapes {
		sameAsUpstream(t, capacityRatio{shape}, upstream(t, ratioStrategy(shape), names.NodeResourcesFit))
	}
}

func drawShape(t *rapid.T) []shapePoint {
	var shape []shapePoint
	at := rapid.Int64Range(0, 40).Draw(t, "first")
	for at <= 100 {
		shape = append(shape, shapePoint{utilization: at, score: rapid.Int64Range(0, 10).Draw(t, "score")})
		at += rapid.Int64Range(1, 50).Draw(t, "step")
	}
	return shape
}

func sameAsUpstream(t *testing.T, ours policy.Policy, their framework.Framework) {
	t.Run(ours.Name(), func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			s, p := policytest.DrawSnapshot(t), &cluster.Pod{Requests: policytest.DrawRequests(t)}
			want := totals(t, their, s, p)
			for i, got := range policytest.Scores(t, ours, s, p, policytest.Rows(len(s.Nodes))) {
				if int64(got) != want[i] || got != float32(int64(got)) {
					t.Fatalf("%+v for %+v: score %v, upstream's %d", s.Nodes[i], p.Requests, got, want[i])
				}
			}
		})
	})
}
