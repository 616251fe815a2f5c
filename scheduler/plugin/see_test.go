package plugin

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/fatal"
	"gnnsched/internal/kuberelease"
)

// world changes a cluster at random in upstream's cache, and lets a mirror follow the snapshots. It
// computes the expected nodes without the mirror.
type world struct {
	cache    cache.Cache
	snapshot *cache.Snapshot
	nodes    map[string]*v1.Node
	pods     map[string]*v1.Pod
	mirror   mirror
	made     int
	syncs    int
	seen     map[string]int // the sync in which each pod was seen first
}

func newWorld() *world {
	metrics.Register() // the cache reports its size every second
	snapshot := cache.NewEmptySnapshot()
	return &world{
		cache: kuberelease.Cache(context.Background()), snapshot: snapshot,
		nodes: map[string]*v1.Node{}, pods: map[string]*v1.Pod{}, seen: map[string]int{},
		mirror: mirror{reserved: newReservations(logr.Discard(), snapshot)},
	}
}

func (w *world) addNode(t *rapid.T) {
	name := fmt.Sprintf("n%d", rapid.IntRange(0, 8).Draw(t, "name")) // names come back
	if w.nodes[name] != nil {
		t.Skip("there already")
	}
	w.nodes[name] = drawNode(t, name)
	w.cache.AddNode(logr.Discard(), w.nodes[name])
}

func (w *world) changeNode(t *rapid.T) {
	name := w.anyNode(t)
	old := w.nodes[name]
	w.nodes[name] = drawNode(t, name)
	w.nodes[name].Spec.Unschedulable = rapid.Bool().Draw(t, "cordoned")
	w.cache.UpdateNode(logr.Discard(), old, w.nodes[name])
}

// replaceNode replaces a node between two snapshots.
func (w *world) replaceNode(t *rapid.T) {
	w.removeNode(t)
	w.addNode(t)
}

func (w *world) removeNode(t *rapid.T) {
	name := w.anyNode(t)
	for _, p := range slices.Collect(maps.Values(w.pods)) {
		if p.Spec.NodeName == name {
			w.forget(t, p)
		}
	}
	fatal.If(t, w.cache.RemoveNode(logr.Discard(), w.nodes[name]))
	delete(w.nodes, name)
}

func (w *world) addPod(t *rapid.T) {
	w.made++
	p := drawPod(t, fmt.Sprintf("p%d", w.made))
	p.Spec.NodeName = w.anyNode(t)
	fatal.If(t, w.cache.AddPod(logr.Discard(), p))
	w.pods[p.Name] = p
}

func (w *world) removePod(t *rapid.T) {
	if len(w.pods) == 0 {
		t.Skip("no pod")
	}
	w.forget(t, w.pods[rapid.SampledFrom(slices.Sorted(maps.Keys(w.pods))).Draw(t, "pod")])
}

// tryGroup puts pods on the snapshot's nodes, but not on the cache's, and takes them off again, as
// kube-scheduler does to find out whether a group fits. The nodes keep their generations. Decisions come
// in between.
func (w *world) tryGroup(t *rapid.T) {
	infos := w.sync(t)
	var tried []*v1.Pod
	for range rapid.IntRange(1, 5).Draw(t, "steps") {
		if len(tried) > 0 && rapid.Bool().Draw(t, "off again") {
			w.takeOff(t, tried[len(tried)-1])
			tried = tried[:len(tried)-1]
		} else {
			w.made++
			p := drawPod(t, fmt.Sprintf("p%d", w.made))
			p.Spec.NodeName = w.anyNode(t)
			info := fatal.Value(framework.NewPodInfo(p))(t)
			fatal.If(t, w.snapshot.AssumePod(info))
			w.pods[p.Name] = p
			tried = append(tried, p)
		}
		if rapid.Bool().Draw(t, "decision") {
			w.follow(infos, true)
			w.check(t, infos)
		}
	}
	for _, p := range slices.Backward(tried) {
		w.takeOff(t, p)
	}
	w.follow(infos, false)
	w.check(t, infos)
}

func (w *world) takeOff(t *rapid.T, p *v1.Pod) {
	fatal.If(t, w.snapshot.ForgetPod(logr.Discard(), p))
	delete(w.pods, p.Name)
}

func (w *world) forget(t *rapid.T, p *v1.Pod) {
	fatal.If(t, w.cache.RemovePod(logr.Discard(), p))
	delete(w.pods, p.Name)
}

