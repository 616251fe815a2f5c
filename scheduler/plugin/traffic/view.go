package traffic

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/watched"
)

// maxRacks is the largest number of racks in a network, whose size is its square.
const maxRacks = 1024

// View attaches the traffic to the snapshots of one scheduler profile. It follows the nodes that change; the other
// pods are not looked at. It is not safe for concurrent use. A nil View attaches nothing.
type View struct {
	config  Config
	profile string
	log     klog.Logger
	matrix
	poller   *poller
	used     *measurement // that counts; nil for none
	rows     []row
	nodes    []*cluster.Node // of each row at the last decision
	changed  []int32         // rows that have another one now
	tooMany  bool            // racks, so that they do not count
	reported bool            // that there are too many
}

// row is a node and what is known of its pods.
type row struct {
	name, zone, rack string
	pods             []known
}

// known is a running pod.
type known struct {
	pod *v1.Pod
	of  *workload
}

// Start returns the view of a profile, and measures until ctx is done. Without a configuration, which must be valid, the view is nil.
func Start(ctx context.Context, c *Config, h fwk.Handle, log klog.Logger) (*View, error) {
	if c == nil {
		return nil, nil
	}
	v, err := newView(*c, h.ProfileName(), log, clock.RealClock{})
	if err != nil {
		return nil, fmt.Errorf("traffic: %w", err)
	}
	if _, err := h.SharedInformerFactory().Core().V1().Pods().Informer().AddEventHandler(watched.Handler(v.sizes.change)); err != nil {
		return nil, err
	}
	go v.poller.run(ctx, log)
	return v, nil
}

func newView(c Config, profile string, log klog.Logger, clk clock.WithTicker) (*View, error) {
	set.Register()
	s := &sizes{pods: map[key]int32{}, changed: map[key]bool{}}
	p, err := newPoller(c.Measured, s, clk)
	if err != nil {
		return nil, err
	}
	v := &View{config: c, profile: profile, log: log, matrix: matrix{sizes: s}, poller: p}
	v.Forget()
	return v, nil
}

// Forget makes the next Attach look at all pods again.
func (v *View) Forget() {
	if v == nil {
		return
	}
	v.rows, v.nodes, v.traffic, v.sums, v.touched = nil, nil, nil, nil, nil
	v.workloads, v.measured, v.used = map[key]*workload{}, map[pair]*flow{}, nil
}

// Attach sets the racks and the traffic of a snapshot's nodes, the peers of the pending pod and those beyond. infos are those that the
// nodes were converted from.
func (v *View) Attach(s *cluster.Snapshot, infos []fwk.NodeInfo, pending *v1.Pod) {
	if v == nil {
		return
	}
	if v.look(s.Nodes); v.traffic == nil || v.moved(s.Nodes) {
		v.begin(s.Nodes, infos)
	} else {
		for _, i := range v.changed {
			v.follow(i, infos[i].GetPods())
			v.stand(i, s.Nodes[i])
			s.Nodes[i].Traffic = v.traffic
		}
		v.adapt()
	}
	v.use(v.poller.latest())
	v.settle()
	w := v.acquire(pending)
	if s.Peers == nil {
		s.Peers = []cluster.Peer{} // known to be none
	}
	s.Peers = v.peers(w, s.Peers[:0])
	s.Beyond = v.beyond(w, s.Beyond[:0])
	v.release(w)
}

// use makes a measurement count; nil for none.
func (v *View) use(m *measurement) {
	switch {
	case m == v.used:
		return
	case m == nil:
		v.log.Info("The last measurement of traffic is too old; none counts", "profile", v.profile)
		v.measure(nil)
	default:
		v.measure(m.rates)
	}
	v.used = m
}

// stand makes a node that of a row, and sets its rack.
func (v *View) stand(i int32, n *cluster.Node) {
	v.nodes[i] = n
	if n.Rack = v.rackOf(n); v.tooMany {
		n.Rack = ""
	}
}

func (v *View) rackOf(n *cluster.Node) string { return n.Labels[v.config.RackLabel] }

