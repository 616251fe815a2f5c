package plugin

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/each"
	"gnnsched/internal/fatal"
	"gnnsched/internal/fragmentation"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/neural"
	"gnnsched/workload/trace/openb"
)

// The typical pods follow the pods that arrive, and are determined again more and more rarely.
func TestDemandFollowsWhatComes(t *testing.T) {
	d := fatal.Value(newDemandTracker("ours", ""))(t)
	typical := d.typical(nil)
	if typical != nil {
		t.Errorf("before any pod: %v", typical.Pods())
	}
	changes := 0
	for i := range 1000 {
		p := cluster.Pod{Requests: cluster.Resources{MilliCPU: 500, GPUMilli: 500, Pods: 1}, GPUModels: []string{"T4"}}
		if i%4 == 0 {
			p = cluster.Pod{Requests: cluster.Resources{MilliCPU: 8000, GPU: 1, Pods: 1}}
		}
		d.countPending(&p)
		if now := d.typical(nil); now != typical {
			typical = now
			changes++
		}
	}
	if changes < 10 || changes > 40 {
		t.Errorf("%d changes in 1000 pods", changes)
	}
	pods := typical.Pods()
	if len(pods) != 2 || pods[0].Milli != 500 || !cmp.Equal(pods[0].Models, []string{"T4"}) || pods[0].Frequency < 0.7 ||
		pods[0].Frequency > 0.8 {
		t.Errorf("got %+v", pods)
	}
}

// After a change of the workload, thousands of pods are enough to see it, however many came before.
func TestDemandForgets(t *testing.T) {
	d := fatal.Value(newDemandTracker("ours", ""))(t)
	arrive := func(pods int, milli int64) (changes int) {
		for range pods {
			before := d.latest
			d.countPending(&cluster.Pod{Requests: cluster.Resources{GPUMilli: milli, Pods: 1}})
			if d.typical(nil) != before {
				changes++
			}
		}
		return changes
	}
	arrive(200_000, 300)
	if changes := arrive(6000, 700); changes < 4 || changes > 12 {
		t.Errorf("%d changes in 6000 pods", changes)
	}
	pods := d.typical(nil).Pods()
	if pods[0].Milli != 700 || pods[0].Frequency < 0.75 {
		t.Errorf("after the change: %+v", pods)
	}
}

// Of the running pods only the profile's own are counted, and only once.
func TestDemandBeginsWithTheProfilesPods(t *testing.T) {
	const profile = "begins"
	b := newBed(t, profile, Args{Policy: "fgd"})
	state := clusterState{nodes: []*v1.Node{gpuNode("n", "T4", 8)}}
	for i, scheduler := range []string{profile, defaultProfile, "", "another"} {
		p := gpuPod(fmt.Sprint("p", i), share(int64(100+i)))
		p.Spec.NodeName, p.Spec.SchedulerName = "n", scheduler
		state.pods = append(state.pods, p)
	}
	defer b.load(t, state)()
	fatal.If(t, b.sched.Cache.UpdateSnapshot(b.log, b.snapshot(profile)))
	nodes := fatal.Value(b.snapshot(profile).List())(t)
	d := b.plugin.demand
	for range 2 {
		d.countRunning(nodes)
		if typical := d.typical(nil); d.pods != 1 || len(typical.Pods()) != 1 || typical.Pods()[0].Milli != 100 {
			t.Errorf("%v pods are counted: %+v", d.pods, typical.Pods())
		}
	}
}