func (w *world) anyNode(t *rapid.T) string {
	if len(w.nodes) == 0 {
		t.Skip("no node")
	}
	return rapid.SampledFrom(slices.Sorted(maps.Keys(w.nodes))).Draw(t, "node")
}

// sync takes a snapshot as kube-scheduler does before an attempt, and lets the mirror follow.
func (w *world) sync(t *rapid.T) []fwk.NodeInfo {
	fatal.If(t, w.cache.UpdateSnapshot(logr.Discard(), w.snapshot))
	infos := fatal.Value(w.snapshot.NodeInfos().List())(t)
	w.follow(infos, rapid.Bool().Draw(t, "trying"))
	return infos
}

// follow lets the mirror follow and notes which pods it has seen.
func (w *world) follow(infos []fwk.NodeInfo, trying bool) {
	w.mirror.sync(infos, trying)
	w.syncs++
	for name := range w.pods {
		if w.seen[name] == 0 {
			w.seen[name] = w.syncs
		}
	}
}

// check compares the mirror with the expected nodes.
func (w *world) check(t *rapid.T, infos []fwk.NodeInfo) {
	if len(w.mirror.snapshot.Nodes) != len(w.nodes) || len(w.mirror.row) != len(w.nodes) {
		t.Fatalf("%d rows and %d names for %d nodes", len(w.mirror.snapshot.Nodes), len(w.mirror.row), len(w.nodes))
	}
	for i, info := range infos {
		got, want := w.mirror.snapshot.Nodes[i], w.expect(info.Node().Name)
		want.Version = got.Version
		if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
			t.Fatalf("row %d: %s", i, d)
		}
		if w.mirror.row[got.Name] != int32(i) {
			t.Fatalf("%s is in row %d, the index says %d", got.Name, i, w.mirror.row[got.Name])
		}
	}
}

// expect computes a node from its object and the pods on it, by other means than the mirror.
func (w *world) expect(name string) *cluster.Node {
	o := w.nodes[name]
	n := &cluster.Node{Name: name, Zone: o.Labels[v1.LabelTopologyZone], Labels: o.Labels, Unschedulable: o.Spec.Unschedulable}
	for _, x := range o.Spec.Taints {
		n.Taints = append(n.Taints, cluster.Taint{Key: x.Key, Value: x.Value, Effect: cluster.Effect(x.Effect)})
	}
	a := o.Status.Allocatable
	n.Allocatable = cluster.Resources{MilliCPU: a.Cpu().MilliValue(), Memory: a.Memory().Value(), GPU: value(a, kube.GPUResource),
		Pods: a.Pods().Value()}
	if n.Allocatable.GPU > 0 {
		n.GPUs, n.GPUModel = make([]int64, n.Allocatable.GPU), o.Labels[kube.GPUModelLabel]
	}
	bySync := map[int][]kube.RunningPod{}
	for _, p := range w.pods {
		if p.Spec.NodeName == name {
			r := kube.RunningPod{Requests: asks(p)}
			if r.Requests.TotalGPUMilli() > 0 {
				r.Devices = kube.Devices(p.Annotations)
			}
			bySync[w.seen[p.Name]] = append(bySync[w.seen[p.Name]], r)
		}
	}
	var running []kube.RunningPod // those first that were seen first
	for _, sync := range slices.Sorted(maps.Keys(bySync)) {
		running = append(running, slices.SortedStableFunc(slices.Values(bySync[sync]), kube.LargestFirst)...)
	}
	kube.PlaceInOrder(n, running)
	return n
}

// asks returns the resources that a pod occupies: the maximum of all containers and sidecars together
// and of each init container with the sidecars before it, plus overhead.
func asks(p *v1.Pod) cluster.Resources {
	of := func(r v1.ResourceList) cluster.Resources {
		return cluster.Resources{MilliCPU: r.Cpu().MilliValue(), Memory: r.Memory().Value(), GPU: value(r, kube.GPUResource)}
	}
	var sum, sidecars, peak cluster.Resources
	for _, c := range p.Spec.Containers {
		sum = sum.Plus(of(c.Resources.Requests))
	}
	for _, c := range p.Spec.InitContainers {
		now := sidecars.Plus(of(c.Resources.Requests))
		if c.RestartPolicy != nil {
			sidecars = now
		}
		peak = cluster.Resources{MilliCPU: max(peak.MilliCPU, now.MilliCPU), Memory: max(peak.Memory, now.Memory), GPU: max(peak.GPU, now.GPU)}
	}
	sum = sum.Plus(sidecars)
	sum = cluster.Resources{MilliCPU: max(peak.MilliCPU, sum.MilliCPU), Memory: max(peak.Memory, sum.Memory), GPU: max(peak.GPU, sum.GPU)}
	sum = sum.Plus(of(p.Spec.Overhead))
	if milli, err := strconv.ParseInt(p.Annotations[kube.GPUMilliAnnotation], 10, 64); err == nil {
		sum.GPUMilli = milli
	}
	return sum
}

