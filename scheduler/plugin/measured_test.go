package plugin

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
	"gnnsched/internal/promapi"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/plugin/traffic"
	"gnnsched/scheduler/policy/preference"
	"gnnsched/scheduler/usage"
)

// idleAndHot returns a Prometheus that measures two nodes of 4 CPUs, one of which uses little and the other much.
func idleAndHot(t *testing.T) (source *usage.Config, idle, hot *v1.Node) {
	t.Helper()
	prometheus := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := ""
		switch q := r.FormValue("query"); {
		case q == "cpu":
			answer = `{"metric":{"node":"idle"},"value":[1,"0.1"]},{"metric":{"node":"hot"},"value":[1,"2.4"]}`
		case strings.Contains(q, "throttled"):
			answer = `{"metric":{"node":"hot"},"value":[1,"0.5"]}`
		case strings.Contains(q, "(node_memory"):
			answer = `{"metric":{"node":"idle"},"value":[1,"1e9"]},{"metric":{"node":"hot"},"value":[1,"1e9"]}`
		}
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[%s]}}`, answer)
	}))
	t.Cleanup(prometheus.Close)
	node := func(name string) *v1.Node {
		return st.MakeNode().Name(name).Capacity(map[v1.ResourceName]string{"cpu": "4", "memory": "8Gi", "pods": "110"}).Obj()
	}
	return &usage.Config{Source: usage.PrometheusSource, Server: promapi.Server{Address: prometheus.URL}, Queries: map[string]string{"node_cpu": "cpu"}},
		node("idle"), node("hot")
}

// A profile with a source scores by what it measures. Requests say the opposite.
func TestProfileScoresByUsage(t *testing.T) {
	source, idle, hot := idleAndHot(t)
	big := st.MakePod().Name("big").UID("big").Node("idle").Req(map[v1.ResourceName]string{"cpu": "3"}).Obj()
	args := Args{Policy: "koordinator-load-aware", Preferences: preference.Off, Usage: source}
	b := newBed(t, "by-usage", args, idle, hot)
	b.sched.Cache.AddNode(b.log, idle)
	b.sched.Cache.AddNode(b.log, hot)
	big.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue}} // long ago
	fatal.If(t, b.sched.Cache.AddPod(b.log, big))
	pod := st.MakePod().Name("waiting").UID("waiting").SchedulerName("by-usage").Req(map[v1.ResourceName]string{"cpu": "500m"}).Obj()
	chosen := ""
	for range 1000 { // the first measurement is on its way
		got := fatal.Value(b.decide("by-usage", pod))(t)
		if chosen = got.SuggestedHost; chosen == "idle" {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if chosen != "idle" {
		t.Errorf("the pod goes to %q, want the node that uses little", chosen)
	}
}

func TestArgsOfUsage(t *testing.T) {
	_, err := DecodeArgs(&runtime.Unknown{Raw: []byte(`{"policy": "peaks", "usage": {"source": "prometheus", "address": "prometheus:9090"}}`)}, "x")
	if err == nil || !strings.Contains(err.Error(), "in profile x: usage: address must be a URL") {
		t.Errorf("error %v", err)
	}
	a, err := DecodeArgs(&runtime.Unknown{Raw: []byte(`{"policy": "peaks", "usage": {"source": "metrics.k8s.io"}}`)}, "x")
	if err != nil || a.Usage.MaxAge.Duration != 3*time.Minute {
		t.Errorf("arguments %+v, error %v", a.Usage, err)
	}
}

// network is one of racks in zones, with little bandwidth.
var network = cluster.Links{
	Node: cluster.Hop{Latency: 0.1, Bandwidth: 60}, Rack: cluster.Hop{Latency: 0.3, Bandwidth: 60},
	Zone:    cluster.Hop{Latency: 1, Bandwidth: 70},
	Between: []cluster.Between{{Zones: [2]string{"a", "c"}, Latency: 2}},
}

// racked returns nodes of 4 CPUs in three zones with two racks each, of which the last has no label.
func racked(count int) (nodes []*v1.Node) {
	for i := range count {
		labels := map[string]string{v1.LabelTopologyZone: string("abc"[i%3])}
		if i/3%2 == 0 {
			labels["example.org/rack"] = "one"
		}
		n := st.MakeNode().Name(fmt.Sprint("n", i)).Capacity(map[v1.ResourceName]string{"cpu": "4", "memory": "8Gi", "pods": "110"}).Obj()
		n.Labels = labels
		nodes = append(nodes, n)
	}
	return nodes
}

// talker returns a pod of a StatefulSet.
func talker(profile, owner string, i int) *v1.Pod {
	p := st.MakePod().Namespace("shop").Name(fmt.Sprint(owner, "-", i)).UID(fmt.Sprint(owner, "-",
		i)).SchedulerName(profile).Req(map[v1.ResourceName]string{"cpu": "1"}).Obj()
	yes := true
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "StatefulSet", Name: owner, UID: types.UID(owner), Controller: &yes}}
	return p
}

// measuring returns a Prometheus that has measured bytes a second between workloads of the namespace shop.
func measuring(t *testing.T, rates map[[2]string]float64) traffic.Measured {
	var samples []string
	for names, rate := range rates {
		samples = append(samples, fmt.Sprintf(`{"metric":{"source_workload":%q,"source_workload_namespace":"shop",
			"destination_workload":%q,"destination_workload_namespace":"shop"},"value":[1,"%g"]}`, names[0], names[1], rate))
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[%s]}}`, strings.Join(samples, ","))
	}))
	t.Cleanup(server.Close)
	return traffic.Measured{Server: promapi.Server{Address: server.URL}}
}

