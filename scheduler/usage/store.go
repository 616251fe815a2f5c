package usage

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
)

const (
	maxWorkloads = 4096 // whose history is kept; those seen last
	maxNodes     = 20_000

	// absurd bounds a measured amount of CPU or memory, as a multiple of the node's capacity, and absurdRate a measured rate, in bytes a
	// second.
	absurd     = 4
	absurdRate = 1e12
)

// table is the state of a store after one measurement. It does not change.
type table struct {
	Nodes     map[string]*cluster.NodeUsage // by name, of nodes that were ever measured
	Workloads map[string]*cluster.PodUsage  // by key
	Report    Report
}

// degradation is the reason why a node is scored by requests.
type degradation string

// The reasons.
const (
	usageAbsent  degradation = "absent"  // the source has no value of the node's CPU or memory
	usageStale   degradation = "stale"   // the last one is older than MaxAge
	usageInvalid degradation = "invalid" // it is NaN, infinite, negative or absurdly large
	usageFailed  degradation = "failed"  // the source does not answer
)

// store keeps the history of nodes and workloads. Observe is called by one goroutine; table by any.
type store struct {
	config    Config
	nodes     map[string]*nodeHistory
	workloads map[string]*workloadHistory
	table     atomic.Pointer[table]
}

type nodeHistory struct {
	series   [cluster.Dimensions]*series // nil for a dimension that was never measured
	measured [cluster.Dimensions]float64 // when
	at       float64                     // time of the last measurement
	power    powerHistory
	lost     float64 // CPU that was wanted and not given, in thousandths of a core
	lostAt   float64 // time of that; 0: it was never measured
	usage    *cluster.NodeUsage
	degraded degradation // empty while it is measured
}

type workloadHistory struct {
	averages [cluster.Dimensions]average
	seen     float64
}

// newStore returns an empty store for a valid configuration.
func newStore(c Config) *store {
	s := &store{config: c, nodes: map[string]*nodeHistory{}, workloads: map[string]*workloadHistory{}}
	s.table.Store(&table{Report: Report{Source: c.Source, Named: []Degraded{}}})
	return s
}

// current returns the state after the last measurement. It never waits.
func (s *store) current() *table { return s.table.Load() }

// outcome is the effect of a measurement.
type outcome struct {
	Measured int                      // nodes with usage that is fresh
	Degraded map[degradation]int      // nodes without
	Changed  map[degradation][]string // nodes that got this reason now, or with the empty reason are measured again
	Rejected int                      // values that are NaN, infinite, negative or absurdly large
	Unknown  int                      // values of nodes and pods that the cluster does not have
	Power    powerOutcome
}

// Observe takes in a measurement of the given time, in seconds. failed reports an error of the source.
func (s *store) Observe(m measurement, failed bool, now float64, directory objects) outcome {
	out := outcome{
		Degraded: map[degradation]int{}, Changed: map[degradation][]string{},
		Power: powerOutcome{Nodes: map[powerState]int{}, Lost: map[powerState][]string{}},
	}
	known := directory.Nodes()
	invalid := map[string]bool{}
	fresh := s.observeNodes(&m, now, known, invalid, &out)
	s.observeThrottled(&m, now, known, fresh, &out)
	powerless := s.observeWatts(&m, now, known, &out)
	s.observePods(&m, now, directory, &out)
	present := map[string]bool{}
	for _, n := range known {
		if present[n.Name] || len(present) >= maxNodes {
			continue
		}
		present[n.Name] = true
		s.judgePower(n, now, whyNot(powerless[n.Name], failed), &out.Power)
		h := s.node(n.Name)
		if fresh[n.Name] {
			h.usage = s.usageOf(h, now)
		}
		s.judge(n.Name, now, whyNot(invalid[n.Name], failed), &out)
	}
	maps.DeleteFunc(s.nodes, func(name string, _ *nodeHistory) bool { return !present[name] })
	s.publish(s.reportOf(now, failed))
	return out
}

// whyNot returns the reason if the source gave no usable value of a node; empty if it simply gave none.
func whyNot(invalid, failed bool) degradation {
	switch {
	case invalid:
		return usageInvalid
	case failed:
		return usageFailed
	}
	return ""
}

func (s *store) node(name string) *nodeHistory {
	h := s.nodes[name]
	if h == nil {
		h = &nodeHistory{at: math.Inf(-1)}
		s.nodes[name] = h
	}
	return h
}

