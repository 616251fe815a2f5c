package policy

import (
	"gnnsched/gnn/graph"
	"gnnsched/gnn/infer"
	"gnnsched/internal/cluster"
	"gnnsched/scheduler/encode"
)

// Learned scores with a network. It keeps the encoded graph and the network's session from
// one decision to the next, so a decision costs what changed and the candidates.
type Learned struct {
	name    string
	encoder *encode.Encoder
	session *infer.Session
	expired func() bool
}

// NewLearned returns a policy that runs net.
func NewLearned(name string, net *infer.Network) *Learned {
	return &Learned{name: name, encoder: encode.New(), session: net.NewSession()}
}

// Name implements Policy.
func (l *Learned) Name() string { return l.name }

// Until makes every later pass give up with infer.ErrDeadline once expired returns true; nil
// means never.
func (l *Learned) Until(expired func() bool) { l.expired = expired }

// Score implements Policy. The errors are infer.ErrDeadline and infer.ErrNaN; after the
// latter, or a panic, the policy must not be used again.
func (l *Learned) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	out, err := l.session.Score(l.encoder.Encode(s, pod, candidates), l.expired)
	if err != nil {
		return err
	}
	copy(scores, out.Scores)
	return nil
}

// Graph returns the graph of a decision, valid until the next call. Learning stores copies.
func (l *Learned) Graph(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32) *graph.Graph {
	return l.encoder.Encode(s, pod, candidates)
}
