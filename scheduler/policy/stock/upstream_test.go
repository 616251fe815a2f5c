package stock_test

import (
	"context"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	fwkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/each"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/policy/policytest"
	"gnnsched/scheduler/policy/stock"
	"gnnsched/scheduler/server"
)

// upstream returns kube-scheduler's own framework with the plugins that score requests, configured by the
// file that we write for the profile: read and validated by upstream's loader.
func upstream(t rapid.TB, p stock.Profile) framework.Framework {
	text := fatal.Value(server.WriteStockConfig(p, "a test"))(t)
	object, kind, err := scheme.Codecs.UniversalDecoder().Decode(text, nil, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	c := object.(*config.KubeSchedulerConfiguration)
	c.APIVersion = kind.GroupVersion().String()
	if err := validation.ValidateKubeSchedulerConfiguration(c); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	// The others need a cluster that answers; they do not score requests.
	profile := c.Profiles[0]
	score := profile.Plugins.Score.Enabled
	profile.Plugins = &config.Plugins{
		QueueSort: config.PluginSet{Enabled: []config.Plugin{{Name: names.PrioritySort}}},
		Bind:      config.PluginSet{Enabled: []config.Plugin{{Name: names.DefaultBinder}}},
	}
	for _, x := range score {
		if x.Name == names.NodeResourcesFit || x.Name == names.NodeResourcesBalancedAllocation {
			profile.Plugins.PreScore.Enabled = append(profile.Plugins.PreScore.Enabled, config.Plugin{Name: x.Name})
			profile.Plugins.Score.Enabled = append(profile.Plugins.Score.Enabled, x)
		}
	}
	client := fake.NewClientset()
	f := fatal.Value(fwkruntime.NewFramework(context.Background(), plugins.NewInTreeRegistry(), &profile,
		fwkruntime.WithClientSet(client), fwkruntime.WithInformerFactory(informers.NewSharedInformerFactory(client, 0)),
		fwkruntime.WithSharedDRAManager(noDRA{})))(t)
	return f
}

// noDRA knows no device class, so that GPUs are those of a device plugin.
type noDRA struct{ fwk.SharedDRAManager }

func (noDRA) DeviceClassResolver() fwk.DeviceClassResolver { return noClasses{} }

type noClasses struct{}

func (noClasses) GetDeviceClass(v1.ResourceName) *resourcev1.DeviceClass { return nil }

// totals returns upstream's total score of every node.
func totals(t *rapid.T, f framework.Framework, s *cluster.Snapshot, p *cluster.Pod) []int64 {
	nodes := each.Map(s.Nodes, nodeInfo)
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
	return each.Map(scores, func(s fwk.NodePluginScores) int64 { return s.TotalScore })
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
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c",
			Resources: v1.ResourceRequirements{Requests: kube.NonzeroResourceList(r)}}}},
	}
}

// drawState draws a cluster, some of whose nodes have GPUs, and a pod.
func drawState(t *rapid.T) (*cluster.Snapshot, *cluster.Pod) {
	s, p := policytest.DrawSnapshot(t), &cluster.Pod{Requests: policytest.DrawRequests(t)}
	for _, n := range s.Nodes {
		n.Allocatable.GPU = rapid.Int64Range(0, 8).Draw(t, "gpus")
		for range rapid.Int64Range(0, n.Allocatable.GPU).Draw(t, "pods with one") {
			n.Add(cluster.Resources{MilliCPU: 100, GPU: 1, Pods: 1})
		}
	}
	p.Requests.GPU = rapid.Int64Range(0, 2).Draw(t, "request gpu")
	return s, p
}

// On any state, a profile gives the same integers as upstream's plugins that are configured by the file of
// the profile.
func TestSameAsUpstream(t *testing.T) {
	metrics.Register()
	profiles := []stock.Profile{stock.Default()}
	for i := range 24 {
		profiles = append(profiles, rapid.Custom(policytest.DrawProfile).Example(i))
	}
	for i, p := range profiles {
		ours := fatal.Value(stock.New("p", p))(t)
		their := upstream(t, p)
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				s, pod := drawState(t)
				want := totals(t, their, s, pod)
				for i, got := range policytest.Scores(t, ours, s, pod, policytest.Rows(len(s.Nodes))) {
					if int64(got) != want[i] || got != float32(int64(got)) {
						t.Fatalf("%+v: %+v for %+v: score %v, upstream's %d", p, s.Nodes[i], pod.Requests, got, want[i])
					}
				}
			})
		})
	}
}
