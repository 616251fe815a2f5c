package traffic

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"gnnsched/internal/cluster"
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
	s := newSizes()
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
			p.of.clear()
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
