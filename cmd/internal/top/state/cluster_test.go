package state

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"pgregory.net/rapid"

	"gnnsched/internal/cluster"
	"gnnsched/internal/each"
	"gnnsched/internal/fatal"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func worker(name string) Node {
	return Node{
		Name: name, Status: "Ready", Ready: true, Worker: true, Created: noon.Add(-time.Hour),
		CPU: Usage{Allocatable: 64_000}, Memory: Usage{Allocatable: 256 << 30}, Pods: Usage{Allocatable: 110},
	}
}

func pod(name, node string, cpu, memory int64) Pod {
	return Pod{Namespace: "default", Name: name, Node: node, Scheduler: "gnn", CPU: cpu, Memory: memory, Created: noon.Add(-time.Minute)}
}

// figures returns "node cpu/memory/pods" for every node, and "scheduler bound/pending/rate" for every
// scheduler.
func figures(f Frame) []string {
	var out []string
	for _, n := range f.Nodes {
		out = append(out, fmt.Sprintf("%s %d/%d/%d/%d", n.Name, n.CPU.Requested, n.Memory.Requested, n.GPU.Requested, n.Pods.Requested))
	}
	for _, s := range f.Schedulers {
		out = append(out, fmt.Sprintf("%s %d/%d/%.1f", s.Name, s.Bound, s.Pending, s.Rate))
	}
	return out
}

func TestChanges(t *testing.T) {
	gpuPod := pod("g", "a", 100, 1)
	gpuPod.GPU = 2
	earlier, unknown := pod("p", "a", 100, 1), pod("p", "a", 100, 1)
	earlier.Scheduled = noon.Add(-2 * time.Second)
	future := earlier
	future.Scheduled = noon.Add(time.Hour)
	old := earlier
	old.Scheduled = noon.Add(-time.Minute)
	for _, c := range []struct {
		name string
		do   func(*Cluster)
		want []string
	}{
		{"empty", func(*Cluster) {}, nil},
		{"a pod on a node", func(c *Cluster) {
			c.SetNode(worker("a"))
			c.SetPod(gpuPod, noon)
		}, []string{"a 100/1/2/1", "gnn 1/0/0.0"}},
		{"bound while watched", func(c *Cluster) {
			c.SetNode(worker("a"))
			c.SetPod(pod("p", "", 100, 1), noon)
			c.SetPod(pod("p", "a", 100, 1), noon)
		}, []string{"a 100/1/0/1", "gnn 1/0/0.1"}},
		{"status change of a bound pod is no second binding", func(c *Cluster) {
			c.SetNode(worker("a"))
			c.SetPod(pod("p", "", 100, 1), noon)
			c.SetPod(pod("p", "a", 100, 1), noon)
			c.SetPod(pod("p", "a", 100, 1), noon)
		}, []string{"a 100/1/0/1", "gnn 1/0/0.1"}},
		{"bound before the first list, just now", func(c *Cluster) {
			c.ReplaceNodes([]Node{worker("a")})
			c.ReplacePods([]Pod{earlier}, noon)
		}, []string{"a 100/1/0/1", "gnn 1/0/0.1"}},
		{"bound before the first list, nobody knows when", func(c *Cluster) {
			c.ReplaceNodes([]Node{worker("a")})
			c.ReplacePods([]Pod{unknown}, noon)
		}, []string{"a 100/1/0/1", "gnn 1/0/0.0"}},
		{"bound before the first list, long ago", func(c *Cluster) {
			c.ReplaceNodes([]Node{worker("a")})
			c.ReplacePods([]Pod{old}, noon)
		}, []string{"a 100/1/0/1", "gnn 1/0/0.0"}},
		{"bound by a server whose clock is ahead", func(c *Cluster) {
			c.ReplaceNodes([]Node{worker("a")})
			c.ReplacePods([]Pod{future}, noon)
		}, []string{"a 100/1/0/1", "gnn 1/0/0.1"}},
		{"names in natural order", func(c *Cluster) {
			c.ReplaceNodes([]Node{worker("node-10"), worker("node-9"), worker("node-1")})
		}, []string{"node-1 0/0/0/0", "node-9 0/0/0/0", "node-10 0/0/0/0"}},
	} {
		cl := New()
		c.do(cl)
		if d := cmp.Diff(c.want, figures(cl.Frame(noon, All))); d != "" {
			t.Errorf("%s: -want +got\n%s", c.name, d)
		}
	}
}