// Rare GPU pods are typical and influence decisions. If CPU pods are not the majority, every pod
// weighs the same.
func TestDemandOfFewGPUPods(t *testing.T) {
	const profile = "few"
	b := newBed(t, profile, Args{Policy: "fgd"})
	taken := gpuPod("taken", share(500))
	taken.Spec.NodeName, taken.Annotations[kube.GPUIndexAnnotation] = "a", "0"
	defer b.load(t, clusterState{nodes: []*v1.Node{gpuNode("a", "T4", 1), gpuNode("b", "T4", 1)}, pods: []*v1.Pod{taken}})()
	d := b.plugin.demand
	for i := range 1000 {
		if i%100 == 0 {
			d.countPending(&cluster.Pod{Requests: share(500)})
		}
		d.countPending(&cluster.Pod{Requests: cluster.Resources{MilliCPU: int64(i % 3)}})
	}
	// On a, 200 would be left, too little for the typical pods; on b one of them still fits.
	pod, _, err := b.attempt(t, profile, gpuPod("new", share(300)))
	fatal.If(t, err)
	if pod.Spec.NodeName != "b" {
		t.Error("the first node of equals was chosen")
	}
	fatal.If(t, b.sched.Cache.ForgetPod(b.log, pod))

	even := fatal.Value(newDemandTracker("even", ""))(t)
	for range 3 {
		even.add(&cluster.Pod{Requests: share(500)})
		even.add(&cluster.Pod{Requests: cluster.Resources{MilliCPU: 5}})
	}
	even.add(&cluster.Pod{Requests: share(400)})
	want := []fragmentation.Demand{{Requests: share(500), Count: 3}, {Requests: cluster.Resources{MilliCPU: 5}, Count: 3},
		{Requests: share(400), Count: 1}}
	if d := cmp.Diff(want, even.demands(nil)); d != "" {
		t.Error(d)
	}
}

// Pods of ever new shapes neither fill memory nor displace the common shapes.
func TestDemandIsBounded(t *testing.T) {
	d := fatal.Value(newDemandTracker("ours", ""))(t)
	for i := range int64(3 * maxShapes) {
		if i%2 == 0 {
			d.countPending(&cluster.Pod{Requests: share(500)})
		}
		d.countPending(&cluster.Pod{Requests: cluster.Resources{MilliCPU: i, GPU: 1}})
		if len(d.counts) > maxShapes {
			t.Fatalf("%d shapes are kept", len(d.counts))
		}
	}
	if typical := d.typical(nil); typical.Pods()[0].Milli != 500 || typical.Pods()[0].Frequency < 0.3 {
		t.Errorf("the commonest is %+v", typical.Pods()[0])
	}
}

// Pods are counted only while the decider needs typical pods.
func TestDemandIsCountedWhereItDecides(t *testing.T) {
	const profile = "counts"
	file := untrained(t, 1, nil)
	b := newBed(t, profile, Args{Checkpoint: file, Deadline: duration(time.Minute)})
	defer b.load(t, clusterState{nodes: []*v1.Node{gpuNode("a", "T4", 2), gpuNode("b", "G2", 4)}})()
	for _, want := range []float64{0, 1} {
		pod, _, err := b.attempt(t, profile, gpuPod("p", share(400)))
		fatal.If(t, err)
		if b.plugin.demand.pods != want {
			t.Errorf("%v pods are counted, want %v", b.plugin.demand.pods, want)
		}
		fatal.If(t, b.sched.Cache.ForgetPod(b.log, pod))
		c := checkpoint.Random(gpuArchitecture, rand.New(rand.NewPCG(1, 1)))
		fatal.If(t, (&model{active: &b.plugin.active, deadline: time.Minute}).use(c))
	}
}

var gpuArchitecture = checkpoint.Architecture{Graph: checkpoint.GPUGraph, Encoder: checkpoint.GNN, Head: checkpoint.DQN, Hidden: 8}

