package neural

import (
	"gnnsched/gnn/graph"
	"gnnsched/gnn/infer"
	"gnnsched/internal/cluster"
	"gnnsched/internal/fragmentation"
	"gnnsched/scheduler/encode"
	"gnnsched/scheduler/policy"
)

// GraphPolicy scores with a network on the cluster graph, with devices or without. It keeps the encoded graph and the network's
// session from one decision to the next, so the cost of a decision depends only on the candidates
// and on what has changed.
type GraphPolicy struct {
	name    string
	encoder *encode.Encoder
	session *infer.Session
	expired func() bool  // whether the decision's deadline has passed; nil: there is none
	last    *graph.Graph // of the last Score
}

func newGraph(name string, net *infer.Network, typical *fragmentation.Typical) *GraphPolicy {
	l := &GraphPolicy{name: name, encoder: encode.New(net.Layout()), session: net.NewSession()}
	l.encoder.Know(typical)
	return l
}

// Devices implements policy.DeviceChooser.
func (l *GraphPolicy) Devices(n *cluster.Node, pod *cluster.Pod) cluster.DeviceSet {
	return l.encoder.Devices(n, pod.Requests)
}

// Name implements policy.Policy.
func (l *GraphPolicy) Name() string { return l.name }

// Until implements Policy.
func (l *GraphPolicy) Until(expired func() bool) { l.expired = expired }

// Score implements policy.Policy.
func (l *GraphPolicy) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	l.last = l.encoder.EncodeSplit(s, pod, candidates)
	out, err := l.session.Score(l.last, l.expired)
	if err != nil {
		return err
	}
	copy(scores, out.Scores)
	return nil
}

// Reading implements policy.Reader.
func (l *GraphPolicy) Reading(_ *cluster.Snapshot, _ *cluster.Pod, _ []int32, i int) *policy.Reading {
	return &policy.Reading{Kind: policy.NetworkReading, Features: l.session.Reading(l.last, i)}
}

// Graph returns the graph of a decision. It is valid until the next call of Graph or Score; learners
// store copies.
func (l *GraphPolicy) Graph(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32) *graph.Graph {
	return l.encoder.Encode(s, pod, candidates)
}
