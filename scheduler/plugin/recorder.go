package plugin

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/decision"
	"gnnsched/scheduler/plugin/canary"
	"gnnsched/scheduler/plugin/dra"
	"gnnsched/scheduler/policy"
)

// queued is how many decisions may wait for a slow listener, and how many bindings may be under way
// before the recorder gives up the oldest.
const queued = 64

// recorder is the plugin of a profile with listeners: it makes a decision.Decision of each pod that
// gets a node and hands it to them once the pod is bound, or is not going to be.
type recorder struct {
	*learnedScore
	ledger *ledger
	queues []*decision.Queue
	asks   *allowance // for the default profile's choice; nil: decisions are not recorded, and need neither it nor readings
}

var (
	_ fwk.ReservePlugin  = &recorder{}
	_ fwk.PostBindPlugin = &recorder{}
	_ observer           = &recorder{}
)

// newRecorder makes listeners hear of p's decisions, until the recorder is closed or ctx ends.
func newRecorder(ctx context.Context, p *learnedScore, listeners ...decision.Listener) *recorder {
	r := &recorder{learnedScore: p}
	r.ledger = &ledger{limit: queued, send: r.send}
	for _, l := range listeners {
		r.listen(ctx, l)
	}
	p.observer = r
	return r
}

// missing is a listener that wants to know which decisions it missed because it was too slow.
type missing interface{ missed(decision.Decision) }

// listen adds a listener until ctx ends. No decision may have been made yet.
func (r *recorder) listen(ctx context.Context, l decision.Listener) {
	dropped := decisionsDropped.WithLabelValues(r.profile)
	q := decision.NewQueue(l, queued, func(d decision.Decision) {
		dropped.Inc()
		if m, is := l.(missing); is {
			m.missed(d)
		}
	})
	r.queues = append(r.queues, q)
	context.AfterFunc(ctx, q.Close)
}

func (r *recorder) send(d decision.Decision) {
	for _, q := range r.queues {
		q.Offer(d)
	}
}

// Close waits until the listeners have heard what waits for them, and a stop of the canary is kept; the framework calls
// it.
func (r *recorder) Close() error {
	for _, q := range r.queues {
		q.Close()
	}
	if r.canary != nil {
		r.canary.Close()
	}
	return nil
}

// decisionKey holds the cycle's decision, if nodes were scored or one is reserved.
const decisionKey = dra.CycleKey[*pending]("gnnsched/" + Name + "/decision")

// pending is a decision in the state of its scheduling cycle. Only the pod's own cycle writes to it.
type pending struct {
	decision decision.Decision // complete but for Number, Node, Devices, Claimed and Bound
	entry    *entry            // nil until a node is reserved
}

// scored implements observer: it begins a decision.
func (r *recorder) scored(s *scoring) {
	best := decision.Best(s.total, s.name)
	p := &pending{decision: decision.Decision{
		Profile: r.profile,
		Pod:     podOf(s.pod), At: s.view.began,
		Group: string(s.group), Policy: s.decider.policyName(), Fingerprint: s.decider.fingerprint(),
		Fallback: s.reason, Latency: time.Since(s.view.began),
		Nodes: len(r.mirror.infos), Refused: RefusalsOf(s.state),
		Feasible: len(s.feasible), Preferred: len(s.nodes), Best: s.candidates(best),
	}}
	if s.group == canary.Rest {
		p.decision.Policy, p.decision.Fingerprint = "", 0
	}
	if r.asks != nil {
		r.record(s, best, &p.decision)
	}
	decisionKey.Write(s.state, p)
}

// candidates returns nodes as candidates, with their raw scores.
func (s *scoring) candidates(nodes []int) []decision.Candidate {
	out := make([]decision.Candidate, len(nodes))
	for k, i := range nodes {
		out[k] = s.candidate(i)
	}
	return out
}

// candidate returns s.nodes[i] as a candidate, with its raw score.
func (s *scoring) candidate(i int) decision.Candidate {
	c := decision.Candidate{Node: s.name(i), Score: s.raw[i]}
	if s.spread != nil {
		c.Spread = s.spread[s.feasibleIndex(int32(i))]
	}
	return c
}