// A pod with one feasible node is not scored. The network still chooses its device, and sees the
// current cluster.
func TestDeviceOnTheOnlyNode(t *testing.T) {
	differs := 0
	for seed := range uint64(5) {
		profile := fmt.Sprint("only-", seed)
		b := newBed(t, profile, Args{Checkpoint: untrainedOf(t, gpuArchitecture, seed, nil), Deadline: duration(time.Minute)})
		state := clusterState{nodes: []*v1.Node{gpuNode("only", "T4", 4), gpuNode("other", "G2", 8)}}
		for i, milli := range []int64{500, 300, 700} {
			p := gpuPod(fmt.Sprint("on-", i), share(milli))
			p.Spec.NodeName, p.Annotations[kube.GPUIndexAnnotation] = "only", fmt.Sprint(i)
			state.pods = append(state.pods, p)
		}
		defer b.load(t, state)()
		for i := range 6 {
			pod := gpuPod(fmt.Sprint("p", i), share(100), "T4")
			if i%2 == 1 { // a change elsewhere changes the network's values
				pod = gpuPod(fmt.Sprint("p", i), cluster.Resources{GPU: 3}, "G2")
			}
			bound, _, err := b.attempt(t, profile, pod)
			if err != nil {
				break // the other node is full
			}
			waiting, row := convertPod(pod), b.plugin.mirror.row[bound.Spec.NodeName]
			fresh := neural.New("fresh", b.plugin.active.load().(*networkDecider).net, b.plugin.demand.latest)
			fatal.If(t, fresh.Score(&b.plugin.mirror.snapshot, &waiting, []int32{row}, make([]float32, 1)))
			n := b.plugin.mirror.snapshot.Nodes[row]
			want := fresh.Devices(n, &waiting)
			if want != n.ChooseDevices(waiting.Requests) {
				differs++
			}
			if got := bound.Annotations[kube.GPUIndexAnnotation]; got != kube.FormatDevices(want) {
				t.Errorf("pod %d of seed %d is on %q, want %q", i, seed, got, kube.FormatDevices(want))
			}
			defer func() { _ = b.sched.Cache.ForgetPod(b.log, bound) }()
		}
	}
	if differs == 0 {
		t.Error("no network chose another device than the default, so that nothing is shown")
	}
}

// A network for GPU clusters begins with the typical pods of its training. Six shares of 460 and 540 then
// fit on three devices, as with the trace, instead of five or six.
func TestShippedNetworkBeginsWithItsFamily(t *testing.T) {
	for _, nodes := range []int{2, 4, 8} {
		for _, first := range []int64{460, 540} {
			profile := fmt.Sprint("family-", nodes, "-", first)
			b := newBed(t, profile, Args{Variant: "gpu-gnn"})
			var state clusterState
			for i := range nodes {
				state.nodes = append(state.nodes, gpuNode(fmt.Sprint("n", i), "T4", 4))
			}
			defer b.load(t, state)()
			used := map[string]bool{}
			for i := range 6 {
				milli := first
				if i%2 == 1 {
					milli = 1000 - first
				}
				pod, _, err := b.attempt(t, profile, gpuPod(fmt.Sprint("p", i), share(milli)))
				fatal.If(t, err)
				used[pod.Spec.NodeName+"/"+pod.Annotations[kube.GPUIndexAnnotation]] = true
				defer func() { _ = b.sched.Cache.ForgetPod(b.log, pod) }()
			}
			if len(used) != 3 {
				t.Errorf("%d nodes, %d first: six shares use %d devices", nodes, first, len(used))
			}
		}
	}
}

