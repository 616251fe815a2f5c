package traffic

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	testclock "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
	"gnnsched/internal/promapi"
	"gnnsched/internal/watched"
)

var links = cluster.Links{
	Node: cluster.Hop{Latency: 0.1, Bandwidth: 100}, Rack: cluster.Hop{Latency: 0.3, Bandwidth: 200},
	Zone:    cluster.Hop{Latency: 1, Bandwidth: 300, Price: 0.01},
	Between: []cluster.Between{{Zones: [2]string{"a", "b"}, Latency: 2}},
}

// world is a cluster as the scheduler and the API server have it.
type world struct {
	view  *View
	nodes []*cluster.Node
	pods  []*v1.Pod // those without a node wait
	made  int
	late  map[types.UID]bool // of which the API server has not told yet

	measured map[pair]float64
}

// source is an address that nobody asks.
const source = "http://127.0.0.1:9090"

func newWorld(t testing.TB, log klog.Logger, nodes int) *world {
	t.Helper()
	return newWorldOf(t, Config{Network: links, Measured: Measured{Server: promapi.Server{Address: source}}}, log, nodes)
}

func newWorldOf(t testing.TB, c Config, log klog.Logger, nodes int) *world {
	t.Helper()
	fatal.If(t, c.Default())
	v := fatal.Value(newView(c, t.Name(), log, testclock.NewFakeClock(time.Unix(1e9, 0))))(t)
	w := &world{late: map[types.UID]bool{}, view: v}
	for range nodes {
		w.join(string("abc"[len(w.nodes)%3]), fmt.Sprint("rack-", len(w.nodes)/3%2))
	}
	return w
}

// measure makes the measured rates those given.
func (w *world) measure(rates map[pair]float64) {
	w.measured = rates
	w.view.measure(rates)
}

func (w *world) join(zone, rack string) {
	w.made++
	w.nodes = append(w.nodes, &cluster.Node{Name: fmt.Sprint("node-", w.made), Zone: zone, Labels: map[string]string{defaultRackLabel: rack}})
}

// touch makes a node that of a later snapshot.
func (w *world) touch(name string) {
	for i, n := range w.nodes {
		if n.Name == name {
			w.nodes[i] = &cluster.Node{Name: n.Name, Zone: n.Zone, Labels: n.Labels}
		}
	}
}

// pod returns a pod of a Deployment.
func (w *world) pod(namespace, owner string) *v1.Pod {
	w.made++
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint(owner, "-5d4f-", w.made),
		UID: types.UID(fmt.Sprint(w.made))}}
	yes := true
	p.Labels = map[string]string{"pod-template-hash": "5d4f"}
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: owner + "-5d4f", Controller: &yes}}
	return p
}

// create makes the API server have a pod.
func (w *world) create(p *v1.Pod) *v1.Pod {
	w.pods = append(w.pods, p)
	w.view.sizes.change(nil, p, false)
	return p
}

// run creates a pod that runs.
func (w *world) run(namespace, owner, node string) {
	w.create(w.pod(namespace, owner))
	w.update(len(w.pods)-1, node)
}

// update replaces a pod by one on a node.
func (w *world) update(i int, node string) {
	old := w.pods[i]
	p := old.DeepCopy()
	p.Spec.NodeName = node
	w.replace(i, p)
	w.touch(node)
}

// adopt gives a pod another owner.
func (w *world) adopt(i int, owner string) {
	p := w.pods[i].DeepCopy()
	p.OwnerReferences[0].Name = owner + "-5d4f"
	w.replace(i, p)
}

func (w *world) replace(i int, p *v1.Pod) {
	old := w.pods[i]
	w.pods[i] = p
	if !w.late[p.UID] {
		w.view.sizes.change(old, p, false)
	}
	w.touch(old.Spec.NodeName)
}

// remove deletes a pod; the API server tells of some of them late.
func (w *world) remove(i int, tombstone bool) {
	p := w.pods[i]
	w.pods = slices.Delete(w.pods, i, i+1)
	w.touch(p.Spec.NodeName)
	if w.late[p.UID] {
		return
	}
	if tombstone {
		watched.Handler(w.view.sizes.change).OnDelete(cache.DeletedFinalStateUnknown{Obj: p})
	} else {
		w.view.sizes.change(p, nil, false)
	}
}