// record adds to a decision what only records need. best are the nodes of d.Best.
func (r *recorder) record(s *scoring, best []int, d *decision.Decision) {
	asked := dra.Asked(s.state)
	for k, i := range best[:min(len(best), 2)] {
		c := &d.Best[k]
		c.Read, c.Cards = r.reading(s, i), r.cards(s, i, asked)
	}
	if other := comparedKey.Read(s.state); other != "" {
		r.compareWith(s, other, asked, d)
	}
	if s.reason != "" || s.group == canary.Rest { // the scores are the default profile's
		return
	}
	begun := time.Now()
	if !r.asks.open(begun) {
		return
	}
	at, ties, err := r.upstream.choice(s)
	r.asks.spend(time.Since(begun))
	if err != nil {
		return
	}
	d.Default = &decision.Default{Candidate: decision.Candidate{Node: s.feasible[at].Node().Name}, Ties: ties}
	i := at
	if s.left != nil {
		i = slices.Index(s.left, int32(at))
	}
	if d.Default.Preferred = i >= 0; !d.Default.Preferred {
		return
	}
	d.Default.Candidate = s.candidate(i)
	known := slices.IndexFunc(d.Best, func(c decision.Candidate) bool { return c.Node == d.Default.Node })
	if known >= 0 && d.Best[known].Read != nil {
		d.Default.Candidate = d.Best[known]
	} else {
		d.Default.Read, d.Default.Cards = r.reading(s, i), r.cards(s, i, asked)
	}
}

// compareWith adds what the policy read of another node to a decision's best ones. If it is not among them, it gets the last
// place.
func (r *recorder) compareWith(s *scoring, node string, asked *dra.Ask, d *decision.Decision) {
	i := slices.IndexFunc(s.nodes, func(n fwk.NodeInfo) bool { return n.Node().Name == node })
	if i < 0 {
		return
	}
	at := slices.IndexFunc(d.Best, func(c decision.Candidate) bool { return c.Node == node })
	if at < 0 {
		at = min(len(d.Best), decision.MaxBest-1)
		d.Best = append(d.Best[:at], s.candidate(i))
	}
	if c := &d.Best[at]; c.Read == nil {
		c.Read, c.Cards = r.reading(s, i), r.cards(s, i, asked)
	}
}

// comparedKey holds the other node of a decision in the shadow.
const comparedKey = dra.CycleKey[string]("gnnsched/" + Name + "/compared")

// CompareWith makes the decision of a cycle that was not scored yet tell what the policy reads of a node that another scheduler
// chose.
func CompareWith(state fwk.CycleState, node string) { comparedKey.Write(state, node) }

// Considered returns the decision of a cycle whose nodes were scored, before a node is reserved. It has no node yet. ok is
// false if nothing was scored, or nobody records the profile's decisions.
func Considered(state fwk.CycleState) (d decision.Decision, ok bool) {
	p := decisionKey.Read(state)
	if p == nil {
		return d, false
	}
	return p.decision, true
}

// reading returns what the decider read of s.nodes[i]; nil if that is not known.
func (r *recorder) reading(s *scoring, i int) *policy.Reading {
	if i < 0 || s.reason != "" || s.group == canary.Rest {
		return nil
	}
	return s.decider.reading(s.view, r.seenAt(s, i))
}

// seenAt returns the index of s.nodes[i] among the nodes that the decider saw.
func (r *recorder) seenAt(s *scoring, i int) int {
	return int(s.feasibleIndex(int32(i))) // it saw all feasible nodes
}

// cards names the cards of s.nodes[i] that the decider would choose for the pod's claims; nil if it would not choose, or
// the node itself offers what the pod requests.
func (r *recorder) cards(s *scoring, i int, asked *dra.Ask) []string {
	if i < 0 || s.reason != "" || s.group == canary.Rest || asked == nil {
		return nil
	}
	if len(s.pod.Spec.ResourceClaims) == 0 && amounts(s.nodes[i].GetAllocatable()).GPU > 0 {
		return nil
	}
	at := r.seenAt(s, i)
	v := s.view
	v.rows = v.rows[at : at+1]
	on, err := s.decider.devices(v, true)
	if err != nil {
		return nil
	}
	return asked.View().Node(s.name(i)).CardNames(on)
}

// Reserve implements fwk.ReservePlugin: a node is chosen. A try of a pod group is no choice yet:
// kube-scheduler reserves the pod again when the whole group fits.
func (r *recorder) Reserve(_ context.Context, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	if state.IsPodGroupSchedulingCycle() {
		return nil
	}
	p := decisionKey.Read(state)
	if p == nil { // the only feasible node, which kube-scheduler does not score
		p = &pending{decision: decision.Decision{
			Profile: r.profile, Group: string(r.groupOf(pod)), Pod: podOf(pod), At: time.Now(),
			Refused: RefusalsOf(state), Feasible: 1, Preferred: 1,
		}}
		decisionKey.Write(state, p)
	}
	p.decision.Node = node
	p.entry = r.ledger.open(p.decision)
	return nil
}

func podOf(p *v1.Pod) decision.Pod {
	return decision.Pod{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID)}
}

// Unreserve implements fwk.ReservePlugin: the pod did not get the node.
func (r *recorder) Unreserve(ctx context.Context, state fwk.CycleState, pod *v1.Pod, _ string) {
	r.settle(ctx, state, pod, false)
}

// PostBind implements fwk.PostBindPlugin: the pod got the node.
func (r *recorder) PostBind(ctx context.Context, state fwk.CycleState, pod *v1.Pod, _ string) {
	r.settle(ctx, state, pod, true)
}

