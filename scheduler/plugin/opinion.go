package plugin

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// Opinion holds the scores that a profile's decider gives the nodes for a pod, without placing it.
type Opinion struct {
	Network
	Took  time.Duration
	Nodes []NodeOpinion // in the order of the nodes that were asked about
}

// NodeOpinion is an Opinion's part about one node.
type NodeOpinion struct {
	// Score is in 0 to 100. Only the best node has 100, or all equal best nodes if the decider is a
	// heuristic that draws among them.
	Score int8
	// Preferred is false if the preferences of manifests removed the node. Raw is then 0.
	Preferred bool
	Raw       float32 // the decider's own score; higher is better
}

// Undecided is the error of an Opinion that the decider could not give. Reason is one of those of the
// metric gnnsched_fallbacks_total.
type Undecided struct {
	Reason string
	Err    error
}

// Error implements error.
func (u *Undecided) Error() string { return u.Err.Error() }

// Unwrap returns Err.
func (u *Undecided) Unwrap() error { return u.Err }

// errNoDecider is the error of a profile that does not have LearnedScore.
var errNoDecider = errors.New("the profile has no " + Name)

// Arrives tells the profile of h that a node is looked for, for a pod that no informer knows, as in a cluster in memory. Before the first
// one the pods on the nodes count. The pod waits until Leaves.
func Arrives(h fwk.Handle, pod *v1.Pod) {
	p := knownProfile(h).scores
	if p == nil || p.arrivals == nil {
		return
	}
	if nodes, err := h.SnapshotSharedLister().NodeInfos().List(); err == nil {
		p.arrivals.arrives(pod, nodes)
	}
}

// Leaves tells the profile of h that a pod of Arrives has a node, or is gone. Others change nothing.
func Leaves(h fwk.Handle, pod *v1.Pod) {
	if p := knownProfile(h).scores; p != nil && p.arrivals != nil {
		p.arrivals.leaves(pod)
	}
}

// Ask asks the decider of h's profile about feasible nodes of h's snapshot, which nobody may change
// meanwhile. Preferences count as in PreScore. counts tells that the pod is one that arrives, and not a
// question; then it counts for the typical pods of the workload. If the decider fails, Ask returns an
// *Undecided, and the failure is counted and logged as a fallback to upstream's scoring.
func Ask(ctx context.Context, h fwk.Handle, pod *v1.Pod, nodes []fwk.NodeInfo, counts bool) (Opinion, error) {
	p := knownProfile(h).scores
	if p == nil {
		return Opinion{}, errNoDecider
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.begin(framework.NewCycleState(), pod, nodes)
	s.onlyAsks = !counts
	if err := p.decideOn(ctx, s); err != nil {
		p.failed(ctx, s, err)
		return Opinion{}, &Undecided{s.reason, fmt.Errorf("the %s gives no scores (%s): %w", s.decider.label(), s.reason, err)}
	}
	return Opinion{networkOf(s.decider), s.view.took, s.opinions()}, nil
}

// opinions returns the scores of the feasible nodes.
func (s *scoring) opinions() []NodeOpinion {
	out, list := make([]NodeOpinion, len(s.feasible)), make([]int8, len(s.feasible))
	s.nodeScores(list)
	for i, score := range list {
		out[i].Score = score
	}
	for i, raw := range s.raw {
		at := s.feasibleIndex(int32(i))
		out[at].Preferred, out[at].Raw = true, raw
	}
	return out
}

// Network describes what decides for a profile.
type Network struct {
	Policy      string // the heuristic's name, or the profile's for its network; empty if no network is loaded
	Fingerprint uint64 // of the network's checkpoint; 0 without one
}

// ActiveNetwork returns what decides for h's profile now.
func ActiveNetwork(h fwk.Handle) (Network, error) {
	p := knownProfile(h).scores
	if p == nil {
		return Network{}, errNoDecider
	}
	return networkOf(p.active.load()), nil
}

func networkOf(d decider) Network {
	return Network{Policy: d.policyName(), Fingerprint: d.fingerprint()}
}
