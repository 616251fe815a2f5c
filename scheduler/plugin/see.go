package plugin

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/scheduler/plugin/canary"
	"gnnsched/scheduler/plugin/dra"
	"gnnsched/scheduler/plugin/traffic"
	"gnnsched/scheduler/usage"
)

// mirror keeps a copy of the scheduler's snapshot as plain values. It converts a node again only
// when the node's state changed, and the copy then has a new cluster.Version.
type mirror struct {
	reserved *reservations // knows the devices of the pods
	snapshot cluster.Snapshot
	infos    []fwk.NodeInfo // that each row was converted from
	states   []nodeState    // in which each row was converted
	tried    bool           // whether rows may show pods of a group that was only tried
	view     *dra.View      // of what claims use, for the next sync
	seen     *dra.View      // that of the last one

	power map[string]nodePower // what machines draw, by the nodes' names

	// row is the row of each node by name. It is replaced, never changed: Score reads the
	// one of its own cycle.
	row map[string]int32
}

// scoring is one decision on its way through the stages.
type scoring struct {
	state    fwk.CycleState
	pod      *v1.Pod
	feasible []fwk.NodeInfo
	nodes    []fwk.NodeInfo // the feasible ones that may be chosen
	raw      []float32      // a score for each of nodes
	spread   []int64        // of each feasible node, by default spreading; nil if all are equal or it does not count
	total    []float32      // raw with the default spreading weighed in, by which nodes are ranked
	left     []int32        // of each of nodes, its index in feasible; nil if all are left
	priority []int64        // of each feasible node, by preferences; nil if all are left
	decider  decider
	view     view         // what the decider sees
	onlyAsks bool         // an advice request; not counted as an arrival
	reason   string       // why upstream's scoring decided instead; empty if it did not
	upstream bool         // the scores are upstream's
	group    canary.Group // of the pod; empty without a canary
}

// clusterView keeps what decisions see of the cluster. Not safe for concurrent use.
type clusterView struct {
	handle   fwk.Handle
	ledger   *dra.Ledger
	demand   *demandTracker
	arrivals *arrivals // nil unless the decider needs them
	mirror   mirror
	rows     []int32 // of the current decision's feasible nodes, in the mirror
	usage    *usage.View
	traffic  *traffic.View
}

// see makes the view of a decision: the pod and all nodes as plain values, with their measured usage and traffic.
func (p *clusterView) see(ctx context.Context, s *scoring) error {
	pod := convertPod(s.pod)
	s.view = view{pod: &pod, manifest: s.pod, began: time.Now(), claims: dra.Asked(s.state)}
	if err := p.look(ctx, &s.view, s.state.IsPodGroupSchedulingCycle()); err != nil {
		return err
	}
	p.rows = p.mirror.rows(s.feasible, p.rows[:0])
	p.attach(s.pod, &pod)
	s.view.took = time.Since(s.view.began)
	return nil
}

// look brings the mirror up to date for the claims of a view. trying says that kube-scheduler may be trying a group of pods.
func (p *clusterView) look(ctx context.Context, v *view, trying bool) error {
	infos, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return fmt.Errorf("read the snapshot: %w", err)
	}
	if p.mirror.view = v.claims.View(); v.claims == nil { // otherwise what the cycle's PreFilter saw
		if p.mirror.view, err = p.ledger.View(ctx); err != nil {
			return err
		}
	}
	p.mirror.sync(infos, trying)
	v.snapshot = &p.mirror.snapshot
	v.snapshot.Demand = p.arrivals.now()
	return nil
}

// count adds the typical pods to a view if a decider needs them. arrives says that the pod counts for them.
func (p *clusterView) count(v *view, by decider, arrives bool) {
	if by.typicalPods() == noPods {
		return
	}
	p.demand.view = p.mirror.view
	p.demand.countRunning(p.mirror.infos)
	if arrives {
		p.demand.countPending(v.pod)
	}
	v.typical = p.demand.typicalFor(by, p.mirror.infos)
}