func value(r v1.ResourceList, name v1.ResourceName) int64 {
	q := r[name]
	return q.Value()
}

// After any changes between two snapshots, the mirror equals the cluster, in the snapshot's order.
func TestMirrorFollowsTheCluster(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		t.Repeat(map[string]func(*rapid.T){
			"add node": w.addNode, "change node": w.changeNode, "remove node": w.removeNode, "replace node": w.replaceNode,
			"add pod": w.addPod, "remove pod": w.removePod, "try a group": w.tryGroup,
			"snapshot": func(t *rapid.T) { w.check(t, w.sync(t)) },
		})
		w.check(t, w.sync(t))
	})
}

// The mirror also follows every order and subset of the same nodes, and does not convert unchanged nodes
// again.
func TestMirrorFollowsTheOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []fwk.NodeInfo
		for i := range rapid.IntRange(1, 8).Draw(t, "nodes") {
			info := framework.NewNodeInfo()
			info.SetNode(drawNode(t, fmt.Sprintf("n%d", i)))
			all = append(all, info)
		}
		m := mirror{reserved: newReservations(logr.Discard(), cache.NewEmptySnapshot())}
		converted := map[string]*cluster.Node{}
		for range 4 {
			order := rapid.Permutation(all).Draw(t, "order")
			infos := order[:rapid.IntRange(1, len(order)).Draw(t, "some")]
			m.sync(infos, false)
			now := map[string]*cluster.Node{}
			for i, info := range infos {
				n := m.snapshot.Nodes[i]
				if n.Name != info.Node().Name || m.row[n.Name] != int32(i) {
					t.Fatalf("row %d shows %s, want %s; the index says %d", i, n.Name, info.Node().Name, m.row[n.Name])
				}
				if was := converted[n.Name]; was != nil && was != n {
					t.Fatalf("%s was converted again", n.Name)
				}
				now[n.Name] = n
			}
			converted = now
			some := rapid.Permutation(infos).Draw(t, "candidates")[:rapid.IntRange(1, len(infos)).Draw(t, "how many")]
			for i, r := range m.rows(some, nil) {
				if m.snapshot.Nodes[r].Name != some[i].Node().Name {
					t.Fatalf("row %d is %s, want that of %s", r, m.snapshot.Nodes[r].Name, some[i].Node().Name)
				}
			}
		}
	})
}

// Score may read the index of its own cycle while the mirror makes the next one.
func TestMirrorReplacesTheIndex(t *testing.T) {
	info := func(name string) fwk.NodeInfo {
		n := framework.NewNodeInfo()
		n.SetNode(st.MakeNode().Name(name).Obj())
		return n
	}
	m := mirror{reserved: newReservations(logr.Discard(), cache.NewEmptySnapshot())}
	m.sync([]fwk.NodeInfo{info("a"), info("b")}, false)
	before := m.row
	m.sync([]fwk.NodeInfo{info("c"), info("a")}, false)
	if d := cmp.Diff(map[string]int32{"a": 0, "b": 1}, before); d != "" {
		t.Error("the index of the cycle before changed: ", d)
	}
	if d := cmp.Diff(map[string]int32{"c": 0, "a": 1}, m.row); d != "" {
		t.Error(d)
	}
}

func TestConvertPod(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPod(t, "p")
		want := asks(p)
		want.Pods = 1
		if got := convertPod(p).Requests; got != want {
			t.Fatalf("%+v, want %+v", got, want)
		}
	})
}

// Requests of the whole pod replace those of its containers.
func TestConvertPodWithRequestsOfThePod(t *testing.T) {
	p := st.MakePod().Req(map[v1.ResourceName]string{v1.ResourceCPU: "1"}).Obj()
	p.Spec.Resources = &v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("3")}}
	if got := convertPod(p).Requests.MilliCPU; got != 3000 {
		t.Errorf("%d m, want 3000 m", got)
	}
}

