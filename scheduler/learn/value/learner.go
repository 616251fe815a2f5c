//go:build torch

package value

import (
	"fmt"
	"math/rand/v2"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/gnn/torch"
)

// learner trains the network to predict v, the number of devices that will be idle on a node at the end
// of the episode, from snapshots of played episodes.
type learner struct {
	config Config
	net    *torch.GPUNetwork
	slow   *torch.GPUNetwork // average of net over the updates; plays the episodes
	adam   *torch.Adam
	batch  torch.GPUBatch
}

func newLearner(c Config, start *checkpoint.Checkpoint) (*learner, error) {
	l := &learner{config: c}
	var err error
	if l.net, err = torch.NewGPUNetwork(start); err != nil {
		return nil, err
	}
	if l.slow, err = torch.NewGPUNetwork(start); err != nil {
		l.drop()
		return nil, err
	}
	if l.adam, err = torch.NewAdam(&l.net.Parameters, torch.AdamConfig{LearningRate: c.LearningRate, Beta1: 0.9, Beta2: 0.999}); err != nil {
		l.drop()
		return nil, err
	}
	return l, nil
}

func (l *learner) drop() {
	for _, n := range []*torch.GPUNetwork{l.net, l.slow} {
		if n != nil {
			n.Drop()
		}
	}
}

// losses are means over updates.
type losses struct {
	value float64 // mean squared error of v, in devices²
	actor float64 // cross-entropy against the teacher, or divergence from the Boltzmann distribution of the values
}

// update takes one step of the optimiser on snapshots. With imitate, the actor clones the teacher.
func (l *learner) update(rng *rand.Rand, snapshots []*snapshot, rate, averaging float64, imitate bool) (sum losses, err error) {
	var s torch.Scope
	defer s.Drop()
	loss := l.valueLoss(&s, rng, snapshots)
	sum.value = s.Float(loss)
	if l.config.actor() {
		if a := l.actorLoss(&s, snapshots, imitate); a != nil {
			sum.actor = s.Float(a)
			loss = s.Add(loss, a)
		}
	}
	if s.Err() != nil {
		return sum, s.Err()
	}
	if err := l.net.ZeroGrad(); err != nil {
		return sum, err
	}
	s.Backward(loss)
	if s.Err() != nil {
		return sum, s.Err()
	}
	// The gradients of actor and value differ in size, so each has a limit of its own.
	if _, err := l.net.ClipGradApart(l.config.ClipNorm, checkpoint.ActorPrefix); err != nil {
		return sum, err
	}
	if err := l.adam.SetLearningRate(rate); err != nil {
		return sum, err
	}
	if err := l.adam.Step(); err != nil {
		return sum, err
	}
	return sum, l.slow.Blend(&l.net.Parameters, averaging)
}

// valueLoss returns the mean squared error of v on nodes drawn from each snapshot.
func (l *learner) valueLoss(s *torch.Scope, rng *rand.Rand, snapshots []*snapshot) *torch.Tensor {
	l.batch.Reset()
	var idle []float32
	for _, x := range snapshots {
		l.batch.Begin(x.cluster)
		for range l.config.BatchNodes {
			i := rng.IntN(len(x.nodes))
			l.batch.Add(&x.nodes[i])
			idle = append(idle, x.idle[i])
		}
	}
	v := l.net.Values(s, &l.batch, "")
	return s.Mean(s.Square(s.Sub(v, s.Float32(idle, len(idle), 1))))
}

// actorLoss returns the mean over the snapshots of -log π(teacher), if the actor imitates, and otherwise
// of Σ π (log π - Q / temperature). Here π = softmax((a(before) - a(after)) / temperature) is the
// policy over the candidates of a snapshot, and Q = v(before) - v(after). The loss is nil if no
// snapshot has candidates to learn from.
func (l *learner) actorLoss(s *torch.Scope, snapshots []*snapshot, imitate bool) *torch.Tensor {
	l.batch.Reset()
	var segment, teacher []int64
	segments := 0
	add := func(after bool) {
		for _, x := range snapshots {
			if len(x.before) < 2 || imitate && x.teacher < 0 {
				continue
			}
			l.batch.Begin(x.cluster)
			of := x.before
			if after {
				of = x.after
			} else {
				if x.teacher >= 0 {
					teacher = append(teacher, int64(len(segment)+x.teacher))
				}
				for range of {
					segment = append(segment, int64(segments))
				}
				segments++
			}
			for i := range of {
				l.batch.Add(&of[i])
			}
		}
	}
	add(false)
	add(true)
	n := len(segment)
	if n == 0 {
		return nil
	}
	differences := func(prefix string) *torch.Tensor {
		v := l.net.Values(s, &l.batch, prefix)
		return s.Scale(s.Sub(s.Narrow(v, 0, 0, n), s.Narrow(v, 0, n, n)), 1/l.config.Temperature)
	}
	logs := s.SegmentLogSoftmax(differences(checkpoint.ActorPrefix), segment, segments)
	if imitate {
		return s.Scale(s.Mean(s.Rows(logs, s.Int64(teacher, len(teacher)))), -1)
	}
	q := s.Detach(differences(""))
	return s.Scale(s.Sum(s.Mul(s.Exp(logs), s.Sub(logs, q))), 1/float64(segments))
}

// acting returns the network that plays, as a checkpoint and ready to score.
func (l *learner) acting() (*checkpoint.Checkpoint, *infer.GPUNetwork, error) {
	c, err := l.slow.Checkpoint()
	if err != nil {
		return nil, nil, err
	}
	net, err := infer.NewGPU(c)
	if err != nil {
		return nil, nil, fmt.Errorf("the weights went wrong, lower the learning rate: %w", err)
	}
	return c, net, nil
}