func (r *recorder) settle(ctx context.Context, state fwk.CycleState, pod *v1.Pod, bound bool) {
	if p := decisionKey.Read(state); p != nil && p.entry != nil {
		if r.canary != nil && (bound || ctx.Err() == nil) { // the end of the scheduler cancels bindings: no failure of a node
			r.canary.Settled(canary.Placement{
				Pod: pod, Group: canary.Group(p.decision.Group), Result: resultOf(p.decision, bound), Chosen: len(p.decision.Best) > 0,
			})
		}
		r.ledger.settle(p.entry, given{reservedDevices(state), dra.ReservedDevices(state)}, bound)
	}
}

// resultOf returns how a decision ended, for the canary.
func resultOf(d decision.Decision, bound bool) canary.Result {
	switch {
	case !bound:
		return canary.NotBound
	case d.Fallback != "":
		return canary.Fallback
	}
	return canary.Bound
}

// choice returns the index in ours.feasible of the node with upstream's highest total score, and the number of nodes
// that have it. Of tied ones it is the node that ours ranks best, and the first by name of those. It leaves ours as it is.
func (u *upstream) choice(ours *scoring) (at, ties int, err error) {
	theirs := &scoring{state: ours.state.Clone(), pod: ours.pod, nodes: ours.feasible, raw: make([]float32, len(ours.feasible))}
	if err := u.score(context.Background(), theirs); err != nil {
		return 0, 0, err
	}
	worth := make([]float64, len(ours.feasible))
	for i := range worth {
		worth[i] = math.Inf(-1) // the preferences kept the node from the decider
	}
	for i, v := range ours.total {
		worth[ours.feasibleIndex(int32(i))] = float64(v)
	}
	at, most := -1, slices.Max(theirs.raw)
	for i, v := range theirs.raw {
		if v < most {
			continue
		}
		ties++
		// The filters run in parallel, so the order of the feasible nodes is not always the same.
		if at < 0 || worth[i] > worth[at] || worth[i] == worth[at] && ours.feasible[i].Node().Name < ours.feasible[at].Node().Name {
			at = i
		}
	}
	return at, ties, nil
}

// allowance is a share of the time, which asking the default profile may take.
type allowance struct {
	share  float64 // 0 for none, 1 for all
	earned time.Duration
	until  time.Time // that it is earned for
}

// maxEarned bounds what an idle scheduler saves up, and so the share of a busy time.
const maxEarned = 50 * time.Millisecond

// open reports whether something may be spent now.
func (a *allowance) open(now time.Time) bool {
	if a.share >= 1 {
		return true
	}
	if !a.until.IsZero() {
		a.earned = min(a.earned+time.Duration(a.share*float64(now.Sub(a.until))), maxEarned)
	}
	a.until = now
	return a.share > 0 && a.earned >= 0
}

// spend takes what was spent off what was earned.
func (a *allowance) spend(took time.Duration) { a.earned -= took }

// reservedDevices returns the GPU devices that GPUShares has chosen, or the pod's claims have got, in this cycle.
func reservedDevices(state fwk.CycleState) cluster.DeviceSet {
	if on, has := devicesKey.Find(state); has {
		return on
	}
	return dra.Reserved(state)
}

// given holds the GPU devices that a pod got, and all devices that it got by claims.
type given struct {
	devices cluster.DeviceSet
	claimed []decision.ClaimedDevice
}

// ledger numbers decisions and sends them on in this order, once each pod is bound or is not going
// to be. Bindings run in parallel and end in any order, so a decision waits for those before it.
type ledger struct {
	limit int                     // at most so many decisions wait; for one more the oldest is sent as unbound
	send  func(decision.Decision) // called for one decision at a time

	mu     sync.Mutex
	number uint64
	queue  []*entry // by number
}

// entry is a decision whose pod is being bound.
type entry struct {
	decision decision.Decision
	settled  bool
}

// open numbers a decision, which then waits for settle.
func (l *ledger) open(d decision.Decision) *entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.number++
	d.Number = l.number
	if len(l.queue) == l.limit {
		l.queue[0].settled = true // a later settle does not count
		l.release()
	}
	e := &entry{decision: d}
	l.queue = append(l.queue, e)
	return e
}

// settle notes whether the pod was bound, and its devices. Only the first call for an entry counts.
func (l *ledger) settle(e *entry, got given, bound bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !e.settled {
		e.settled = true
		e.decision.Devices, e.decision.Claimed, e.decision.Bound = got.devices, got.claimed, bound
		l.release()
	}
}

// release sends the decisions that no earlier one holds back.
func (l *ledger) release() {
	for len(l.queue) > 0 && l.queue[0].settled {
		l.send(l.queue[0].decision)
		l.queue = l.queue[1:]
	}
}