// What a machine draws is read from its node's annotation, and a faulty one is logged once, however often the node
// changes.
func TestMirrorReadsPower(t *testing.T) {
	logged := 0
	log := funcr.New(func(string, string) { logged++ }, funcr.Options{})
	m := mirror{reserved: newReservations(log, cache.NewEmptySnapshot())}
	show := func(annotation string) *cluster.PowerModel {
		n := framework.NewNodeInfo()
		n.SetNode(st.MakeNode().Name("a").Annotation(kube.PowerAnnotation, annotation).Obj())
		m.sync([]fwk.NodeInfo{n}, false)
		return m.snapshot.Nodes[0].Power
	}
	if p := show(`{"idle": 60, "full": 240}`); p == nil || p.Full != 240 || logged != 0 {
		t.Errorf("power %+v, %d lines logged", p, logged)
	}
	for range 3 {
		if p := show(`{"idle": 60, "full": 2}`); p != nil || logged != 1 {
			t.Errorf("power %+v, %d lines logged", p, logged)
		}
	}
	if p := show(`{"idle": 60, "full": 120}`); p == nil || p.Full != 120 || logged != 1 {
		t.Errorf("power %+v, %d lines logged", p, logged)
	}
}

// clusterState holds nodes, the pods that run on them, and one pending pod.
type clusterState struct {
	nodes   []*v1.Node
	pods    []*v1.Pod
	waiting *v1.Pod
}

var (
	zones  = []string{"a", "b", "c", ""}
	apps   = []string{"web", "db", "batch"}
	images = []string{"img-a:1", "img-b:1"}
)

// service selects the pods of one app, so that the default topology spreading applies to them.
func service() *v1.Service {
	return &v1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"},
		Spec: v1.ServiceSpec{Selector: map[string]string{"app": "web"}}}
}

func drawNode(t *rapid.T, name string) *v1.Node {
	res := map[v1.ResourceName]string{
		v1.ResourceCPU:    fmt.Sprint(rapid.IntRange(2, 64).Draw(t, "cpu")),
		v1.ResourceMemory: fmt.Sprintf("%dGi", rapid.IntRange(4, 256).Draw(t, "memory")),
		v1.ResourcePods:   fmt.Sprint(rapid.IntRange(20, 110).Draw(t, "slots")),
	}
	if rapid.Bool().Draw(t, "gpu") {
		gpus := rapid.IntRange(1, 8).Draw(t, "gpus")
		res[kube.GPUResource] = fmt.Sprint(gpus)
		if rapid.Bool().Draw(t, "shared") {
			res[kube.GPUCountResource], res[kube.GPUMilliResource] = fmt.Sprint(gpus), fmt.Sprint(1000*gpus)
		}
	}
	n := st.MakeNode().Name(name).Capacity(res).Label(v1.LabelHostname, name).Label("disk",
		rapid.SampledFrom([]string{"ssd", "hdd"}).Draw(t, "disk"))
	if m := rapid.SampledFrom([]string{"", "T4", "G2"}).Draw(t, "model"); m != "" {
		n.Label(kube.GPUModelLabel, m)
	}
	if z := rapid.SampledFrom(zones).Draw(t, "zone"); z != "" {
		n.Label(v1.LabelTopologyZone, z)
	}
	if rapid.IntRange(0, 3).Draw(t, "tainted") == 0 {
		n.Taints([]v1.Taint{{Key: "soft", Value: "1", Effect: v1.TaintEffectPreferNoSchedule}})
	}
	if rapid.Bool().Draw(t, "has image") {
		n.Images(map[string]int64{rapid.SampledFrom(images).Draw(t, "image"): int64(rapid.IntRange(50, 900).Draw(t, "MB")) << 20})
	}
	return n.Obj()
}