func TestNothingIsKeptOfWhatIsGone(t *testing.T) {
	c := New()
	c.SetPod(pod("p", "ghost", 1, 1), noon)
	c.SetPod(pod("q", "", 1, 1), noon)
	c.SetPod(pod("p", "other", 1, 1), noon) // moved, as after a pod of the same name was made again
	c.deletePodNamed("default", "p")
	c.deletePodNamed("default", "q")
	c.Frame(noon.Add(time.Minute), All)
	if len(c.nodes)+len(c.pods)+len(c.pending)+len(c.schedulers) != 0 {
		t.Errorf("kept %d nodes, %d pods, %d pending, %d schedulers", len(c.nodes), len(c.pods), len(c.pending), len(c.schedulers))
	}
}

func TestPendingOldestFirst(t *testing.T) {
	c := New()
	for i, name := range []string{"p-10", "p-9", "first"} {
		p := pod(name, "", 1, 1)
		p.Reason, p.Message = "Unschedulable", "0/1 nodes are available"
		if i == 2 {
			p.Created = p.Created.Add(-time.Second)
		}
		c.SetPod(p, noon)
	}
	names := func(limit int) (out []string) {
		f := c.Frame(noon, limit)
		if f.PendingCount != 3 {
			t.Errorf("limit %d: count %d, want 3", limit, f.PendingCount)
		}
		for _, p := range f.Pending {
			if p.Reason != "Unschedulable" || p.Message != "0/1 nodes are available" || p.Scheduler != "gnn" {
				t.Errorf("lost why %s waits: %+v", p.Name, p)
			}
			out = append(out, p.Name)
		}
		return out
	}
	for limit, want := range map[int][]string{All: {"first", "p-9", "p-10"}, 2: {"first", "p-9"}, 0: nil, 9: {"first", "p-9", "p-10"}} {
		if got := names(limit); !slices.Equal(got, want) {
			t.Errorf("limit %d: %v, want %v", limit, got, want)
		}
	}
}

func TestSpread(t *testing.T) {
	c := New()
	closed := worker("control")
	closed.Worker = false
	c.ReplaceNodes([]Node{worker("a"), worker("b"), closed})
	c.SetPod(pod("p", "a", 32_000, 1), noon)
	c.SetPod(pod("q", "control", 64_000, 1), noon)
	want := Spread{Nodes: 2, Mean: 0.25, Std: 0.25, Min: 0, Max: 0.5}
	if got := c.Frame(noon, 0).CPUSpread; got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := New().Frame(noon, 0).CPUSpread; got != (Spread{}) {
		t.Errorf("of an empty cluster: %+v", got)
	}
}

const gpus = 3 // of the workers in TestSumsFollowEveryHistory

// gpuWorker is a worker with GPUs.
func gpuWorker(name string) Node {
	n := worker(name)
	n.GPU.Allocatable, n.Devices = gpus*cluster.DeviceMilli, make([]int64, gpus)
	return n
}

// Pods without device numbers count on idle devices first, and the rest on the room left on others. The sum is right even if the devices
// are overcommitted.
func TestDevices(t *testing.T) {
	gpu := func(name string, milli int64, on cluster.DeviceSet) Pod {
		p := pod(name, "a", 0, 0)
		p.GPU, p.Devices = milli, on
		return p
	}
	for name, c := range map[string]struct {
		pods []Pod
		want []int64
	}{
		"none":               {nil, []int64{0, 0, 0}},
		"shares of a device": {[]Pod{gpu("1", 470, cluster.Device(1)), gpu("2", 190, cluster.Device(1))}, []int64{0, 660, 0}},
		"two devices":        {[]Pod{gpu("1", 2000, cluster.Device(0)|cluster.Device(2))}, []int64{1000, 0, 1000}},
		"unnamed":            {[]Pod{gpu("1", 470, cluster.Device(0)), gpu("2", 1000, 0)}, []int64{470, 1000, 0}},
		"unnamed, no room":   {[]Pod{gpu("1", 470, cluster.Device(0)), gpu("2", 3000, 0)}, []int64{1000, 1000, 1000}},
		"a device not there": {[]Pod{gpu("1", 470, cluster.Device(9))}, []int64{0, 0, 0}},
		"twice the same":     {[]Pod{gpu("1", 1000, cluster.Device(0)), gpu("2", 1000, cluster.Device(0))}, []int64{2000, 0, 0}},
	} {
		cl := New()
		cl.SetNode(gpuWorker("a"))
		var sum int64
		for _, p := range c.pods {
			cl.SetPod(p, noon)
			sum += p.GPU
		}
		n := cl.Frame(noon, 0).Nodes[0]
		if !slices.Equal(n.Devices, c.want) || n.GPU != (Usage{sum, gpus * cluster.DeviceMilli}) {
			t.Errorf("%s: %v of %+v, want %v", name, n.Devices, n.GPU, c.want)
		}
	}
}