// look finds the rows that have changed since the last decision.
func (v *View) look(nodes []*cluster.Node) {
	v.changed = v.changed[:0]
	for i, n := range nodes {
		if i >= len(v.nodes) || n != v.nodes[i] {
			v.changed = append(v.changed, int32(i))
		}
	}
}

// moved reports whether nodes have come, left or moved to another rack.
func (v *View) moved(nodes []*cluster.Node) bool {
	return len(nodes) != len(v.rows) || slices.ContainsFunc(v.changed, func(i int32) bool {
		n, r := nodes[i], &v.rows[i]
		return n.Name != r.name || n.Zone != r.zone || v.rackOf(n) != r.rack
	})
}

// begin begins with another list of nodes. The pods of nodes that were known keep their workloads.
func (v *View) begin(nodes []*cluster.Node, infos []fwk.NodeInfo) {
	before := make(map[string][]known, len(v.rows))
	for _, r := range v.rows {
		before[r.name] = r.pods
		for _, p := range r.pods {
			p.of.at, p.of.pods = p.of.at[:0], 0
		}
	}
	v.sums, v.rows, v.nodes = nil, make([]row, len(nodes)), make([]*cluster.Node, len(nodes))
	for i, n := range nodes {
		v.rows[i] = row{name: n.Name, zone: n.Zone, rack: v.rackOf(n), pods: before[n.Name]}
		delete(before, n.Name)
		for _, p := range v.rows[i].pods {
			v.move(p.of, int32(i), 1)
		}
		v.follow(int32(i), infos[i].GetPods())
	}
	for _, gone := range before {
		for _, p := range gone {
			v.release(p.of)
		}
	}
	v.countRacks()
	for i, n := range nodes {
		v.stand(int32(i), n)
	}
	v.start(cluster.NewNetwork(v.config.Network, nodes))
	for _, n := range nodes {
		n.Traffic = v.traffic
	}
}

// countRacks decides whether racks count, and says so once if they do not.
func (v *View) countRacks() {
	racks := map[[2]string]bool{}
	for _, r := range v.rows {
		racks[[2]string{r.zone, r.rack}] = true
	}
	if v.tooMany = len(racks) > maxRacks; v.tooMany && !v.reported {
		v.reported = true
		v.log.Info("Racks do not count for traffic: there are too many", "label", v.config.RackLabel, "racks", len(racks), "most", maxRacks)
	}
}

// follow brings the pods of a row up to date.
func (v *View) follow(at int32, pods []fwk.PodInfo) {
	old := v.rows[at].pods
	if slices.EqualFunc(old, pods, func(k known, p fwk.PodInfo) bool { return k.pod == p.GetPod() }) {
		return
	}
	now := make([]known, len(pods))
	stays := make([]bool, len(old))
	for i, p := range pods {
		pod := p.GetPod()
		now[i].pod = pod
		j := i
		if j >= len(old) || old[j].pod.UID != pod.UID {
			j = slices.IndexFunc(old, func(k known) bool { return k.pod.UID == pod.UID })
		}
		switch {
		case j < 0 || stays[j]:
		case old[j].pod == pod:
			now[i].of, stays[j] = old[j].of, true
		default: // the pod was updated
			w := v.acquire(pod)
			if w == old[j].of {
				now[i].of, stays[j] = w, true
			}
			v.release(w) // else acquired below
		}
	}
	for j, k := range old {
		if !stays[j] {
			v.move(k.of, at, -1)
			v.release(k.of)
		}
	}
	for i, k := range now {
		if k.of == nil {
			now[i].of = v.acquire(k.pod)
			v.move(now[i].of, at, 1)
		}
	}
	v.rows[at].pods = now
}

// each returns the rate of one pod of a flow with one other in units, for these sizes of the two workloads.
func each(f *flow, of, to int32) uint64 { return units(f.rate / float64(of) / float64(to)) }