func (w *world) infos() (out []fwk.NodeInfo) {
	for _, n := range w.nodes {
		info := framework.NewNodeInfo()
		for _, p := range w.pods {
			if p.Spec.NodeName == n.Name {
				info.AddPod(p)
			}
		}
		out = append(out, info)
	}
	return out
}

func (w *world) attach(pending *v1.Pod) cluster.Snapshot {
	s := cluster.Snapshot{Nodes: w.nodes}
	w.view.Attach(&s, w.infos(), pending)
	return s
}

// size returns among how many pods the flows of a workload are divided, where so many more of its pods come.
func (w *world) size(of *v1.Pod, more int) float64 {
	running, exist := more, 0
	for _, x := range w.pods {
		if keyOf(x) == keyOf(of) {
			if !w.late[x.UID] {
				exist++
			}
			if x.Spec.NodeName != "" {
				running++
			}
		}
	}
	return float64(max(running, exist))
}

// rate returns what p sends q. ofP and ofQ are how many pods of their workloads come.
func (w *world) rate(p, q *v1.Pod, ofP, ofQ int) float64 {
	return rounded(w.measured[pair{keyOf(p), keyOf(q)}] / w.size(p, ofP) / w.size(q, ofQ))
}

// rounded returns a rate in the parts that count.
func rounded(rate float64) float64 {
	if rate >= 1 {
		return math.Round(rate)
	}
	return math.Round(rate*(1<<20)) / (1 << 20)
}

func (w *world) row(p *v1.Pod) int32 {
	return int32(slices.IndexFunc(w.nodes, func(n *cluster.Node) bool { return n.Name == p.Spec.NodeName }))
}

// count counts what the view should say, pair by pair.
func (w *world) count(pending *v1.Pod) (peers []cluster.Peer, all *cluster.Traffic) {
	all = cluster.NewTraffic(cluster.NewNetwork(links, w.nodes))
	peers = []cluster.Peer{}
	for _, q := range w.pods {
		if q.Spec.NodeName == "" {
			continue
		}
		own := 0
		if keyOf(q) == keyOf(pending) {
			own = 1
		}
		if to, from := w.rate(pending, q, 1, own), w.rate(q, pending, own, 1); to+from > 0 {
			peers = cluster.AddPeer(peers, cluster.Peer{Row: w.row(q), Pods: 1, Rate: to + from})
		}
		for _, p := range w.pods {
			if p != q && p.Spec.NodeName != "" {
				all.Place(w.row(p), []cluster.Peer{{Row: w.row(q), Pods: 1, Rate: w.rate(p, q, 0, 0)}})
			}
		}
	}
	return peers, all
}

// check compares a snapshot with a naive recount.
func (w *world) check(t rapid.TB, s cluster.Snapshot, pending *v1.Pod) {
	peers, all := w.count(pending)
	if d := cmp.Diff(peers, s.Peers, cmpopts.EquateApprox(1e-12, 0)); d != "" {
		t.Fatalf("peers: %s", d)
	}
	got := cluster.TrafficOf(s.Nodes)
	if d := cmp.Diff(all.Flows, got.Flows, cmpopts.EquateApprox(1e-9, 1e-6)); d != "" {
		t.Fatalf("flows: %s", d)
	}
	for i, n := range s.Nodes {
		row := int32(i)
		if n.Traffic != got || n.Rack != n.Labels[defaultRackLabel] {
			t.Fatalf("node %s has rack %q and the traffic %p, want %p", n.Name, n.Rack, n.Traffic, got)
		}
		for _, link := range []int{i, all.Network.RackLink(row), all.Network.ZoneLink(row)} {
			if a, b := all.Use(link), got.Use(link); math.Abs(a-b) > 1e-9*max(a, 1) {
				t.Fatalf("link %d carries %v of its bandwidth, want %v", link, b, a)
			}
		}
	}
}

func anyPair(t *rapid.T) pair {
	end := func(name string) key {
		return key{rapid.SampledFrom([]string{"x", "y"}).Draw(t, name+" namespace"),
			rapid.SampledFrom([]string{"web", "api", "db"}).Draw(t, name)}
	}
	return pair{end("from"), end("to")}
}