// The totals leave the control plane out, unless nothing else is there.
func TestTotalsAreThoseOfWorkers(t *testing.T) {
	c := New()
	control := worker("c")
	control.Worker = false
	c.SetNode(control)
	c.SetPod(pod("1", "c", 100, 1), noon)
	if got := c.Frame(noon, 0).Totals; got.Workers != 1 || got.CPU != (Usage{100, control.CPU.Allocatable}) {
		t.Errorf("a control plane alone: %+v", got)
	}
	c.SetNode(worker("w"))
	c.SetPod(pod("2", "w", 300, 1), noon)
	if got := c.Frame(noon, 0).Totals; got.Nodes != 2 || got.Workers != 1 || got.CPU != (Usage{300, control.CPU.Allocatable}) ||
		got.Pods.Requested != 1 {
		t.Errorf("beside a worker: %+v", got)
	}
}

// TestSumsFollowEveryHistory makes random changes and compares the running sums with a count from
// scratch, and the totals with the sums over the nodes.
func TestSumsFollowEveryHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, nodes, pods := New(), map[string]bool{}, map[string]Pod{}
		now := noon
		nodeName := rapid.SampledFrom([]string{"a", "b", "c", "d"})
		podName := rapid.SampledFrom([]string{"1", "2", "3", "4", "5", "6"})
		draw := func() Pod {
			p := pod(podName.Draw(t, "pod"), "", rapid.Int64Range(0, 4000).Draw(t, "cpu"), rapid.Int64Range(0, 1<<34).Draw(t, "memory"))
			p.Scheduler = rapid.SampledFrom([]string{"gnn", "dqn"}).Draw(t, "scheduler")
			p.Devices = rapid.SampledFrom([]cluster.DeviceSet{0, cluster.Device(1), cluster.Device(0) | cluster.Device(2)}).Draw(t, "devices")
			if p.GPU = cluster.DeviceMilli * int64(p.Devices.Len()); p.GPU == cluster.DeviceMilli {
				p.GPU = rapid.Int64Range(1, cluster.DeviceMilli).Draw(t, "share")
			}
			p.Done = rapid.IntRange(0, 9).Draw(t, "done") == 0
			if rapid.Bool().Draw(t, "bound") {
				p.Node = nodeName.Draw(t, "node")
			}
			return p
		}
		keep := func(p Pod) {
			if delete(pods, p.Name); !p.Done {
				pods[p.Name] = p
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"node":        func(t *rapid.T) { n := nodeName.Draw(t, "n"); nodes[n] = true; c.SetNode(gpuWorker(n)) },
			"delete node": func(t *rapid.T) { n := nodeName.Draw(t, "n"); delete(nodes, n); c.DeleteNode(n) },
			"pod":         func(*rapid.T) { p := draw(); keep(p); c.SetPod(p, now) },
			"delete pod":  func(t *rapid.T) { n := podName.Draw(t, "p"); delete(pods, n); c.deletePodNamed("default", n) },
			"time":        func(*rapid.T) { now = now.Add(700 * time.Millisecond) },
			"list pods": func(t *rapid.T) {
				clear(pods)
				var list []Pod
				for range rapid.IntRange(0, 4).Draw(t, "n") {
					p := draw()
					list = append(list, p)
					keep(p)
				}
				c.ReplacePods(list, now)
			},
			"list nodes": func(t *rapid.T) {
				clear(nodes)
				var list []Node
				for _, n := range rapid.SliceOfDistinct(nodeName, rapid.ID[string]).Draw(t, "nodes") {
					nodes[n] = true
					list = append(list, gpuWorker(n))
				}
				c.ReplaceNodes(list)
			},
			"": func(t *rapid.T) { checkAgainstCount(t, c.Frame(now, All), nodes, pods) },
		})
	})
}