// observeNodes adds the samples of nodes to their histories and returns the nodes that have new ones.
func (s *store) observeNodes(
	m *measurement, now float64, known map[string]nodeInfo, invalid map[string]bool, out *outcome,
) map[string]bool {
	type slot struct {
		node string
		d    cluster.Dimension
	}
	ages, values := map[string]float64{}, map[slot]float64{}
	for _, a := range m.Ages {
		n, is := find(known, a.Names)
		if !is {
			continue
		}
		if before, has := ages[n.Name]; !has || a.Value < before {
			ages[n.Name] = a.Value
		}
	}
	for _, x := range m.Nodes {
		n, is := find(known, x.Names)
		if !is {
			out.Unknown++
			continue
		}
		age := ages[n.Name]
		if !possible(x.Value, x.Dimension, n.Allocatable) || !(age > -clockError.Seconds()) {
			out.Rejected++
			invalid[n.Name] = true
			continue
		}
		k := slot{n.Name, x.Dimension}
		values[k] = max(values[k], x.Value)
	}
	fresh := map[string]bool{}
	for k, v := range values {
		h, at := s.node(k.node), now-max(ages[k.node], 0)
		if at <= h.measured[k.d] && h.series[k.d] != nil || now-at > s.config.MaxAge.Seconds() {
			continue // the source has nothing new
		}
		if h.series[k.d] == nil {
			h.series[k.d] = &series{}
		}
		h.series[k.d].add(at, v)
		h.measured[k.d], h.at = at, max(h.at, at)
		fresh[k.node] = true
	}
	return fresh
}

// find returns the first node that one of the names belongs to.
func find(known map[string]nodeInfo, names []string) (n nodeInfo, is bool) {
	for _, name := range names {
		if n, is = known[name]; is {
			return n, true
		}
	}
	return n, false
}

// possible reports whether a node with the given capacity may use an amount.
func possible(value float64, d cluster.Dimension, offers cluster.Resources) bool {
	most := absurdRate
	switch d {
	case cluster.UsedCPU:
		most = absurd * float64(max(offers.MilliCPU, 1000))
	case cluster.UsedMemory:
		most = absurd * float64(max(offers.Memory, 1<<30))
	}
	return value >= 0 && value <= most // false for NaN
}

// observePods adds the average usage of each workload's pods to its history.
func (s *store) observePods(m *measurement, now float64, directory objects, out *outcome) {
	type slot struct {
		key string
		d   cluster.Dimension
	}
	type sum struct{ value, pods float64 }
	sums := map[slot]sum{}
	for _, p := range m.Pods {
		key, known := directory.Workload(p.Namespace, p.Pod)
		if !known {
			out.Unknown++
			continue
		}
		if !possible(p.Value, p.Dimension, cluster.Resources{MilliCPU: 1 << 20, Memory: 1 << 44}) {
			out.Rejected++
			continue
		}
		k := slot{key, p.Dimension}
		x := sums[k]
		sums[k] = sum{x.value + p.Value, x.pods + 1}
	}
	for k, x := range sums {
		w := s.workloads[k.key]
		if w == nil {
			w = &workloadHistory{}
			s.workloads[k.key] = w
		}
		w.seen = now
		w.averages[k.d].add(now, x.value/x.pods)
	}
	s.forgetWorkloads()
}

// forgetWorkloads drops the workloads that were seen longest ago, if there are too many.
func (s *store) forgetWorkloads() {
	excess := len(s.workloads) - maxWorkloads
	if excess <= 0 {
		return
	}
	keys := slices.SortedFunc(maps.Keys(s.workloads), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.workloads[a].seen, s.workloads[b].seen), cmp.Compare(a, b))
	})
	for _, k := range keys[:excess] {
		delete(s.workloads, k)
	}
}

// observeThrottled notes the CPU that pods of nodes with new samples wanted and did not get. If a source knows it for some nodes, the
// others have no limits and lose nothing.
func (s *store) observeThrottled(m *measurement, now float64, known map[string]nodeInfo, fresh map[string]bool, out *outcome) {
	if len(m.Throttled) == 0 {
		return
	}
	lost, faulty := map[string]float64{}, map[string]bool{}
	for _, x := range m.Throttled {
		switch n, is := find(known, x.Names); {
		case !is:
			out.Unknown++
		case !possible(x.Value, cluster.UsedCPU, n.Allocatable):
			out.Rejected++
			faulty[n.Name] = true
		default:
			lost[n.Name] = max(lost[n.Name], x.Value)
		}
	}
	for name := range fresh {
		if h := s.node(name); !faulty[name] {
			h.lost, h.lostAt = lost[name], now
		}
	}
}