// drawPod draws a pod with one or more containers, with or without requests, init containers, sidecars,
// overhead and GPUs.
func drawPod(t *rapid.T, name string) *v1.Pod {
	ask := func(label string, gpu bool) map[v1.ResourceName]string {
		r := map[v1.ResourceName]string{}
		if rapid.Bool().Draw(t, label+" asks cpu") {
			r[v1.ResourceCPU] = fmt.Sprintf("%dm", rapid.IntRange(0, 12).Draw(t, label+" cpu")*100)
		}
		if rapid.Bool().Draw(t, label+" asks memory") {
			r[v1.ResourceMemory] = fmt.Sprintf("%dMi", rapid.IntRange(0, 12).Draw(t, label+" memory")*100)
		}
		if gpu && rapid.IntRange(0, 4).Draw(t, label+" asks gpu") == 0 {
			r[kube.GPUResource] = "1"
		}
		return r
	}
	p := st.MakePod().Name(name).UID(name).Namespace("default").Label("app", rapid.SampledFrom(apps).Draw(t, "app")).Req(ask("first", true))
	if rapid.Bool().Draw(t, "second") {
		p.Req(ask("second", false))
	}
	if rapid.IntRange(0, 2).Draw(t, "init") == 0 {
		p.InitReq(ask("init", false))
	}
	if rapid.IntRange(0, 3).Draw(t, "sidecar") == 0 {
		p.SidecarReq(ask("sidecar", false))
	}
	for i := range p.Spec.Containers {
		p.Spec.Containers[i].Image = rapid.SampledFrom(images).Draw(t, "image")
	}
	if rapid.IntRange(0, 3).Draw(t, "overhead") == 0 {
		p.Overhead(st.MakeNode().Capacity(map[v1.ResourceName]string{v1.ResourceCPU: "50m", v1.ResourceMemory: "64Mi"}).Status.Capacity)
		delete(p.Spec.Overhead, v1.ResourcePods)
	}
	drawShare(t, p)
	return p.Obj()
}

// drawShare makes some of the pods without GPU request a share of one.
func drawShare(t *rapid.T, p *st.PodWrapper) {
	for _, c := range slices.Concat(p.Spec.Containers, p.Spec.InitContainers) {
		if _, whole := c.Resources.Requests[kube.GPUResource]; whole {
			return
		}
	}
	if rapid.IntRange(0, 4).Draw(t, "asks share") > 0 {
		return
	}
	milli := fmt.Sprint(100 * rapid.IntRange(1, 9).Draw(t, "tenths"))
	p.Annotation(kube.GPUMilliAnnotation, milli)
	if rapid.Bool().Draw(t, "by request too") {
		p.Req(map[v1.ResourceName]string{kube.GPUMilliResource: milli})
	}
	if rapid.Bool().Draw(t, "indexed") {
		p.Annotation(kube.GPUIndexAnnotation, fmt.Sprint(rapid.IntRange(0, 8).Draw(t, "device")))
	}
	if rapid.Bool().Draw(t, "of a model") {
		p.Annotation(kube.GPUModelAnnotation, "T4|A10")
	}
}

// prefer gives a pod some preferences that upstream's score plugins read.
func prefer(t *rapid.T, pod *v1.Pod) *v1.Pod {
	p := &st.PodWrapper{Pod: *pod}
	other := &metav1.LabelSelector{MatchLabels: map[string]string{"app": rapid.SampledFrom(apps).Draw(t, "other")}}
	if rapid.Bool().Draw(t, "node affinity") {
		p.NodeAffinityIn("disk", []string{"ssd"}, st.NodeSelectorTypeMatchExpressions)
		// The same as a preference; upstream's helper makes requirements only.
		a := p.Spec.Affinity.NodeAffinity
		term := a.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0]
		a.RequiredDuringSchedulingIgnoredDuringExecution = nil
		a.PreferredDuringSchedulingIgnoredDuringExecution = []v1.PreferredSchedulingTerm{{Weight: 10, Preference: term}}
	}
	if rapid.Bool().Draw(t, "pod affinity") {
		p.PodAffinity(v1.LabelTopologyZone, other, st.PodAffinityWithPreferredReq)
	}
	if rapid.Bool().Draw(t, "pod anti-affinity") {
		p.PodAntiAffinity(v1.LabelHostname, other, st.PodAntiAffinityWithPreferredReq)
	}
	if rapid.Bool().Draw(t, "spread") {
		p.SpreadConstraint(1, v1.LabelTopologyZone, v1.ScheduleAnyway, other, nil, nil, nil, nil)
	}
	if rapid.Bool().Draw(t, "tolerates") {
		p.Toleration("soft")
	}
	return p.Obj()
}

// drawState draws a cluster of 2 to 10 nodes, which the pending pod usually fits on.
func drawState(t *rapid.T) clusterState {
	var c clusterState
	for i := range rapid.IntRange(2, 10).Draw(t, "nodes") {
		c.nodes = append(c.nodes, drawNode(t, fmt.Sprintf("n%d", i)))
	}
	for i := range rapid.IntRange(0, 15).Draw(t, "pods") {
		p := prefer(t, drawPod(t, fmt.Sprintf("p%d", i)))
		p.Spec.NodeName = rapid.SampledFrom(c.nodes).Draw(t, "on").Name
		c.pods = append(c.pods, p)
	}
	c.waiting = prefer(t, drawPod(t, "waiting"))
	return c
}