func checkAgainstCount(t *rapid.T, f Frame, nodes map[string]bool, pods map[string]Pod) {
	if len(f.Nodes) != len(nodes) {
		t.Fatalf("%d nodes, want %d", len(f.Nodes), len(nodes))
	}
	var total Totals
	for _, n := range f.Nodes {
		var want [4]int64
		devices := make([]int64, gpus)
		for _, p := range pods {
			if p.Node == n.Name {
				want = [4]int64{want[0] + p.CPU, want[1] + p.Memory, want[2] + p.GPU, want[3] + 1}
				for i := range devices {
					if p.Devices.Has(i) {
						devices[i] += p.GPU / int64(p.Devices.Len())
					}
				}
			}
		}
		if got := [4]int64{n.CPU.Requested, n.Memory.Requested, n.GPU.Requested, n.Pods.Requested}; !nodes[n.Name] || got != want {
			t.Fatalf("node %s: %v, want %v", n.Name, got, want)
		}
		if !slices.Equal(n.Devices, devices) {
			t.Fatalf("node %s: devices %v, want %v", n.Name, n.Devices, devices)
		}
		total.Nodes++
		total.Ready++
		total.Workers++
		total.CPU, total.Memory = total.CPU.plus(n.CPU), total.Memory.plus(n.Memory)
		total.GPU, total.Pods = total.GPU.plus(n.GPU), total.Pods.plus(n.Pods)
	}
	if total != f.Totals {
		t.Fatalf("totals %+v, want the sum of the nodes %+v", f.Totals, total)
	}
	bound, pending := map[string]int{}, map[string]int{}
	for _, p := range pods {
		if p.Node == "" {
			pending[p.Scheduler]++
		} else {
			bound[p.Scheduler]++
		}
	}
	if f.PendingCount != pending["gnn"]+pending["dqn"] || len(f.Pending) != f.PendingCount {
		t.Fatalf("%d pending, %d listed, want %v", f.PendingCount, len(f.Pending), pending)
	}
	for _, s := range f.Schedulers {
		if s.Bound != bound[s.Name] || s.Pending != pending[s.Name] {
			t.Fatalf("scheduler %+v, want %d bound and %d pending", s, bound[s.Name], pending[s.Name])
		}
		delete(bound, s.Name)
		delete(pending, s.Name)
	}
	if len(bound)+len(pending) > 0 {
		t.Fatalf("schedulers missing: %v %v", bound, pending)
	}
}

// Lists show the pods of the chosen namespace only; sums have all.
func TestNamespace(t *testing.T) {
	c := New()
	c.namespace = "shop"
	c.SetNode(Node{Name: "n", Worker: true, CPU: Usage{Allocatable: 4000}})
	for _, p := range []Pod{
		{Namespace: "shop", Name: "a", Node: "n", CPU: 1000}, {Namespace: "pay", Name: "b", Node: "n", CPU: 1000},
		{Namespace: "shop", Name: "c"}, {Namespace: "pay", Name: "d"},
	} {
		c.SetPod(p, time.Unix(1, 0))
	}
	f := c.Frame(time.Unix(1, 0), All)
	if len(c.Pods()) != 2 || len(f.Pending) != 1 || f.PendingCount != 1 || f.Totals.CPU.Requested != 2000 {
		t.Errorf("%v, %+v", c.Pods(), f)
	}
}

// metricsServer answers the requests of ktop for two nodes; metrics may fail.
func metricsServer(t *testing.T, metrics func(http.ResponseWriter, *http.Request)) Config {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == "/apis/metrics.k8s.io/v1beta1/nodes":
			metrics(w, r)
		case r.URL.Query().Get("sendInitialEvents") != "": // the client then lists
			w.WriteHeader(http.StatusBadRequest)
		case r.URL.Query().Get("watch") != "": // nothing changes
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		case r.URL.Path == "/api/v1/nodes":
			fmt.Fprint(w, `{"kind": "NodeList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]}`)
		default:
			fmt.Fprint(w, `{"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": []}`)
		}
	}))
	t.Cleanup(s.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: s.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	fatal.If(t, err)
	t.Cleanup(client.RESTClient().(*rest.RESTClient).Client.CloseIdleConnections)
	return Config{Client: client, Selector: "zone=a"}
}

