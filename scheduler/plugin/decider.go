package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/internal/cluster"
	"gnnsched/internal/fragmentation"
	"gnnsched/scheduler/plugin/dra"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/neural"
)

// decider scores the nodes for one pod after another, and keeps what it can reuse between them.
// There is one implementation each for a network, a heuristic, and a
// profile whose network is not loaded. Not safe for concurrent use: the plugin's lock guards it.
type decider interface {
	// label names the decider in log lines.
	label() string
	// policyName is the Policy of its decisions.
	policyName() string
	// fingerprint is that of the network's checkpoint; 0 without a network.
	fingerprint() uint64
	// typicalPods says which pods count for the typical pods that the view must have.
	typicalPods() countedPods
	// randomTies reports whether kube-scheduler draws among the nodes with the best score.
	randomTies() bool

	// score writes the score of each of the view's rows to scores. A network gives up with
	// infer.ErrDeadline once its deadline has passed since v.began. After any other error, or a
	// panic, forget must be called.
	score(v view, scores []float32) error
	// devices chooses the pod's GPU devices on the node of the view's only row. scored tells
	// whether score has seen the pod on the cluster as it is now. After an error or a panic,
	// forget must be called.
	devices(v view, scored bool) (cluster.DeviceSet, error)
	// reading returns what the last score read of the node in row v.rows[i], for the same view; nil if it is not
	// known.
	reading(v view, i int) *policy.Reading
	// forget drops what is kept between decisions.
	forget()
}

// countedPods says which of a profile's pods count for the typical pods.
type countedPods int

const (
	noPods       countedPods = iota // there are no typical pods
	arrivingPods                    // as many as arrive
	runningPods                     // as many as run
)

// view is the part of the cluster that a decision is about.
type view struct {
	snapshot *cluster.Snapshot
	pod      *cluster.Pod
	rows     []int32                // of the candidates, in the snapshot's nodes
	typical  *fragmentation.Typical // the workload's typical pods; nil unless the decider needs them and there are any
	began    time.Time              // when the decision began
	took     time.Duration          // that seeing took; then the whole decision
	manifest *v1.Pod                // the pod as it was created; nil in tests
	claims   *dra.Ask               // nil unless the pod asks by claims
}

// activeDecider holds the decider in use, and the latest decisions, on which a network is tried before it becomes the decider. Any
// goroutine may store another decider at any time; a decision goes on with the decider that it loaded.
type activeDecider struct {
	current atomic.Pointer[decider]
	latest  neural.Latest
}

func (a *activeDecider) load() decider { return *a.current.Load() }

func (a *activeDecider) store(d decider) { a.current.Store(&d) }

// errNoNetwork is the error of every decision while no network is loaded.
var errNoNetwork = errors.New("no network is loaded")

// noDecider decides for a profile whose network is not loaded: it cannot. The other deciders have those of its methods that fit them.
type noDecider struct{}

func (noDecider) label() string { return "network" }

func (noDecider) policyName() string { return "" }

func (noDecider) fingerprint() uint64 { return 0 }

func (noDecider) typicalPods() countedPods { return noPods }

func (noDecider) randomTies() bool { return false }

func (noDecider) score(view, []float32) error { return errNoNetwork }

func (noDecider) devices(view, bool) (cluster.DeviceSet, error) { return 0, errNoNetwork }

func (noDecider) reading(view, int) *policy.Reading { return nil }

func (noDecider) forget() {}

// heuristicDecider decides with a policy that needs no checkpoint.
type heuristicDecider struct {
	noDecider
	heuristic.Heuristic
	made    policy.Policy          // of this profile only; nil until the first decision
	typical *fragmentation.Typical // for which it was made
	seed    uint64                 // of its draws; 0: another one for each policy that is made
}

type seedKey struct{}

// WithSeed returns a context in which policies that draw do so by a seed over 0, as replays want it.
func WithSeed(ctx context.Context, seed uint64) context.Context {
	return context.WithValue(ctx, seedKey{}, seed)
}

func (h *heuristicDecider) label() string { return "policy " + h.Name }

func (h *heuristicDecider) policyName() string { return h.Name }

func (h *heuristicDecider) typicalPods() countedPods {
	if h.TypicalPods {
		return arrivingPods
	}
	return noPods
}

func (h *heuristicDecider) randomTies() bool { return h.RandomTies }