// Pods and nodes come, go and change in any order: peers, flows and loads are those of a naive recount, and nothing is
// kept of pods that are gone.
func TestViewCountsAsARecount(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := newWorld(t, klog.Logger{}, rapid.IntRange(1, 7).Draw(r, "nodes"))
		someNode := func() string { return rapid.SampledFrom(w.nodes).Draw(r, "node").Name }
		newPod := func() *v1.Pod {
			return w.pod(rapid.SampledFrom([]string{"x", "x", "y"}).Draw(r, "namespace"),
				rapid.SampledFrom([]string{"web", "api", "db"}).Draw(r, "owner"))
		}
		for range rapid.IntRange(1, 25).Draw(r, "steps") {
			switch step := rapid.IntRange(0, 10).Draw(r, "step"); {
			case step == 10:
				w.measure(rapid.MapOfN(rapid.Custom(anyPair), rapid.SampledFrom([]float64{0.01, 1, 500, 1e4, 3e5, 1e13}), 0, 6).Draw(r, "measured"))
			case step <= 3 || len(w.pods) == 0: // a pod comes, which waits or runs at once
				if p := newPod(); rapid.IntRange(0, 3).Draw(r, "late") > 0 {
					w.create(p)
				} else { // the scheduler has assumed it
					w.pods = append(w.pods, p)
					w.late[p.UID] = true
				}
				if step > 0 {
					w.update(len(w.pods)-1, someNode())
				}
			case step <= 5:
				w.remove(rapid.IntRange(0, len(w.pods)-1).Draw(r, "pod"), step == 5)
			case step == 6: // bound, or another owner
				i := rapid.IntRange(0, len(w.pods)-1).Draw(r, "pod")
				if w.pods[i].Spec.NodeName == "" {
					w.update(i, someNode())
				} else {
					w.adopt(i, rapid.SampledFrom([]string{"web", "api", "db"}).Draw(r, "adopter"))
				}
			case step == 7:
				w.join(rapid.SampledFrom([]string{"a", "b"}).Draw(r, "zone"), "rack-1")
			case step == 8: // a node moves
				n := rapid.SampledFrom(w.nodes).Draw(r, "mover")
				w.touch(n.Name)
				for _, now := range w.nodes {
					if now.Name == n.Name {
						now.Labels = map[string]string{defaultRackLabel: "rack-9"}
					}
				}
			case len(w.nodes) > 1: // a node leaves with its pods
				gone := rapid.SampledFrom(w.nodes).Draw(r, "leaver")
				for i := len(w.pods) - 1; i >= 0; i-- {
					if w.pods[i].Spec.NodeName == gone.Name {
						w.remove(i, false)
					}
				}
				w.nodes = slices.DeleteFunc(slices.Clone(w.nodes), func(n *cluster.Node) bool { return n.Name == gone.Name })
			}
			if rapid.IntRange(0, 5).Draw(r, "decides") > 0 {
				pending := newPod()
				w.check(r, w.attach(pending), pending)
			}
		}
		w.measure(nil)
		for len(w.pods) > 0 {
			w.remove(0, false)
		}
		pending := newPod()
		s := w.attach(pending)
		if v := w.view; len(v.workloads) > 0 || len(v.sizes.pods) > 0 || len(s.Peers) > 0 ||
			s.Nodes[0].Traffic.Flows != (cluster.Flows{}) {
			r.Fatalf("left over: %d workloads, %d sizes, peers %v, %+v", len(v.workloads), len(v.sizes.pods), s.Peers, s.Nodes[0].Traffic.Flows)
		}
	})
}