func TestUsed(t *testing.T) {
	var selector atomic.Value
	cfg := metricsServer(t, func(w http.ResponseWriter, r *http.Request) {
		selector.Store(r.URL.Query().Get("labelSelector"))
		fmt.Fprint(w, `{"items": [{"metadata": {"name": "a"}, "usage": {"cpu": "1234567890n", "memory": "2Gi"}}, {"metadata": {"name": "gone"}, "usage": {"cpu": "1"}}]}`)
	})
	f := fatal.Value(List(t.Context(), cfg))(t)
	want := Measured{CPU: 1235, Memory: 2 << 30}
	if got := f.Nodes[0].Used; got == nil || *got != want {
		t.Errorf("a uses %+v, want %+v", got, want)
	}
	if f.Nodes[1].Used != nil || f.Totals.Used == nil || *f.Totals.Used != want || f.Totals.Measured != 1 {
		t.Errorf("b uses %+v; all use %+v, %d measured", f.Nodes[1].Used, f.Totals.Used, f.Totals.Measured)
	}
	if got := selector.Load(); got != "zone=a" {
		t.Errorf("asked for the nodes %q", got)
	}
}

// TestNotMeasured: metrics that fail in any way leave the rest as it is.
func TestNotMeasured(t *testing.T) {
	for name, answer := range map[string]func(http.ResponseWriter, *http.Request){
		"no API":   http.NotFound,
		"down":     func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		"nonsense": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"items": 3}`) },
	} {
		f, err := List(t.Context(), metricsServer(t, answer))
		if err != nil || len(f.Nodes) != 2 || f.Nodes[0].Used != nil || f.Totals.Used != nil {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
	}
}

// TestUsedIsFollowed starts a source, whose first frames may come before the answer.
func TestUsedIsFollowed(t *testing.T) {
	cfg := metricsServer(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"items": [{"metadata": {"name": "b"}, "usage": {"cpu": "-5", "memory": "1Ki"}}]}`)
	})
	s := fatal.Value(Start(t.Context(), cfg))(t)
	defer s.Stop()
	eventually(t, s, "b is measured", func(f Frame) bool {
		return len(f.Nodes) == 2 && f.Nodes[1].Used != nil && *f.Nodes[1].Used == Measured{Memory: 1 << 10}
	})
}

var nodes = []Node{
	{Name: "node-2", Status: "Ready", Roles: []string{"agent"}, Zone: "Zone-A", Version: "v1.36.3", Ready: true, Worker: true,
		Created: time.Unix(100, 0),
		CPU:     Usage{Requested: 32_000, Allocatable: 64_000}, Memory: Usage{Requested: 16 << 30, Allocatable: 256 << 30},
		Pods: Usage{Requested: 31, Allocatable: 110}},
	{Name: "node-10", Status: "NotReady", Roles: []string{"agent"}, Zone: "zone-b", Version: "v1.35.0", Worker: true,
		Created: time.Unix(200, 0),
		CPU:     Usage{Requested: 60_000, Allocatable: 64_000}, Memory: Usage{Requested: 1 << 30, Allocatable: 256 << 30},
		GPU: Usage{Requested: 4000, Allocatable: 8000}, Pods: Usage{Requested: 5, Allocatable: 110}},
	{Name: "control", Status: "Ready", Roles: []string{"control-plane"}, Version: "v1.36.3", Ready: true, Created: time.Unix(50, 0),
		CPU: Usage{Allocatable: 64_000}, Memory: Usage{Allocatable: 256 << 30}, Pods: Usage{Allocatable: 110}},
	{Name: "bare", Status: "Ready,SchedulingDisabled", Ready: true, Cordoned: true, Worker: true},
}

func names(ns []Node) string {
	out := each.Map(ns, func(n Node) string { return n.Name })
	return strings.Join(out, " ")
}

func TestSort(t *testing.T) {
	for expr, want := range map[string]string{
		"":            "bare control node-2 node-10",
		"name":        "bare control node-2 node-10",
		"name:desc":   "node-10 node-2 control bare",
		"cpu":         "node-10 node-2 bare control",
		"CPU:asc":     "bare control node-2 node-10",
		"mem":         "node-2 node-10 bare control",
		"pods":        "node-2 node-10 bare control",
		"gpu":         "node-10 bare control node-2",
		"status":      "node-10 bare control node-2",
		"roles":       "bare node-2 node-10 control",
		"age":         "node-10 node-2 control bare", // the youngest first
		" age:desc ":  "bare control node-2 node-10",
		"version":     "bare node-10 control node-2",
		"memory:desc": "node-2 node-10 bare control",
	} {
		s, err := ParseSort(expr)
		if err != nil {
			t.Errorf("%q: %v", expr, err)
			continue
		}
		got := slices.Clone(nodes)
		if s.Apply(got); names(got) != want {
			t.Errorf("%q: %s, want %s", expr, names(got), want)
		}
	}
	for _, expr := range []string{"size", "cpu:up", ":", ":desc", "cpu:", "cpu desc", "name:asc:desc"} {
		if s, err := ParseSort(expr); err == nil {
			t.Errorf("%q: read as %+v, want an error", expr, s)
		}
	}
}

