package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	configlatest "k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	fwkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/internal/fatal"
	"gnnsched/internal/kuberelease"
	"gnnsched/scheduler/decision"
	"gnnsched/scheduler/plugin/dra"
	"gnnsched/scheduler/plugin/userconfig"
	"gnnsched/scheduler/policy/preference"
)

const defaultProfile = "default-scheduler"

// bed is upstream's scheduler without a cluster. Tests put nodes and pods into its cache and let the
// default profile and ours score them.
type bed struct {
	ctx      context.Context
	sched    *scheduler.Scheduler
	plugin   *learnedScore
	learner  *learner  // nil unless the profile learns
	recorder *recorder // nil unless a book listens
	log      klog.Logger
}

// newBed makes a scheduler with the default profile and ours, which has the given name. Its informers
// see the objects.
func newBed(t testing.TB, profile string, args Args, objects ...runtime.Object) *bed {
	if args.Deadline.Duration == 0 {
		args.Deadline = duration(time.Hour) // a loaded machine must not make upstream's scoring decide
	}
	t.Helper()
	if args.Canary != nil { // the process has made its lease before it schedules
		objects = append(objects, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem,
			Name: userconfig.ShareLeaseOf(profile)}})
	}
	return newBedWith(t, fake.NewClientset(objects...), profile, args)
}

// newBedWith is newBed with a given client, and listeners to our profile's decisions.
func newBedWith(t testing.TB, client kubernetes.Interface, profile string, args Args, listeners ...decision.Listener) *bed {
	t.Helper()
	countFromZero()
	log := logr.Discard() // the tests cause hundreds of error lines
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), log))
	t.Cleanup(cancel)
	informers := kuberelease.Informers(client)
	b := &bed{ctx: ctx, log: log}
	catch := func(ctx context.Context, obj runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		recording, listeners := Recording{DefaultShare: 1}, listeners
		if len(listeners) > 0 {
			if book, is := listeners[0].(*decision.Book); is {
				recording.Book, listeners = book, nil
			}
		}
		made, err := newPlugin(ctx, obj, h, nil, recording)
		b.plugin, _ = made.(*learnedScore)
		if r, is := made.(*recorder); is {
			b.plugin, b.recorder = r.learnedScore, r
		}
		if b.learner, _ = made.(*learner); b.learner != nil {
			b.plugin = b.learner.learnedScore
		}
		if err == nil && len(listeners) > 0 {
			made = newRecorder(ctx, b.plugin, listeners...)
		}
		return made, err
	}
	var err error
	b.sched, err = scheduler.New(ctx, client, informers, nil,
		func(string) events.EventRecorderLogger { return &events.FakeRecorder{} },
		scheduler.WithProfiles(upstreamProfile(t), learnedProfile(t, profile, args, len(listeners) > 0)),
		scheduler.WithFrameworkOutOfTreeRegistry(fwkruntime.Registry{Name: catch, GPUSharesName: newGPUShares}),
		scheduler.WithPercentageOfNodesToScore(nil),
	)
	fatal.If(t, err)
	informers.Start(ctx.Done())
	informers.WaitForCacheSync(ctx.Done())
	return b
}

func upstreamProfile(t testing.TB) config.KubeSchedulerProfile {
	t.Helper()
	c := fatal.Value(configlatest.Default())(t)
	p := c.Profiles[0]
	// As in server.Config.
	shares := config.Plugin{Name: GPUSharesName}
	p.Plugins.MultiPoint.Enabled = append(p.Plugins.MultiPoint.Enabled, shares)
	p.Plugins.Bind.Enabled = []config.Plugin{shares, {Name: "DefaultBinder"}}
	return p
}

// snapshot returns the snapshot that all profiles share.
func (b *bed) snapshot(profile string) *cache.Snapshot {
	return b.sched.Profiles[profile].SnapshotSharedLister().(*cache.Snapshot)
}

func learnedProfile(t testing.TB, name string, args Args, recorded bool) config.KubeSchedulerProfile {
	t.Helper()
	raw := fatal.Value(json.Marshal(args))(t)
	p := upstreamProfile(t)
	p.SchedulerName = name
	only := config.PluginSet{Enabled: []config.Plugin{{Name: Name, Weight: 1}}, Disabled: []config.Plugin{{Name: "*"}}}
	p.Plugins.PreScore, p.Plugins.Score = only, only
	if args.Preferences == preference.Blend {
		p.Plugins.Score.Enabled = append(slices.Clone(only.Enabled), blended...)
		// it has none
		p.Plugins.PreScore.Enabled = slices.DeleteFunc(slices.Clone(p.Plugins.Score.Enabled),
			func(p config.Plugin) bool { return p.Name == "ImageLocality" })
	}
	hear := config.PluginSet{Enabled: []config.Plugin{{Name: Name}}}
	if recorded || args.Canary != nil || args.Learn != nil {
		p.Plugins.Reserve, p.Plugins.PostBind = hear, hear
	}
	p.PluginConfig = append(p.PluginConfig, config.PluginConfig{Name: Name, Args: &runtime.Unknown{Raw: raw}})
	return p
}