// peers appends what one more pod of a workload exchanges with the running pods, by ascending row.
func (m *matrix) peers(w *workload, out []cluster.Peer) []cluster.Peer {
	size := func(x *workload) int32 {
		if x == w {
			return max(x.size, x.pods+1) // it may not have heard of the pod yet
		}
		return x.size
	}
	var known []*workload // whose pods count already
	for f, other := range w.partners {
		each := each(f, size(f.of), size(f.to))
		if each == 0 {
			continue
		}
		for _, a := range other.at {
			pods := a.pods
			if other.counts {
				pods = 0
			}
			m.sums.note(int(a.row), product(each, a.pods), pods)
		}
		other.counts = true
		known = append(known, other)
	}
	for _, other := range known {
		other.counts = false
	}
	return m.sums.peers(out)
}

// book adds to the sums, or takes away, what all that talk to a workload exchange with it.
func (m *matrix) book(w *workload, change func(a, b amount) amount) {
	if w.pods == 0 || len(w.from) == 0 {
		return
	}
	var all, self amount
	for of, f := range w.from {
		each := each(f, of.size, w.size)
		if each == 0 || of.pods == 0 {
			continue
		}
		for _, a := range of.at {
			m.sums.spread(a.row, product(each, a.pods), 0)
		}
		sent := product(each, of.pods)
		all = all.plus(sent)
		if of == w { // no pod talks to itself
			self = self.plus(sent)
		}
	}
	for _, b := range w.at {
		m.sums.spread(b.row, amount{}, b.pods)
	}
	m.sums.change(all, w.pods, self, change)
}

// touch takes what goes to a workload out of the sums, before something about it changes. settle adds it again.
func (m *matrix) touch(w *workload) {
	if m.sums == nil || w.touched {
		return
	}
	w.touched = true
	m.touched = append(m.touched, w)
	m.book(w, amount.minus)
}

// touchSize does so for all that depends on the size of a workload.
func (m *matrix) touchSize(w *workload) {
	m.touch(w)
	for to := range w.to {
		m.touch(to)
	}
}

// settle adds to the sums what was touched, and makes them the traffic.
func (m *matrix) settle() {
	if len(m.touched) == 0 {
		return
	}
	for _, w := range m.touched {
		m.book(w, amount.plus)
		w.touched = false
	}
	m.touched = m.touched[:0]
	m.sums.publish(m.traffic)
}

// start makes the sums anew, on a network.
func (m *matrix) start(n *cluster.Network) {
	_, _ = m.sizes.drain() // all of them are looked at
	m.traffic, m.sums, m.touched = cluster.NewTraffic(n), newSums(n), m.touched[:0]
	for _, w := range m.workloads {
		w.touched = false
		w.exist = m.sizes.of(w.key)
		w.size = w.sized()
	}
	for _, w := range m.workloads {
		m.book(w, amount.plus)
	}
	m.sums.publish(m.traffic)
}

// adapt divides flows anew whose workloads have got or lost pods.
func (m *matrix) adapt() {
	changed, all := m.sizes.drain()
	if all {
		changed = slices.Collect(maps.Keys(m.workloads))
	}
	for _, k := range changed {
		w := m.workloads[k]
		if w == nil {
			continue
		}
		if w.exist = m.sizes.of(k); w.sized() != w.size {
			m.touchSize(w)
			w.size = w.sized()
		}
	}
}

// notable is by how much a measured rate must change, as a share of what it was, to count anew.
const notable = 0.1

// measure makes the measured rates those given, in bytes a second of two whole workloads, and drops the others.
func (m *matrix) measure(rates map[pair]float64) {
	for p := range m.measured {
		if rates[p] == 0 {
			m.set(p, 0)
		}
	}
	for p, rate := range rates {
		if f := m.measured[p]; f == nil || math.Abs(rate-f.rate) > notable*f.rate {
			m.set(p, rate)
		}
	}
}

// set changes the measured rate of a pair; 0 for none.
func (m *matrix) set(p pair, rate float64) {
	a, b := m.workload(p.from), m.workload(p.to)
	m.touch(b)
	if rate == 0 {
		delete(m.measured, p)
		delete(a.to, b)
		delete(b.from, a)
	} else {
		f := &flow{of: a, to: b, rate: rate}
		m.measured[p], a.to[b], b.from[a] = f, f, f
	}
	m.tidy(a)
	m.tidy(b)
}