// The filter is a text that a row must contain.
func TestSelect(t *testing.T) {
	for text, want := range map[string]string{
		"": "node-2 node-10 control bare", " node ": "node-2 node-10", "NODE-1": "node-10", "zone-a": "node-2", "v1.36": "node-2 control",
		"worker": "bare", "control-plane": "control", "cpu>50%": "",
	} {
		if got := names(Select(nodes, text, (*Node).Texts)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	pods := []PendingPod{{Namespace: "default", Name: "a", Scheduler: "gnn", Message: "2 Insufficient cpu."}, {Namespace: "other", Name: "b"}}
	for text, want := range map[string]string{"GNN": "a", "other/b": "b", "insufficient": "a"} {
		if got := Select(pods, text, (*PendingPod).Texts); len(got) != 1 || got[0].Name != want {
			t.Errorf("%q: %v, want %s", text, got, want)
		}
	}
}

func TestWhy(t *testing.T) {
	for _, c := range []struct{ reason, message, want string }{
		{"", "", "no scheduler has tried it yet"},
		{"Unschedulable", "", "Unschedulable"},
		{"Unschedulable", "0/5 nodes are available: 1 node(s) had untolerated taint {a: b}, 4 Insufficient cpu. no new claims to deallocate, " +
			"preemption: 0/5 nodes are available: 5 No preemption victims found.", "4 Insufficient cpu, 1 had untolerated taint {a: b}"},
		{"Unschedulable", "0/2 nodes are available: pod has unbound claims, 2 Insufficient cpu.", "pod has unbound claims, 2 Insufficient cpu"},
		{"Unschedulable", "no nodes available to schedule pods", "no nodes available to schedule pods"},
		{"SchedulingGated", "blocked", "SchedulingGated: blocked"},
	} {
		if got := (&PendingPod{Reason: c.reason, Message: c.message}).Why(); got != c.want {
			t.Errorf("%q, %q: %q, want %q", c.reason, c.message, got, c.want)
		}
	}
}

func TestWhySaysWhatAPodNeeds(t *testing.T) {
	p := &PendingPod{Reason: "Unschedulable", Message: "0/2 nodes are available: 2 Insufficient cpu.", Needs: "disk=ssd"}
	if got := p.Why(); got != "needs disk=ssd: 2 Insufficient cpu" {
		t.Errorf("%q", got)
	}
	pod := &v1.Pod{Spec: v1.PodSpec{NodeSelector: map[string]string{"disk": "s\x1b[2Jsd"}}}
	if got := podOf(pod).Needs; got == "" || strings.Contains(got, "\x1b") {
		t.Errorf("%q", got)
	}
	pod.Spec.NodeName = "n"
	if got := podOf(pod).Needs; got != "" {
		t.Errorf("a pod with a node needs %q", got)
	}
}

// Each reason counts the pods that wait for it, once a pod, in kube-scheduler's words.
func TestCausesOf(t *testing.T) {
	full := "0/5 nodes are available: 1 node(s) had untolerated taint {a: b}, 4 Insufficient cpu. preemption: 0/5 nodes are available: " +
		"5 No preemption victims found."
	got := CausesOf([]PendingPod{
		{Reason: "Unschedulable", Message: full}, {Reason: "Unschedulable", Message: full},
		{Reason: "Unschedulable", Message: "0/5 nodes are available: 3 Insufficient cpu, 2 Insufficient cpu."},
		{Reason: "SchedulingGated", Message: "blocked"}, {}, {},
	})
	want := []Cause{
		{"Insufficient cpu", 3, 4}, {"node(s) had untolerated taint {a: b}", 2, 1}, {"no scheduler has tried it yet", 2, 0},
		{"SchedulingGated: blocked", 1, 0},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
}