// load puts a cluster into the cache; unload takes it out again.
func (b *bed) load(t rapid.TB, c clusterState) (unload func()) {
	for _, n := range c.nodes {
		b.sched.Cache.AddNode(b.log, n)
	}
	for _, p := range c.pods {
		fatal.If(t, b.sched.Cache.AddPod(b.log, p))
	}
	return func() {
		for _, p := range c.pods {
			fatal.If(t, b.sched.Cache.RemovePod(b.log, p))
		}
		for _, n := range c.nodes {
			fatal.If(t, b.sched.Cache.RemoveNode(b.log, n))
		}
	}
}

// decide runs one scheduling attempt of the profile up to the choice of a node.
func (b *bed) decide(profile string, pod *v1.Pod) (scheduler.ScheduleResult, error) {
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		return scheduler.ScheduleResult{}, err
	}
	snapshot := b.sched.Profiles[profile].SnapshotSharedLister().(*cache.Snapshot) // all profiles share one
	if err := b.sched.Cache.UpdateSnapshot(b.log, snapshot); err != nil {
		return scheduler.ScheduleResult{}, err
	}
	return b.sched.SchedulePod(b.ctx, b.sched.Profiles[profile], framework.NewCycleState(), &framework.QueuedPodInfo{PodInfo: info})
}

// filter returns the feasible nodes, in the order of the last attempt's snapshot, and the state that
// the filters leave for scoring.
func (b *bed) filter(t rapid.TB, profile string, pod *v1.Pod) ([]fwk.NodeInfo, fwk.CycleState) {
	f, state := b.sched.Profiles[profile], framework.NewCycleState()
	if _, st, _ := f.RunPreFilterPlugins(b.ctx, state, pod); !st.IsSuccess() {
		t.Fatal(st.AsError())
	}
	all := fatal.Value(f.SnapshotSharedLister().NodeInfos().List())(t)
	var feasible []fwk.NodeInfo
	for _, n := range all {
		if f.RunFilterPlugins(b.ctx, state, pod, n).IsSuccess() {
			feasible = append(feasible, n)
		}
	}
	return feasible, state
}

// totals returns the profile's scores of every feasible node.
func (b *bed) totals(t rapid.TB, profile string, pod *v1.Pod) []fwk.NodePluginScores {
	f := b.sched.Profiles[profile]
	feasible, state := b.filter(t, profile, pod)
	if st := f.RunPreScorePlugins(b.ctx, state, pod, feasible); !st.IsSuccess() {
		t.Fatal(st.AsError())
	}
	scores, st := f.RunScorePlugins(b.ctx, state, pod, feasible)
	if !st.IsSuccess() {
		t.Fatal(st.AsError())
	}
	return scores
}

// untrained writes a small checkpoint with random weights and returns its path. edit, if not
// nil, changes it first.
func untrained(t testing.TB, seed uint64, edit func(*checkpoint.Checkpoint)) string {
	t.Helper()
	return untrainedOf(t, checkpoint.Architecture{Encoder: checkpoint.GNN, Head: checkpoint.DQN, Hidden: 8}, seed, edit)
}

func untrainedOf(t testing.TB, a checkpoint.Architecture, seed uint64, edit func(*checkpoint.Checkpoint)) string {
	t.Helper()
	c := checkpoint.Random(a, rand.New(rand.NewPCG(seed, 1)))
	if edit != nil {
		edit(c)
	}
	path := filepath.Join(t.TempDir(), "net.safetensors")
	fatal.If(t, c.Save(path))
	return path
}

// explode makes a network decide whose pass overflows. No file can: it would fail in the trial decisions.
func explode(t testing.TB, p *learnedScore) {
	t.Helper()
	c := fatal.Value(checkpoint.Load(untrained(t, 1, exploding)))(t)
	net := fatal.Value(infer.New(c))(t)
	p.active.store(&networkDecider{name: p.profile, net: net, deadline: time.Minute})
}

// exploding makes the weights finite but so large that the network's pass overflows.
func exploding(c *checkpoint.Checkpoint) {
	for _, w := range c.Weights {
		for i := range w.Data {
			w.Data[i] = 3e38
		}
	}
}