// usageOf returns the usage of a node with new samples. A dimension whose last sample is too old is not known.
func (s *store) usageOf(h *nodeHistory, now float64) *cluster.NodeUsage {
	u := &cluster.NodeUsage{At: h.at, Power: h.power.model}
	network, disk := s.config.NetworkCapacity.AsApproximateFloat64(), s.config.DiskCapacity.AsApproximateFloat64()
	u.Capacity = [cluster.Dimensions]float64{
		cluster.NetworkIn: network, cluster.NetworkOut: network, cluster.DiskRead: disk, cluster.DiskWrite: disk,
	}
	if cpu := h.series[cluster.UsedCPU]; cpu != nil && h.lostAt > 0 && now-h.lostAt <= s.config.MaxAge.Seconds() {
		u.Wanted, u.Throttled = cpu.last()+h.lost, h.lost
	}
	for d, x := range h.series {
		if x != nil && now-h.measured[d] <= s.config.MaxAge.Seconds() {
			u.Known[d], u.Measured[d] = true, x.statistics(now)
		}
	}
	return u
}

// judge decides whether a node is measured, and notes a change. otherwise is the reason if the source gave no value that
// can be used; empty if it simply gave none.
func (s *store) judge(name string, now float64, otherwise degradation, out *outcome) {
	h, reason := s.node(name), degradation("")
	complete := h.usage != nil && h.usage.Known[cluster.UsedCPU] && h.usage.Known[cluster.UsedMemory]
	switch {
	case complete && now-h.at <= s.config.MaxAge.Seconds():
	case otherwise != "":
		reason = otherwise
	case !complete:
		reason = usageAbsent
	default:
		reason = usageStale
	}
	if reason == "" {
		out.Measured++
	} else {
		out.Degraded[reason]++
	}
	if reason != h.degraded {
		out.Changed[reason] = append(out.Changed[reason], name)
		h.degraded = reason
	}
}

// publish makes the table of the present state.
func (s *store) publish(r Report) {
	t := &table{
		Report: r, Nodes: make(map[string]*cluster.NodeUsage, len(s.nodes)), Workloads: make(map[string]*cluster.PodUsage, len(s.workloads)),
	}
	for name, h := range s.nodes {
		if h.usage != nil {
			t.Nodes[name] = h.usage
		}
	}
	for key, w := range s.workloads {
		p := &cluster.PodUsage{}
		for d := range w.averages {
			if a := &w.averages[d]; a.known {
				p.Known[d], p.Measured[d] = true, a.statistics()
			}
		}
		t.Workloads[key] = p
	}
	s.table.Store(t)
}

// workloadOf returns the key of a pod's workload, which its later pods share: its Deployment, StatefulSet, CronJob or other controller. It
// is false for a pod without one.
func workloadOf(pod *v1.Pod) (key string, belongs bool) {
	if metav1.GetControllerOfNoCopy(pod) == nil {
		return "", false
	}
	return pod.Namespace + "/" + kube.Workload(pod), true
}

// View attaches the usage of a store to the snapshots of one scheduler profile. It is not safe for concurrent
// use. The zero View and nil attach nothing.
type View struct {
	store *store
	clock clock.PassiveClock

	table *table
	rows  []viewRow
}

// newView returns a view of a store.
func newView(s *store, clk clock.PassiveClock) *View { return &View{store: s, clock: clk} }

// viewRow is the usage of one row of the snapshot.
type viewRow struct {
	node     *cluster.Node       // that the row had at the last decision
	measured *cluster.NodeUsage  // from the table
	power    *cluster.PowerModel // calibrated, at the last decision
	recent   []recentPod
}

// recentPod is a pod that was bound a short time ago.
type recentPod struct {
	uid      types.UID
	workload string
	cluster.RecentPod
}

// Attach sets the time and the usage of a snapshot's nodes and of the pending pod. The nodes were converted from infos. It never waits.
func (v *View) Attach(s *cluster.Snapshot, infos []fwk.NodeInfo, pending *v1.Pod, pod *cluster.Pod) {
	if v == nil || v.store == nil {
		return
	}
	s.Now = seconds(v.clock.Now())
	table := v.store.current()
	anew := table != v.table
	v.table = table
	if len(v.rows) != len(s.Nodes) {
		v.rows, anew = make([]viewRow, len(s.Nodes)), true
	}
	for i, n := range s.Nodes {
		r := &v.rows[i]
		if n != r.node {
			v.follow(r, n, infos[i], s.Now)
			n.Usage = v.usage(r, s.Now)
		} else if anew {
			r.measured = table.Nodes[n.Name]
			n.Usage = v.usage(r, s.Now)
		}
		if n.Usage != nil && s.Now-n.Usage.At > v.store.config.MaxAge.Seconds() {
			n.Usage = nil
		}
		r.followPower(n)
	}
	if key, belongs := workloadOf(pending); belongs {
		pod.Usage = table.Workloads[key]
	}
}