// attach gives the mirror's nodes and the pod, of which plain is the copy, their measured usage and their traffic.
func (p *clusterView) attach(pod *v1.Pod, plain *cluster.Pod) {
	p.usage.Attach(&p.mirror.snapshot, p.mirror.infos, pod, plain)
	p.traffic.Attach(&p.mirror.snapshot, p.mirror.infos, pod)
}

// forget drops what is kept between decisions, by the decider too, so that the next one starts afresh.
func (p *clusterView) forget(by decider) {
	by.forget()
	p.mirror = mirror{reserved: p.mirror.reserved}
	p.traffic.Forget()
}

// nodePower is the content of a node's annotation with what its machine draws, and the model in it.
type nodePower struct {
	text  string
	model *cluster.PowerModel // nil if the annotation is faulty
}

// nodeState identifies the state of a node in kube-scheduler's snapshot. The generation alone is not
// enough. While kube-scheduler tries a group of pods, it appends each pod to the snapshot's node and
// restores the node's generation; later it removes the pods in reverse order. So the pods are a stack
// on top of those of the generation, and its height and its top identify the rest.
type nodeState struct {
	generation int64 // 0 for no state
	pods       int
	last       fwk.PodInfo
	claims     *dra.Node // what claims use of the node
}

func stateOf(info fwk.NodeInfo, view *dra.View) nodeState {
	s, pods := nodeState{generation: info.GetGeneration(), claims: view.Node(info.Node().Name)}, info.GetPods()
	if s.pods = len(pods); s.pods > 0 {
		s.last = pods[s.pods-1]
	}
	return s
}

// topped reports whether the pod with the given UID is the last on the node.
func (s nodeState) topped(by types.UID) bool { return s.last != nil && s.last.GetPod().UID == by }

// sync brings the mirror up to date with the nodes of the snapshot. trying tells whether kube-scheduler may
// be trying a group of pods. If neither it is nor the mirror has rows from a try, and claims use what they used before,
// the generation identifies a node's state, and reading nothing else of a thousand nodes saves about a quarter of the time.
func (m *mirror) sync(infos []fwk.NodeInfo, trying bool) {
	plain := !trying && !m.tried && m.view == m.seen
	m.tried, m.seen = trying, m.view
	m.follow(infos, plain)
}

// follow is sync, by the generations alone if plain.
func (m *mirror) follow(infos []fwk.NodeInfo, plain bool) {
	if len(infos) != len(m.infos) {
		m.rearrange(infos)
	}
	for i, info := range infos {
		if plain && info == m.infos[i] && info.GetGeneration() == m.states[i].generation {
			continue // nearly always: between two decisions one node changes
		}
		now := stateOf(info, m.view)
		if now == m.states[i] && info == m.infos[i] {
			continue
		}
		if n := m.snapshot.Nodes[i]; n != nil && n.Name != info.Node().Name {
			m.rearrange(infos)
			m.follow(infos, plain)
			return
		}
		if now != m.states[i] {
			m.snapshot.Nodes[i] = m.convert(info, "")
		}
		m.infos[i], m.states[i] = info, now
	}
}

// before makes a row show its node before a pod's devices are chosen, until the next sync: with the
// reservations that the snapshot lacks, and without the pod. A pod of a group is in the snapshot already,
// but has no devices yet. It reports whether there are such reservations.
func (m *mirror) before(row int32, pod types.UID) (reserved bool) {
	missing := m.reserved.missing(m.infos[row], pod)
	if len(missing) > 0 || m.states[row].topped(pod) {
		m.snapshot.Nodes[row], m.states[row] = with(m.convert(m.infos[row], pod), missing), nodeState{}
	}
	return len(missing) > 0
}