// The pods that come outweigh the family; a file replaces it. Whatever lies beside a checkpoint file is
// its family.
func TestDemandBeginsWithAFamily(t *testing.T) {
	file := untrainedOf(t, gpuArchitecture, 1, nil)
	family := &checkpoint.TypicalPods{Family: []string{"mine"}, Pods: []checkpoint.TypicalPod{
		{GPUMilli: 300, GPUModels: []string{"T4"}, Frequency: 0.75}, {MilliCPU: 8000, GPU: 2, Frequency: 0.25},
	}}
	fatal.If(t, family.Save(file))
	d := newBed(t, "family", Args{Checkpoint: file}).plugin.demand
	want := []fragmentation.Pod{{Devices: 1, Milli: 300, Models: []string{"T4"}, Frequency: 0.75},
		{MilliCPU: 8000, Devices: 2, Milli: 1000, Frequency: 0.25}}
	if diff := cmp.Diff(want, d.typical(nil).Pods(), cmpopts.IgnoreUnexported(fragmentation.Pod{})); diff != "" {
		t.Error(diff)
	}
	for range 3 * familyPods {
		d.countPending(&cluster.Pod{Requests: share(900)})
		d.typical(nil)
	}
	if pods := d.typical(nil).Pods(); pods[0].Milli != 900 || pods[0].Frequency < 0.6 {
		t.Errorf("after thrice as many pods: %+v", pods)
	}

	list := filepath.Join(t.TempDir(), "pods.csv")
	fatal.If(t, os.WriteFile(list, []byte("name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,100,1,1,300\n"), 0o600))
	if pods := newBed(t, "family-and-file", Args{Checkpoint: file, Workload: list}).plugin.demand.typical(nil).Pods(); len(pods) != 1 ||
		pods[0].MilliCPU != 100 {
		t.Errorf("with a file: %+v", pods)
	}
	for name, args := range map[string]Args{"family-none": {Checkpoint: untrainedOf(t, gpuArchitecture, 1, nil)},
		"family-other": {Variant: "gnn"}, "family-fgd": {Policy: "fgd"}} {
		if typical := newBed(t, name, args).plugin.demand.typical(nil); typical != nil {
			t.Errorf("%s: %+v", name, typical.Pods())
		}
	}
	fatal.If(t, os.WriteFile(checkpoint.TypicalPath(file), []byte("{}"), 0o600))
	if d := newBed(t, "family-broken", Args{Checkpoint: file}).plugin; d.demand.typical(nil) != nil || d.active.load().fingerprint() == 0 {
		t.Error("a broken file stops the network, or counts")
	}
}

// A network with a price on power is a policy of a profile, and begins as the network does.
func TestPowerPolicyBeginsWithItsFamily(t *testing.T) {
	network := newBed(t, "power-none", Args{Variant: "gpu-gnn"}).plugin.demand.typical(nil).Pods()
	b := newBed(t, "power-two", Args{Policy: "power+gpu-gnn:2"})
	if d := cmp.Diff(network, b.plugin.demand.typical(nil).Pods(), cmpopts.IgnoreUnexported(fragmentation.Pod{})); d != "" {
		t.Error(d)
	}
	// Of two nodes whose devices differ in nothing else, it takes the one that draws less.
	defer b.load(t, clusterState{nodes: []*v1.Node{gpuNode("a", "V100M32", 2), gpuNode("b", "T4", 2)}})()
	bound, _, err := b.attempt(t, "power-two", gpuPod("p", cluster.Resources{GPU: 1}))
	if err != nil || bound.Spec.NodeName != "b" {
		t.Errorf("%+v, %v", bound, err)
	}
	if n, err := Fallbacks("power-two"); n != 0 || err != nil {
		t.Errorf("%d decisions fell back, %v", n, err)
	}
}

// Where pods leave, networks go by the pods that run, and heuristics by those that arrive. Before many run, and for
// shapes of which none runs, the arrivals count too.
func TestDemandCountsWhatRuns(t *testing.T) {
	const profile = "runs"
	b := newBed(t, profile, Args{Policy: "fgd"})
	d := b.plugin.demand
	for i := range 1000 { // one pod in a hundred is large and runs for long
		p := cluster.Pod{Requests: share(500)}
		if i%100 == 0 {
			p.Requests = cluster.Resources{GPU: 8}
		}
		d.countPending(&p)
	}
	nodes, unload := b.tenPodsANode(t, profile, 60, func(j int) cluster.Resources {
		if j%5 == 0 {
			return cluster.Resources{GPU: 8}
		}
		return share(500)
	})
	defer unload()
	share8 := func(by decider, nodes []fwk.NodeInfo) (of8 float64) {
		d.upTo, d.latest = 0, nil // determine them again
		for _, p := range d.typicalFor(by, nodes).Shapes() {
			if p.Devices == 8 {
				of8 += p.Frequency
			}
		}
		return of8
	}
	network, fgd := &networkDecider{net: load(t, untrainedOf(t, gpuArchitecture, 1, nil))}, b.plugin.active.load()
	for _, c := range []struct {
		name      string
		by        decider
		nodes     []fwk.NodeInfo
		low, high float64
	}{
		{"a heuristic", fgd, nodes, 0.009, 0.011},
		{"a network where nothing runs", network, nil, 0.009, 0.011},
		{"a network where 100 pods run", network, nodes[:10], 0.03, 0.06}, // a fifth of 100, a hundredth of 400
		{"a network where 600 pods run", network, nodes, 0.19, 0.2},
	} {
		if got := share8(c.by, c.nodes); got < c.low || got > c.high {
			t.Errorf("%s: %v of the typical pods want eight GPUs, want %v to %v", c.name, got, c.low, c.high)
		}
	}
	d.countPending(&cluster.Pod{Requests: cluster.Resources{GPU: 4}})
	d.upTo, d.latest = 0, nil
	waits := false
	for _, p := range d.typicalFor(network, nodes).Shapes() {
		waits = waits || p.Devices == 4
	}
	if !waits {
		t.Error("a shape of which none runs is forgotten")
	}
}