// Both ends know of what one sends, and each pod of an end has a part of it, whether it runs yet or waits.
func TestBothEndsCount(t *testing.T) {
	w := newWorld(t, klog.Logger{}, 3)
	w.run("shop", "api", "node-1")
	waits := w.create(w.pod("shop", "api"))
	w.run("other", "api", "node-2")
	w.run("shop", "web", "node-3")
	alone := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "one", UID: "one"}}
	w.measure(map[pair]float64{{key{"shop", "web"}, key{"shop", "api"}}: 60, {keyOf(alone), key{"shop", "api"}}: 90,
		{key{"shop", "web"}, keyOf(alone)}: 5})
	for _, c := range []struct {
		who  string
		pod  *v1.Pod
		want []cluster.Peer
	}{
		{"one more web", w.pod("shop", "web"), []cluster.Peer{{Row: 0, Pods: 1, Rate: 15}}},
		{"the api that waits", waits, []cluster.Peer{{Row: 2, Pods: 1, Rate: 30}}},
		{"an api of another namespace", w.pod("other", "api"), []cluster.Peer{}},
		{"a pod without a workload", alone, []cluster.Peer{{Row: 0, Pods: 1, Rate: 45}, {Row: 2, Pods: 1, Rate: 5}}},
	} {
		if d := cmp.Diff(c.want, w.attach(c.pod).Peers); d != "" {
			t.Errorf("%s: %s", c.who, d)
		}
	}
	if rate := w.nodes[0].Traffic.Rate; rate != 30 {
		t.Errorf("the running pods exchange %v, want 30", rate)
	}
}

// Whatever was added to the sums, and in whatever order, taking it away leaves exactly what there was: the rates of 10,000 pods
// that exchange the most there is are far beyond 2^53 bytes a second.
func TestSumsLoseNothing(t *testing.T) {
	w := newWorld(t, klog.Logger{}, 3)
	w.run("shop", "api", "node-1")
	w.run("shop", "web", "node-2")
	rates := map[pair]float64{{key{"shop", "web"}, key{"shop", "api"}}: 7}
	w.measure(rates)
	pending := w.pod("shop", "quiet")
	w.attach(pending)
	before := w.nodes[0].Traffic.Flows
	use := w.nodes[0].Traffic.Use(w.nodes[0].Traffic.Network.ZoneLink(0))
	flood := maps.Clone(rates)
	for i := range 4000 {
		from := key{"shop", fmt.Sprint("flood-", i)}
		flood[pair{from, key{"shop", "api"}}] = maxRate
		w.run(from.namespace, from.name, fmt.Sprint("node-", i%3+1))
	}
	w.measure(flood)
	w.attach(pending)
	if rate := w.nodes[0].Traffic.Rate; math.Abs(rate-4e16) > 1e3 {
		t.Errorf("all exchange %v, want about 4e16", rate)
	}
	w.measure(rates)
	w.attach(pending)
	if after := w.nodes[0].Traffic; after.Flows != before || after.Use(after.Network.ZoneLink(0)) != use || before.Rate != 7 {
		t.Errorf("%+v is left, want %+v", after.Flows, before)
	}
}

// Labels that put every node into a rack of its own do not make the network large.
func TestTooManyRacks(t *testing.T) {
	var log bytes.Buffer
	w := newWorld(t, textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&log))), 0)
	for i := range maxRacks + 1 {
		w.join("a", fmt.Sprint("rack-", i))
	}
	for range 2 {
		w.attach(w.pod("shop", "web"))
		w.join("a", "one-more")
	}
	if w.nodes[0].Rack != "" || w.nodes[5].Traffic.Network.Rack(5) != 0 {
		t.Errorf("node 0 is in rack %q, node 5 in number %d", w.nodes[0].Rack, w.nodes[5].Traffic.Network.Rack(5))
	}
	if strings.Count(log.String(), "Racks do not count") != 1 {
		t.Errorf("log %q", log.String())
	}
}

// A profile that decides nothing does not remember every workload that ever was, and hears of all when it decides again.
func TestManyChangesBetweenDecisions(t *testing.T) {
	w := newWorld(t, klog.Logger{}, 3)
	w.run("shop", "api", "node-1")
	w.run("shop", "web", "node-2")
	w.measure(map[pair]float64{{key{"shop", "web"}, key{"shop", "api"}}: 60})
	w.attach(w.pod("shop", "web"))
	w.create(w.pod("shop", "api"))
	for i := range maxChanged + 1 {
		p := w.pod("jobs", fmt.Sprint("job-", i))
		w.view.sizes.change(nil, p, false)
		w.view.sizes.change(p, nil, false)
	}
	if n := len(w.view.sizes.changed); n > maxChanged {
		t.Errorf("%d changes are kept", n)
	}
	w.attach(w.pod("shop", "web"))
	if rate := w.nodes[0].Traffic.Rate; rate != 30 {
		t.Errorf("the running pods exchange %v, want 30 of the 60: one of two pods of api waits", rate)
	}
}