// key names a workload.
type key struct{ namespace, name string }

// keyOf returns the workload of a pod: the name of what kube.Workload returns. A pod without one is a workload of its own.
func keyOf(p *v1.Pod) key {
	_, name, _ := strings.Cut(kube.Workload(p), "/")
	return key{p.Namespace, cmp.Or(name, p.Name)}
}

// pair is two workloads of which one sends to the other.
type pair struct{ from, to key }

// place is a number of pods on the node of a row.
type place struct{ row, pods int32 }

// workload is all pods of one key.
type workload struct {
	key
	at      []place             // its running pods, by ascending row
	pods    int32               // of all places
	refs    int                 // number of pods that are known, and of decisions about one
	exist   int32               // its pods that the API server has, waiting or running
	size    int32               // the number of pods among which its flows are divided
	from    map[*workload]*flow // to this workload, by who sends
	to      map[*workload]*flow // from it
	touched bool                // what goes to it is not in the sums; see matrix.touch
	counts  bool                // see matrix.peers and matrix.beyond
	reached amount              // what each of its pods gets in matrix.beyond
}

// sized returns what the size of the workload should be.
func (w *workload) sized() int32 { return max(w.exist, w.pods, 1) }

// add adds a number of pods, which may be negative, on a node.
func (w *workload) add(row, pods int32) {
	w.pods += pods
	i, found := slices.BinarySearchFunc(w.at, row, func(p place, row int32) int { return cmp.Compare(p.row, row) })
	if !found {
		w.at = slices.Insert(w.at, i, place{row: row})
	}
	if w.at[i].pods += pods; w.at[i].pods == 0 {
		w.at = slices.Delete(w.at, i, i+1)
	}
}

// partners yields the flows of the workload, and the workload at the other end of each; both twice for a flow among its own pods.
func (w *workload) partners(yield func(*flow, *workload) bool) {
	for _, flows := range []map[*workload]*flow{w.to, w.from} {
		for other, f := range flows {
			if !yield(f, other) {
				return
			}
		}
	}
}

// flow is the traffic from all pods of a workload to all of another one, or among its own.
type flow struct {
	of, to *workload
	rate   float64 // bytes a second
}

// matrix holds who talks to whom, where the pods run, and what they exchange.
type matrix struct {
	sizes     *sizes
	workloads map[key]*workload
	measured  map[pair]*flow
	traffic   *cluster.Traffic // nil before the first decision
	sums      *sums            // that the traffic follows from; nil while they are not kept up to date
	touched   []*workload      // what goes to these is not in the sums

	// Of the last call of beyond and of reach.
	near, far []*workload // partners, and the workloads two steps away
	met       []*workload // those to which one partner leads
}

// acquire returns the workload of a pod. release gives it back.
func (m *matrix) acquire(p *v1.Pod) *workload {
	w := m.workload(keyOf(p))
	w.refs++
	return w
}

// workload returns the workload of a key.
func (m *matrix) workload(k key) *workload {
	w := m.workloads[k]
	if w == nil {
		w = &workload{key: k, exist: m.sizes.of(k), from: map[*workload]*flow{}, to: map[*workload]*flow{}}
		w.size = w.sized()
		m.workloads[k] = w
	}
	return w
}

// release undoes acquire.
func (m *matrix) release(w *workload) {
	w.refs--
	m.tidy(w)
}

// tidy forgets a workload that nobody holds and that has no flow.
func (m *matrix) tidy(w *workload) {
	if w.refs == 0 && len(w.from) == 0 && len(w.to) == 0 {
		delete(m.workloads, w.key)
	}
}

// move adds pods of a workload on a node; a negative number takes them away.
func (m *matrix) move(w *workload, row, pods int32) {
	m.touchSize(w)
	w.add(row, pods)
	w.size = w.sized()
}