// benchPod returns a small pod with one of three requests.
func benchPod(i, shape int, node string) *v1.Pod {
	ask := [...]map[v1.ResourceName]string{
		{v1.ResourceCPU: "500m", v1.ResourceMemory: "2Gi"}, {v1.ResourceCPU: "1", v1.ResourceMemory: "2Gi"},
		{v1.ResourceCPU: "4", v1.ResourceMemory: "4Gi"},
	}[shape%3]
	name := fmt.Sprintf("pod-%d", i)
	return st.MakePod().Namespace("default").Name(name).UID(name).Node(node).Req(ask).Obj()
}

const (
	claimNodes   = 200
	claimDevices = 8
	claimDriver  = "gpu.example.com"
)

// claimObjects are the slices of the nodes, with a share on every other device, and a pending claim for a share.
func claimObjects() (out []runtime.Object) {
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	class.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: `device.driver == "` + claimDriver +
		`"`}}}
	out = append(out, class, claimOf("pending", "", ""))
	for n := range claimNodes {
		node := fmt.Sprint("n", n)
		s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: resourceapi.ResourceSliceSpec{
			Driver: claimDriver, NodeName: &node, Pool: resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
		}}
		for d := range claimDevices {
			name := fmt.Sprint("gpu-", d)
			s.Spec.Devices = append(s.Spec.Devices, resourceapi.Device{Name: name, AllowMultipleAllocations: ptr.To(true),
				Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"productName": {StringValue: ptr.To("T4")}},
				Capacity:   map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"shares": {Value: resource.MustParse("1000")}}})
			if d%2 == 1 {
				out = append(out, claimOf(fmt.Sprint(node, "-", d), node, name))
			}
		}
		out = append(out, s)
	}
	return out
}

// claimOf returns a claim for a share, allocated unless the node is empty.
func claimOf(name, node, device string) *resourceapi.ResourceClaim {
	shares := map[resourceapi.QualifiedName]resource.Quantity{"shares": resource.MustParse("460")}
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name),
		ResourceVersion: "1"}}
	c.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
		Capacity: &resourceapi.CapacityRequirements{Requests: shares},
	}}}
	if node != "" {
		c.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{{
			Request: "gpu", Driver: claimDriver, Pool: node, Device: device, ShareID: ptr.To(types.UID(name)), ConsumedCapacity: shares,
		}}}}
	}
	return c
}

// pendingPod returns a pod with the pending claim, once it fits on all nodes.
func pendingPod(b testing.TB, bed *bed) *v1.Pod {
	b.Helper()
	pod := st.MakePod().Name("p").Namespace("default").UID("p").Req(map[v1.ResourceName]string{"cpu": "1"}).Obj()
	pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: ptr.To("pending")}}
	for try := 0; ; try++ { // the scheduler's caches follow the informers in goroutines of their own
		r, err := bed.decide(defaultProfile, pod)
		if err == nil && r.FeasibleNodes == claimNodes {
			return pod
		}
		if try == 1000 {
			b.Fatal(r, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// claimBed returns a scheduler of the nodes with upstream's profile, one with LearnedDevices, and one with a network, too.
func claimBed(b testing.TB, client kubernetes.Interface, profiles []string) *bed {
	b.Helper()
	informers := kuberelease.Informers(client)
	out := &bed{ctx: b.Context(), log: klog.Background().V(10)}
	all := []config.KubeSchedulerProfile{upstreamProfile(b), upstreamProfile(b),
		learnedProfile(b, profiles[2], Args{Variant: profiles[2], Deadline: duration(time.Hour)}, false)}
	all[1].SchedulerName = profiles[1]
	for i := range all[1:] {
		list := all[i+1].Plugins.MultiPoint.Enabled
		at := slices.IndexFunc(list, func(p config.Plugin) bool { return p.Name == names.DynamicResources })
		all[i+1].Plugins.MultiPoint.Enabled = slices.Concat(list[:at], []config.Plugin{{Name: dra.Name, Weight: list[at].Weight}}, list[at+1:])
	}
	var err error
	out.sched, err = scheduler.New(b.Context(), client, informers, nil,
		func(string) events.EventRecorderLogger { return &events.FakeRecorder{} },
		scheduler.WithProfiles(all...), scheduler.WithFrameworkOutOfTreeRegistry(fwkruntime.Registry(Registry(nil))),
		scheduler.WithPercentageOfNodesToScore(ptr.To[int32](100)))
	fatal.If(b, err)
	informers.Start(b.Context().Done())
	informers.WaitForCacheSync(b.Context().Done())
	for n := range claimNodes {
		node := st.MakeNode().Name(fmt.Sprint("n", n)).Capacity(map[v1.ResourceName]string{"cpu": "64", "memory": "256Gi", "pods": "110"}).Obj()
		out.sched.Cache.AddNode(out.log, node)
	}
	return out
}