// recounted returns the nodes as the simulator would see them with these pods on them, where each web pod exchanges 60
// bytes a second with all api pods, and each api pod 40 with all db pods. All pods exist.
func recounted(nodes []*v1.Node, pods []*v1.Pod) (out []*cluster.Node) {
	for _, n := range nodes {
		out = append(out, &cluster.Node{Name: n.Name, Zone: n.Labels[v1.LabelTopologyZone], Rack: n.Labels["example.org/rack"]})
	}
	t := cluster.NewTraffic(cluster.NewNetwork(network, out))
	on := func(p *v1.Pod) int32 {
		return int32(slices.IndexFunc(nodes, func(n *v1.Node) bool { return n.Name == p.Spec.NodeName }))
	}
	rates := map[[2]string]float64{{"web", "api"}: 60. / 6, {"api", "db"}: 40. / 2}
	for _, p := range pods {
		for _, q := range pods {
			if r := rates[[2]string{p.OwnerReferences[0].Name, q.OwnerReferences[0].Name}]; r > 0 {
				t.Place(on(p), []cluster.Peer{{Row: on(q), Pods: 1, Rate: r}})
			}
		}
	}
	for _, n := range out {
		n.Traffic = t
	}
	return out
}

// A profile greedy for traffic puts every pod where the objective of the simulator is lowest, from a Prometheus and labels of nodes.
func TestGreedyForTrafficIsTheSimulators(t *testing.T) {
	const profile, name = "by-traffic", "traffic+overload"
	term := fatal.Value(objective.Parse(strings.ReplaceAll(name, "+", ",")))(t)
	waiting, objects := []*v1.Pod{}, []runtime.Object{}
	for i := range 6 {
		waiting = append(waiting, talker(profile, "api", i), talker(profile, "web", i))
		if i < 2 {
			waiting = append(waiting, talker(profile, "db", i))
		}
	}
	for _, p := range waiting {
		objects = append(objects, p)
	}
	nodes := racked(7)
	args := Args{Policy: "greedy:" + name, Preferences: preference.Off,
		Traffic: &traffic.Config{Network: network, RackLabel: "example.org/rack",
			Measured: measuring(t, map[[2]string]float64{{"web", "api"}: 6 * 60, {"api", "db"}: 6 * 40})}}
	b := newBed(t, profile, args, objects...)
	for _, n := range nodes {
		b.sched.Cache.AddNode(b.log, n)
	}
	var placed []*v1.Pod
	matters := 0 // decisions in which nodes differ
	for _, p := range waiting {
		fatal.Value(b.decide(profile, p))(t)
		b.countedAll(t, placed, p, profile)
		costs := map[string]float64{}
		for _, s := range b.totals(t, profile, p) {
			on := p.DeepCopy()
			on.Spec.NodeName = s.Name
			costs[s.Name] = term.Cost(recounted(nodes, append(slices.Clone(placed), on)))
		}
		low, high := costs[b.totals(t, profile, p)[0].Name], 0.
		for _, c := range costs {
			low, high = min(low, c), max(high, c)
		}
		if high > low+1e-6 {
			matters++
		}
		on := p.DeepCopy()
		for _, s := range b.totals(t, profile, p) {
			if best := costs[s.Name] < low+1e-6; best != (s.TotalScore == 100) {
				t.Errorf("%s on %s: cost %v, score %d; the lowest cost is %v", p.Name, s.Name, costs[s.Name], s.TotalScore, low)
			}
			if s.TotalScore == 100 {
				on.Spec.NodeName = s.Name
			}
		}
		placed = append(placed, on)
		fatal.If(t, b.sched.Cache.AddPod(b.log, on))
	}
	if matters < 10 {
		t.Errorf("the node matters in %d of %d decisions", matters, len(waiting))
	}
}