// follow makes r the row of a node that changed. The pods that the row knew keep their times.
func (v *View) follow(r *viewRow, n *cluster.Node, info fwk.NodeInfo, now float64) {
	if r.node == nil || r.node.Name != n.Name {
		r.recent = nil // another node, or the first decision
	}
	before := r.recent
	r.node, r.measured, r.recent = n, v.table.Nodes[n.Name], nil
	for _, p := range info.GetPods() {
		pod := p.GetPod()
		if i := slices.IndexFunc(before, func(b recentPod) bool { return b.uid == pod.UID }); i >= 0 {
			r.recent = append(r.recent, before[i])
		} else if at := boundAt(pod, now); at > now-cluster.UsageWindow {
			key, _ := workloadOf(pod)
			requests := p.CalculateResource().Resource
			r.recent = append(r.recent, recentPod{pod.UID, key, cluster.RecentPod{
				At: at, Requests: cluster.Resources{MilliCPU: requests.GetMilliCPU(), Memory: requests.GetMemory(), Pods: 1}, Limits: kube.Limits(pod),
			}})
		}
	}
	slices.SortStableFunc(r.recent, func(a, b recentPod) int { return cmp.Compare(a.At, b.At) })
}

// followPower gives a node a new version if its machine's calibrated model is another than at the last decision. Caches go
// by the version.
func (r *viewRow) followPower(n *cluster.Node) {
	var now *cluster.PowerModel
	if n.Usage != nil {
		now = n.Usage.Power
	}
	if now != r.power {
		r.power, n.Version = now, cluster.NextVersion()
	}
}

// boundAt returns when a pod was bound: its condition's time, or now if it has none yet. The condition's time comes from the API server,
// whose clock may be ahead.
func boundAt(pod *v1.Pod, now float64) float64 {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == v1.PodScheduled && c.Status == v1.ConditionTrue {
			return min(seconds(c.LastTransitionTime.Time), now)
		}
	}
	return now
}

// usage returns the usage of the row's node: the measured one, and the pods that the measurement lacks. It drops the pods that later
// measurements include.
func (v *View) usage(r *viewRow, now float64) *cluster.NodeUsage {
	r.recent = slices.DeleteFunc(r.recent, func(p recentPod) bool {
		return p.At <= now-cluster.UsageWindow && (r.measured == nil || p.At <= r.measured.At-cluster.UsageWindow)
	})
	if r.measured == nil || len(r.recent) == 0 {
		return r.measured
	}
	u := *r.measured
	u.Recent = make([]cluster.RecentPod, len(r.recent))
	for i, p := range r.recent {
		u.Recent[i] = p.RecentPod
		expected := cluster.Pod{Requests: p.Requests, Usage: v.table.Workloads[p.workload]}
		u.Recent[i].Expected = expected.ExpectedAll()
	}
	u.Expect(func(p *cluster.RecentPod) float64 { return cluster.MissingShare(u.At, p.At) })
	return &u
}

// listers implements objects by the scheduler's informers.
type listers struct {
	nodes corelisters.NodeLister
	pods  corelisters.PodLister
}

// directoryOf returns the directory of two listers.
func directoryOf(nodes corelisters.NodeLister, pods corelisters.PodLister) objects {
	return listers{nodes, pods}
}

// Nodes implements objects: nodes have their name, and their addresses unless two nodes share one.
func (l listers) Nodes() map[string]nodeInfo {
	nodes, err := l.nodes.List(labels.Everything())
	if err != nil {
		return nil // a lister of a cache does not fail
	}
	out, shared := make(map[string]nodeInfo, 2*len(nodes)), map[string]bool{}
	for _, n := range nodes {
		for _, a := range n.Status.Addresses {
			if before, taken := out[a.Address]; taken && before.Name != n.Name {
				shared[a.Address] = true
			}
			out[a.Address] = infoOf(n)
		}
	}
	for address := range shared {
		delete(out, address)
	}
	for _, n := range nodes {
		out[n.Name] = infoOf(n) // a name counts more than an address
	}
	return out
}

func infoOf(n *v1.Node) nodeInfo {
	model, _ := kube.Power(n) // the scheduler's mirror logs a faulty annotation
	return nodeInfo{Name: n.Name, Allocatable: kube.Node(n).Allocatable, Power: model}
}

// Workload implements objects.
func (l listers) Workload(namespace, pod string) (key string, known bool) {
	p, err := l.pods.Pods(namespace).Get(pod)
	if err != nil {
		return "", false
	}
	return workloadOf(p)
}
