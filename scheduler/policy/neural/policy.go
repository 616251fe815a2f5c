package neural

import (
	"gnnsched/gnn/graph"
	"gnnsched/gnn/infer"
	"gnnsched/internal/cluster"
	"gnnsched/scheduler/encode"
)

// Policy scores with a network. It keeps the encoded graph and the network's session from
// one decision to the next, so a decision costs what changed and the candidates.
type Policy struct {
	name    string
	encoder *encode.Encoder
	session *infer.Session
	expired func() bool
}

// New returns a policy that runs net.
func New(name string, net *infer.Network) *Policy {
	return &Policy{name: name, encoder: encode.New(), session: net.NewSession()}
}

// Name implements policy.Policy.
func (l *Policy) Name() string { return l.name }

// Until makes every later pass give up with infer.ErrDeadline once expired returns true; nil
// means never.
func (l *Policy) Until(expired func() bool) { l.expired = expired }

// Score implements policy.Policy. The errors are infer.ErrDeadline and infer.ErrNaN; after the
// latter, or a panic, the policy must not be used again.
func (l *Policy) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	out, err := l.session.Score(l.encoder.Encode(s, pod, candidates), l.expired)
	if err != nil {
		return err
	}
	copy(scores, out.Scores)
	return nil
}

// Graph returns the graph of a decision, valid until the next call. Learning stores copies.
func (l *Policy) Graph(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32) *graph.Graph {
	return l.encoder.Encode(s, pod, candidates)
}