// countedAll waits until the profile has measured and heard of all pods, on which the rates depend.
func (b *bed) countedAll(t *testing.T, placed []*v1.Pod, pending *v1.Pod, profile string) {
	t.Helper()
	on := pending.DeepCopy()
	on.Spec.NodeName = "n0"
	nodes := racked(len(b.plugin.mirror.snapshot.Nodes))
	want := []float64{cluster.TrafficOf(recounted(nodes, placed)).Rate, cluster.TrafficOf(recounted(nodes, append(slices.Clone(placed), on))).Rate}
	for {
		s := b.plugin.mirror.snapshot
		has := cluster.TrafficOf(s.Nodes).Rate
		with := has
		for _, p := range s.Peers {
			with += p.Rate
		}
		if cmp.Equal(want, []float64{has, with}) {
			return
		}
		fatal.Value(b.decide(profile, pending))(t)
	}
}

func TestArgsOfTraffic(t *testing.T) {
	for raw, want := range map[string]string{
		`{"policy": "greedy:traffic", "traffic": {"network": {"zone": {"latency": -1}}}}`:                                                  "in profile x: traffic: network: zone.latency: -1 is not 0 to",
		`{"policy": "greedy:traffic", "traffic": {"net": {}}}`:                                                                             `unknown field "net"`,
		`{"policy": "greedy:traffic", "traffic": {"network": {"zone": {"latency": 1}}, "rackLabel": "a b"}}`:                               `rackLabel "a b" is not the key`,
		`{"policy": "greedy:traffic", "traffic": {"network": {"zone": {"latency": 1, "bandwidth": 1e99}}}}`:                                "zone.bandwidth: 1e+99 is not",
		`{"policy": "greedy:traffic", "traffic": {"network": {"zone": {"latency": 1}, "between": [{"zones": ["a", "a"], "latency": 1}]}}}`: `"a" is named twice`,
	} {
		if _, err := DecodeArgs(&runtime.Unknown{Raw: []byte(raw)}, "x"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", raw, err, want)
		}
	}
	a, err := DecodeArgs(&runtime.Unknown{Raw: []byte(`{"policy": "greedy:traffic", "traffic": {"network": {"zone": {"latency": 1}},
		"measured": {"address": "https://p"}}}`)}, "x")
	if err != nil || a.Traffic.RackLabel != "topology.kubernetes.io/rack" {
		t.Errorf("arguments %+v, error %v", a.Traffic, err)
	}
}
