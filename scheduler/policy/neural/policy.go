package neural

import (
	"gnnsched/gnn/feature"
	"gnnsched/gnn/graph"
	"gnnsched/gnn/infer"
	"gnnsched/internal/cluster"
	"gnnsched/internal/fragmentation"
	"gnnsched/scheduler/encode"
	"gnnsched/scheduler/policy"
)

// Policy scores with a network on the cluster graph. It keeps the encoded graph and the network's
// session from one decision to the next, so the cost of a decision depends only on the candidates
// and on what has changed.
type Policy struct {
	name    string
	encoder *encode.Encoder
	session *infer.Session
	expired func() bool  // whether the decision's deadline has passed; nil: there is none
	last    *graph.Graph // of the last Score
}

// New returns a policy with the given name that runs net.
func New(name string, net *infer.Network) *Policy {
	l := &Policy{name: name, encoder: encode.New(net.Layout()), session: net.NewSession()}
	l.Wish(net.Wishes())
	return l
}

// Wish makes w the objective of later decisions. It has an effect on networks that read the objective.
func (l *Policy) Wish(w feature.Wishes) { l.encoder.Wish(w) }

// Know makes the policy see devices for a workload with the given typical pods. It has an effect on networks that read devices.
func (l *Policy) Know(typical *fragmentation.Typical) { l.encoder.Know(typical) }

// Devices implements policy.DeviceChooser.
func (l *Policy) Devices(n *cluster.Node, pod *cluster.Pod) cluster.DeviceSet {
	return l.encoder.Devices(n, pod.Requests)
}

// Name implements policy.Policy.
func (l *Policy) Name() string { return l.name }

// Until makes every later Score fail with infer.ErrDeadline once expired returns true. nil means
// never.
func (l *Policy) Until(expired func() bool) { l.expired = expired }

// Score implements policy.Policy. It fails with infer.ErrDeadline or infer.ErrNaN. After ErrNaN or a
// panic the policy must not be used again.
func (l *Policy) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	l.last = l.encoder.EncodeSplit(s, pod, candidates)
	out, err := l.session.Score(l.last, l.expired)
	if err != nil {
		return err
	}
	copy(scores, out.Scores)
	return nil
}

// Reading implements policy.Reader.
func (l *Policy) Reading(_ *cluster.Snapshot, _ *cluster.Pod, _ []int32, i int) *policy.Reading {
	return &policy.Reading{Kind: policy.NetworkReading, Features: l.session.Reading(l.last, i)}
}

// Graph returns the graph of a decision. It is valid until the next call of Graph or Score; learners
// store copies.
func (l *Policy) Graph(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32) *graph.Graph {
	return l.encoder.Encode(s, pod, candidates)
}
