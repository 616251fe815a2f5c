package plugin

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/decision"
)

// observer sees each decision between its raw scores and the choice of a node, in the scheduling
// cycle and under the plugin's lock.
type observer interface {
	// scored is called with the raw scores of the decider or, after a fallback, of upstream. It may
	// change them.
	scored(state fwk.CycleState, s *scoring)
}

// nobody is the observer of a profile without listeners.
type nobody struct{}

func (nobody) scored(fwk.CycleState, *scoring) {}

// queued is how many decisions may wait for a slow listener, and how many bindings may be under way
// before the recorder gives up the oldest.
const queued = 64

// recorder is the plugin of a profile with listeners: it makes a decision.Decision of each pod that
// gets a node and hands it to them once the pod is bound, or is not going to be.
type recorder struct {
	*learnedScore
	ledger *ledger
	queues []*decision.Queue
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

// listen adds a listener until ctx ends. No decision may have been made yet.
func (r *recorder) listen(ctx context.Context, l decision.Listener) {
	dropped := decisionsDropped.WithLabelValues(r.profile)
	q := decision.NewQueue(l, queued, dropped.Inc)
	r.queues = append(r.queues, q)
	context.AfterFunc(ctx, q.Close)
}

func (r *recorder) send(d decision.Decision) {
	for _, q := range r.queues {
		q.Offer(d)
	}
}

// Close waits until the listeners have heard what waits for them; the framework calls it.
func (r *recorder) Close() error {
	for _, q := range r.queues {
		q.Close()
	}
	return nil
}

const decisionKey = fwk.StateKey("gnnsched/" + Name + "/decision")

// pending is a decision in the state of its scheduling cycle.
type pending struct {
	decision decision.Decision // complete but for Number, Node, Devices and Bound
	entry    *entry            // nil until a node is reserved
}

// Clone implements fwk.StateData. Only the pod's own cycle writes to pending.
func (p *pending) Clone() fwk.StateData { return p }

// scored implements observer: it begins a decision.
func (r *recorder) scored(state fwk.CycleState, s *scoring) {
	state.Write(decisionKey, &pending{decision: decision.Decision{
		Profile: r.profile,
		Pod:     podOf(s.pod),
		Policy:  s.decider.policyName(), Fingerprint: s.decider.fingerprint(),
		Fallback: s.reason, Latency: time.Since(s.view.began),
		Feasible: len(s.feasible), Preferred: len(s.nodes), Best: decision.Best(s.raw, s.name),
	}})
}

// Reserve implements fwk.ReservePlugin: a node is chosen. A try of a pod group is no choice yet:
// kube-scheduler reserves the pod again when the whole group fits.
func (r *recorder) Reserve(_ context.Context, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	if state.IsPodGroupSchedulingCycle() {
		return nil
	}
	p := readPending(state)
	if p == nil { // the only feasible node, which kube-scheduler does not score
		p = &pending{decision: decision.Decision{Profile: r.profile, Pod: podOf(pod), Feasible: 1, Preferred: 1}}
		state.Write(decisionKey, p)
	}
	p.decision.Node = node
	p.entry = r.ledger.open(p.decision)
	return nil
}

func podOf(p *v1.Pod) decision.Pod {
	return decision.Pod{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID)}
}

// Unreserve implements fwk.ReservePlugin: the pod did not get the node.
func (r *recorder) Unreserve(_ context.Context, state fwk.CycleState, _ *v1.Pod, _ string) {
	r.settle(state, false)
}

// PostBind implements fwk.PostBindPlugin: the pod got the node.
func (r *recorder) PostBind(_ context.Context, state fwk.CycleState, _ *v1.Pod, _ string) {
	r.settle(state, true)
}

func (r *recorder) settle(state fwk.CycleState, bound bool) {
	if p := readPending(state); p != nil && p.entry != nil {
		r.ledger.settle(p.entry, reservedDevices(state), bound)
	}
}

// readPending returns the cycle's decision; nil if no nodes were scored and none is reserved.
func readPending(state fwk.CycleState) *pending {
	data, err := state.Read(decisionKey)
	if err != nil {
		return nil
	}
	return data.(*pending)
}

// reservedDevices returns the GPU devices that GPUShares has chosen in this cycle.
func reservedDevices(state fwk.CycleState) cluster.DeviceSet {
	data, err := state.Read(devicesKey)
	if err != nil {
		return 0
	}
	return cluster.DeviceSet(data.(chosen))
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

// settle notes whether the pod was bound, and its GPU devices. Only the first call for an entry counts.
func (l *ledger) settle(e *entry, devices cluster.DeviceSet, bound bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !e.settled {
		e.settled = true
		e.decision.Devices, e.decision.Bound = devices, bound
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
