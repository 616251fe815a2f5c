package serve

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"gnnsched/internal/fatal"
	"gnnsched/internal/kuberelease"
	"gnnsched/scheduler/advise"
	"gnnsched/scheduler/plugin"
	"gnnsched/scheduler/server"
)

// BenchmarkExtender measures the time to choose a node for a pod with upstream's scores only, with the plugin and with the extender, and
// the ratio of the last two. The three choose in turn, each in a kube-scheduler of its own with all nodes feasible, and each pod counts on
// its node for the next one. Filters are included, binding is not. "both" calls the verbs filter and prioritize, "prioritize" only the
// latter.
func BenchmarkExtender(b *testing.B) {
	for _, nodes := range []int{100, 1000} {
		for _, filters := range []bool{true, false} {
			verbs := map[bool]string{true: "both", false: "prioritize"}[filters]
			b.Run(fmt.Sprintf("%s/nodes=%d", verbs, nodes), func(b *testing.B) { benchmarkExtender(b, nodes, filters) })
		}
	}
}

func benchmarkExtender(b *testing.B, nodes int, filters bool) {
	client := fake.NewClientset(benchCluster(nodes)...)
	network := server.Profile{SchedulerName: server.DefaultProfile,
		Args: plugin.Args{Variant: "gnn", Deadline: metav1.Duration{Duration: time.Minute}}}
	advisor, err := advise.New(b.Context(), advise.Config{Client: client, Profile: network, Promise: time.Hour, Clock: clock.RealClock{}})
	fatal.If(b, err)
	fatal.UntilTrue(b, "the advisor to have read the cluster", advisor.Synced)
	own := credentials(b)
	s := open(b, advisor, own, nil)
	e := Extender{URL: "https://" + s.Address(), CAFile: own.CAFile, CertFile: own.ClientCert, KeyFile: own.ClientKey, Timeout: patience}
	asking := configured(b, e.YAML)
	if !filters {
		asking.Extenders[0].FilterVerb = ""
	}
	learned := configured(b, server.Config{Profiles: []server.Profile{network}, QPS: 1}.YAML)
	plain, inside, outside := newChooser(b, client, asking.Profiles, nil), newChooser(b, client, learned.Profiles, nil),
		newChooser(b, client, asking.Profiles, asking.Extenders)
	before := 0.
	if m, err := plugin.Fallbacks(server.DefaultProfile); err == nil {
		before = float64(m)
	}
	var took [3][]time.Duration
	for i := 0; b.Loop(); i++ {
		for j, c := range []*chooser{plain, inside, outside} {
			took[j] = append(took[j], c.choose(b, i))
		}
	}
	if n, err := plugin.Fallbacks(server.DefaultProfile); err != nil || float64(n) != before {
		b.Errorf("%d decisions were not the network's, %v", n, err)
	}
	var medians [3]float64
	for j := range took {
		slices.Sort(took[j])
		medians[j] = float64(took[j][len(took[j])/2].Nanoseconds()) / 1000
	}
	b.ReportMetric(medians[0], "upstream-µs")
	b.ReportMetric(medians[1], "plugin-µs")
	b.ReportMetric(medians[2], "extender-µs")
	b.ReportMetric(medians[2]/medians[1], "extender/plugin")
}

func configured(b *testing.B, text func() ([]byte, error)) *config.KubeSchedulerConfiguration {
	y, err := text()
	fatal.If(b, err)
	obj, _, err := scheme.Codecs.UniversalDecoder().Decode(y, nil, nil)
	fatal.If(b, err)
	return obj.(*config.KubeSchedulerConfiguration)
}

// benchCluster returns nodes that run five pods each.
func benchCluster(nodes int) (out []runtime.Object) {
	capacity := map[v1.ResourceName]string{v1.ResourceCPU: "64", v1.ResourceMemory: "256Gi", v1.ResourcePods: "110"}
	for i := range nodes {
		name := fmt.Sprintf("node-%d", i)
		out = append(out, st.MakeNode().Name(name).Capacity(capacity).Label(v1.LabelHostname, name).Obj())
		for j := range 5 {
			p := benchPod(j, fmt.Sprintf("%s-%d", name, j))
			p.Spec.NodeName = name
			out = append(out, p)
		}
	}
	return out
}

func benchPod(shape int, name string) *v1.Pod {
	ask := [...]map[v1.ResourceName]string{
		{v1.ResourceCPU: "500m", v1.ResourceMemory: "2Gi"}, {v1.ResourceCPU: "1", v1.ResourceMemory: "2Gi"},
		{v1.ResourceCPU: "4", v1.ResourceMemory: "4Gi"},
	}[shape%3]
	return st.MakePod().Namespace("default").Name(name).UID(name).SchedulerName(server.DefaultProfile).Req(ask).Obj()
}

// chooser is a kube-scheduler that chooses nodes and binds no pods.
type chooser struct {
	*scheduler.Scheduler
	profile  framework.Framework
	snapshot *cache.Snapshot
}

func newChooser(b *testing.B, client kubernetes.Interface, profiles []config.KubeSchedulerProfile, extenders []config.Extender) *chooser {
	informers := kuberelease.Informers(client)
	s, err := scheduler.New(b.Context(), client, informers, nil,
		func(string) events.EventRecorderLogger { return &events.FakeRecorder{} },
		scheduler.WithProfiles(profiles...), scheduler.WithExtenders(extenders...),
		scheduler.WithFrameworkOutOfTreeRegistry(plugin.Registry(nil)), scheduler.WithPercentageOfNodesToScore(ptr.To[int32](100)),
	)
	fatal.If(b, err)
	informers.Start(b.Context().Done())
	informers.WaitForCacheSync(b.Context().Done())
	fatal.If(b, s.WaitForHandlersSync(b.Context()))
	p := s.Profiles[server.DefaultProfile]
	return &chooser{s, p, p.SnapshotSharedLister().(*cache.Snapshot)}
}

// choose returns the time to choose a node. The pod then counts there.
func (c *chooser) choose(b *testing.B, i int) time.Duration {
	pod := benchPod(i, fmt.Sprintf("new-%d", i))
	pod.UID = types.UID(fmt.Sprintf("%p-%d", c, i))
	info, err := framework.NewPodInfo(pod)
	fatal.If(b, err)
	log := klog.FromContext(b.Context())
	begun := time.Now()
	fatal.If(b, c.Cache.UpdateSnapshot(log, c.snapshot))
	r, err := c.SchedulePod(b.Context(), c.profile, framework.NewCycleState(), &framework.QueuedPodInfo{PodInfo: info})
	took := time.Since(begun)
	fatal.If(b, err)
	pod.Spec.NodeName = r.SuggestedHost
	fatal.If(b, c.Cache.AssumePod(log, pod))
	return took
}