// tenPodsANode loads so many nodes with eight GPUs, each with ten of the profile's pods, and returns the snapshot's nodes.
func (b *bed) tenPodsANode(t testing.TB, profile string, nodes int, requests func(pod int) cluster.Resources) ([]fwk.NodeInfo, func()) {
	t.Helper()
	state := clusterState{}
	for i := range nodes {
		n := gpuNode(fmt.Sprint("n", i), "T4", 8)
		state.nodes = append(state.nodes, n)
		for j := range 10 {
			p := gpuPod(fmt.Sprintf("p-%d-%d", i, j), requests(j))
			p.Spec.NodeName, p.Spec.SchedulerName = n.Name, profile
			state.pods = append(state.pods, p)
		}
	}
	unload := b.load(t, state)
	fatal.If(t, b.sched.Cache.UpdateSnapshot(b.log, b.snapshot(profile)))
	infos := fatal.Value(b.snapshot(profile).List())(t)
	return infos, unload
}

// With a file, the pods that arrive do not matter.
func TestDemandOfAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pods.csv")
	fatal.If(t, os.WriteFile(file, []byte("name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,100,1,1,300\n"), 0o600))
	d := fatal.Value(newDemandTracker("ours", file))(t)
	d.countPending(&cluster.Pod{Requests: cluster.Resources{GPU: 8}})
	typical := d.typical(nil)
	want := []fragmentation.Pod{{MilliCPU: 100, Devices: 1, Milli: 300, Frequency: 1}}
	if d := cmp.Diff(want, typical.Pods(), cmpopts.IgnoreUnexported(fragmentation.Pod{})); d != "" {
		t.Error(d)
	}
	if d.typical(nil) != typical {
		t.Error("it changed")
	}
	for file, want := range map[string]string{"nowhere.csv": "nowhere.csv", file + "x": "pods.csvx"} {
		if _, err := newDemandTracker("ours", file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// profiled is a network of the simulator with the typical pods that a scheduler's profile counts.
type profiled struct {
	*neural.GPUPolicy
	net     *infer.Network
	demand  *demandTracker
	known   *fragmentation.Typical // those to begin with, until the first pod leaves; nil: the profile counts from the beginning
	typical *fragmentation.Typical
	last    *cluster.Pod
	most    int64 // pods that ran at the same time
	pods    map[cluster.Resources]*v1.Pod
}

func newProfiled(t *testing.T, known *fragmentation.Typical) *profiled {
	t.Helper()
	c := fatal.Value(checkpoint.Shipped("gpu-gnn"))(t)
	net := fatal.Value(infer.New(c))(t)
	family := fatal.Value(checkpoint.ShippedTypical("gpu-gnn"))(t)
	d := fatal.Value(newDemandTracker("ours", ""))(t)
	d.begin(family)
	return &profiled{net: net, demand: d, known: known, pods: map[cluster.Resources]*v1.Pod{}}
}

func (p *profiled) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	running := each.Sum(s.Nodes, func(n *cluster.Node) int64 { return n.Requested.Pods })
	if running < p.most {
		p.known = nil
	}
	p.most = max(p.most, running)
	typical := p.known
	if typical == nil {
		d := p.demand
		if !d.begun {
			d.countRunning([]fwk.NodeInfo{p.info(s.Nodes)})
		}
		if pod != p.last {
			d.countPending(pod)
		}
		var nodes []fwk.NodeInfo
		if d.pods >= grown*d.upTo { // the count reads them only then
			nodes = append(nodes, p.info(s.Nodes))
		}
		p.last, typical = pod, d.typical(nodes)
	}
	if typical != p.typical {
		p.typical, p.GPUPolicy = typical, neural.New("gpu-gnn", p.net, typical).(*neural.GPUPolicy)
	}
	return p.GPUPolicy.Score(s, pod, candidates, scores)
}

// info returns the running pods of all nodes. GPU models are missing: the list default has none.
func (p *profiled) info(nodes []*cluster.Node) *framework.NodeInfo {
	var all []*v1.Pod
	for _, n := range nodes {
		for _, g := range n.Groups {
			if p.pods[g.Each] == nil {
				x := gpuPod("x", g.Each)
				x.Spec.SchedulerName = "ours"
				x.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = *resource.NewMilliQuantity(g.Each.MilliCPU, resource.DecimalSI)
				p.pods[g.Each] = x
			}
			for range g.Count {
				all = append(all, p.pods[g.Each])
			}
		}
	}
	return framework.NewNodeInfo(all...)
}

// What docs/results/gpu.md says about the profile gpu-gnn: on a cluster in use its count of the running pods is as good as knowing all
// lifetimes (running:gpu-gnn). From an empty cluster, which its oldest pods fill first, it is not. COUNT=NODES plays as many machines with ten
// seeds, and COUNT=all all of them.
func TestCountOnTheTrace(t *testing.T) {
	s, err := eval.ChooseScenarios([]string{"openb:default@95"}, fatal.OpenB(t))
	fatal.If(t, err)
	nodes, seeds := 50, 4
	if count := os.Getenv("COUNT"); count == "all" {
		nodes = len(s[0].Config.OpenB.Nodes)
	} else if count != "" {
		nodes, err = strconv.Atoi(count)
		fatal.If(t, err)
		seeds = 10
	}
	s[0].Config.OpenB.Nodes = openb.Sample(s[0].Config.OpenB.Nodes, nodes)
	fgd := fatal.Value(heuristic.Find("fgd"))(t)
	c := fatal.Value(eval.Compare(t.Context(), s[0], []eval.Contender{
		{Name: "fgd", New: fgd.New},
		{Name: "running:gpu-gnn", New: func(s policy.Setting) policy.Policy {
			p := newProfiled(t, nil)
			return neural.New("x", p.net, s.Running)
		}},
		{Name: "gpu-gnn in use", New: func(s policy.Setting) policy.Policy { return newProfiled(t, s.Running) }},
		{Name: "gpu-gnn from empty", New: func(policy.Setting) policy.Policy { return newProfiled(t, nil) }},
	}, eval.Seeds(42, seeds), nil))(t)
	var allocated []float64
	for _, r := range c.Results {
		var allocation, hours, waiting, rejected float64
		for _, o := range r.Outcomes {
			allocation += 100 * o.Steady.Allocation / float64(seeds)
			hours += o.Steady.GPUHours / float64(seeds)
			waiting += o.Steady.Waiting / float64(seeds)
			rejected += float64(o.Steady.Rejected) / float64(seeds)
		}
		t.Logf("%s: GPU allocation %.2f %%, GPU hours waited %.0f, pods waiting %.1f, rejected %.1f", r.Name, allocation, hours, waiting, rejected)
		allocated = append(allocated, allocation)
	}
	if running, used, empty := allocated[1], allocated[2], allocated[3]; used < running-1 || empty > running-3 {
		t.Errorf("GPUs allocated in %%: %.2f", allocated)
	}
}