// rearrange gives every node its row and keeps the copies of the nodes that stay.
func (m *mirror) rearrange(infos []fwk.NodeInfo) {
	old := *m
	*m = mirror{
		reserved: old.reserved, tried: old.tried, view: old.view, seen: old.seen, power: map[string]nodePower{},
		snapshot: cluster.Snapshot{Nodes: make([]*cluster.Node, len(infos))},
		infos:    slices.Clone(infos), states: make([]nodeState, len(infos)), row: make(map[string]int32, len(infos)),
	}
	for i, info := range infos {
		name := info.Node().Name
		m.row[name] = int32(i)
		if p, known := old.power[name]; known {
			m.power[name] = p
		}
		if r, known := old.row[name]; known {
			m.snapshot.Nodes[i], m.states[i] = old.snapshot.Nodes[r], old.states[r]
		}
	}
}

// rows appends to out the row of each of the given nodes, all of which are in the snapshot. Filters
// keep most of the snapshot's order, so the next row is tried before the index.
func (m *mirror) rows(nodes []fwk.NodeInfo, out []int32) []int32 {
	next := int32(0)
	for _, n := range nodes {
		if int(next) >= len(m.infos) || m.infos[next] != n {
			next = m.row[n.Node().Name]
		}
		out = append(out, next)
		next++
	}
	return out
}

// convert converts one node and the pods on it, except the pod with the given UID.
func (m *mirror) convert(info fwk.NodeInfo, except types.UID) *cluster.Node {
	n := kube.NodeWith(info.Node(), amounts(info.GetAllocatable()))
	n.Power = m.powerOf(info.Node())
	counts := func(p *v1.Pod) bool { return except == "" || p.UID != except }
	claims := placeClaims(n, m.view, info, counts)
	m.reserved.place(n, info, func(p *v1.Pod, _ kube.RunningPod) bool { return counts(p) && !claims.Has(p) })
	return m.reserved.closeLost(n)
}

// placeClaims gives n the cards of its slices, and adds those pods that count and whose GPUs claims serve. They come before other
// pods: what claims hold is certain, while anybody can write annotations.
func placeClaims(n *cluster.Node, view *dra.View, info fwk.NodeInfo, counts func(*v1.Pod) bool) *dra.Placer {
	placer := view.Placer(n)
	if placer == nil {
		return nil
	}
	for _, p := range info.GetPods() {
		if pod := p.GetPod(); pod.Spec.NodeName != "" && counts(pod) && placer.Has(pod) {
			placer.Place(n, pod, runningPod(p).Requests)
		}
	}
	placer.Rest(n)
	return placer
}

// closeCards makes the rows show as full the cards that have room and yet no device for the pod of asked. restore shows
// them as they are.
func (m *mirror) closeCards(ctx context.Context, rows []int32, asked *dra.Ask) (restore func()) {
	before := map[int32]*cluster.Node{}
	for _, r := range rows {
		n := m.snapshot.Nodes[r]
		closed := asked.Closed(ctx, n.Name) & (1<<len(n.GPUs) - 1)
		if closed == 0 {
			continue
		}
		before[r] = n
		shown := clone(n)
		for i := range shown.GPUs {
			if closed.Has(i) {
				shown.GPUs[i] = max(shown.GPUs[i], cluster.DeviceMilli)
			}
		}
		shown.Version = cluster.NextVersion()
		m.snapshot.Nodes[r] = shown
	}
	return func() {
		for r, n := range before {
			m.snapshot.Nodes[r] = n
		}
	}
}

// powerOf returns what a node's machine draws, as its annotation says. A faulty annotation counts as none, and the log
// says so once.
func (m *mirror) powerOf(n *v1.Node) *cluster.PowerModel {
	text, has := n.Annotations[kube.PowerAnnotation]
	if !has {
		return nil
	}
	known, read := m.power[n.Name]
	if !read || known.text != text {
		model, err := kube.Power(n)
		if err != nil {
			m.reserved.log.Error(err, "What a machine draws is not known", "node", n.Name, "instead", "the default for its CPU")
		}
		known = nodePower{text, model}
		m.power[n.Name] = known
	}
	return known.model
}