func (h *heuristicDecider) score(v view, scores []float32) error {
	return h.policy(v).Score(v.snapshot, v.pod, v.rows, scores)
}

func (h *heuristicDecider) devices(v view, scored bool) (cluster.DeviceSet, error) {
	return chooseDevices(h.policy(v), v, scored)
}

func (h *heuristicDecider) reading(v view, i int) *policy.Reading { return read(h.made, v, i) }

func (h *heuristicDecider) forget() { h.made = nil }

// policy returns the policy for the view's typical pods.
func (h *heuristicDecider) policy(v view) policy.Policy {
	if h.made == nil || h.typical != v.typical {
		// Without a seed it differs after each restart, so that the draws of the last run are not repeated.
		h.made, h.typical = h.New(policy.Setting{Seed: cmp.Or(h.seed, rand.Uint64()), Typical: v.typical}), v.typical
	}
	return h.made
}

// chooseDevices lets p choose the pod's devices on the view's only row, after it scored the node
// if it has not seen the pod yet.
func chooseDevices(p policy.Policy, v view, scored bool) (cluster.DeviceSet, error) {
	if chooser, chooses := p.(policy.DeviceChooser); chooses && !scored {
		if err := chooser.Score(v.snapshot, v.pod, v.rows, make([]float32, 1)); err != nil {
			return 0, err
		}
	}
	return policy.Devices(p, v.snapshot.Nodes[v.rows[0]], v.pod), nil
}

// read returns what p's last Score read of the node in row v.rows[i]; nil if p cannot tell.
func read(p policy.Policy, v view, i int) *policy.Reading {
	if r, reads := p.(policy.Reader); reads {
		return r.Reading(v.snapshot, v.pod, v.rows, i)
	}
	return nil
}

// networkDecider decides with a network.
type networkDecider struct {
	noDecider
	name     string // of its policy
	deadline time.Duration
	net      *infer.Network
	made     neural.Policy          // nil until the first decision
	typical  *fragmentation.Typical // for which it was made
}

func (n *networkDecider) policyName() string { return n.name }

func (n *networkDecider) fingerprint() uint64 { return n.net.Fingerprint() }

// readsDevices reports whether the network sees devices, and so depends on the typical pods and chooses devices too.
func (n *networkDecider) readsDevices() bool {
	graph := n.net.Architecture().Graph
	return graph != checkpoint.ClusterGraph && graph != checkpoint.KindsGraph
}

func (n *networkDecider) typicalPods() countedPods {
	if n.readsDevices() {
		return runningPods
	}
	return noPods
}

func (n *networkDecider) score(v view, scores []float32) error {
	return inTime(n.policy(v).Score(v.snapshot, v.pod, v.rows, scores), n.deadline)
}

func (n *networkDecider) devices(v view, scored bool) (cluster.DeviceSet, error) {
	if !n.readsDevices() { // a pass of the network for one candidate would take time and could fail
		return v.snapshot.Nodes[v.rows[0]].ChooseDevices(v.pod.Requests), nil
	}
	return chooseDevices(n.policy(v), v, scored)
}

func (n *networkDecider) reading(v view, i int) *policy.Reading { return read(n.made, v, i) }

func (n *networkDecider) forget() { n.made = nil }

// policy returns the policy for the view's typical pods, with the deadline of its decision.
func (n *networkDecider) policy(v view) neural.Policy {
	if n.made == nil || n.typical != v.typical {
		n.made, n.typical = neural.New(n.name, n.net, v.typical), v.typical
	}
	n.made.Until(v.after(n.deadline))
	return n.made
}

// after returns a function that reports whether the decision has taken longer than d.
func (v view) after(d time.Duration) func() bool {
	return func() bool { return time.Since(v.began) > d }
}

// inTime adds the deadline to an error that says it has passed.
func inTime(err error, deadline time.Duration) error {
	if errors.Is(err, infer.ErrDeadline) {
		return fmt.Errorf("%w (%v)", err, deadline)
	}
	return err
}

// reasonOf is the value of the metric's label for the error of a decider.
func reasonOf(err error) string {
	switch {
	case errors.Is(err, errNoNetwork):
		return reasonNoModel
	case errors.Is(err, infer.ErrDeadline):
		return reasonDeadline
	}
	return reasonNotFinite
}
