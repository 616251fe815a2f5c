//go:build torch

package value

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/graph"
	"gnnsched/gnn/infer"
	"gnnsched/gnn/torch"
)

// learner trains the network to predict v, a node's part of the cost to come, from snapshots of played
// episodes.
type learner struct {
	*torch.Trainee // Slow is the average of Net over the updates, and plays the episodes
	config         Config
}

func newLearner(c Config, start *checkpoint.Checkpoint) (*learner, error) {
	t, err := torch.NewTrainee(start, c.LearningRate, true)
	return &learner{Trainee: t, config: c}, err
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
		var a *torch.Tensor
		if l.config.Graph == checkpoint.KindsGraph {
			a = l.priceLoss(&s, rng, snapshots)
		} else {
			a = l.actorLoss(&s, snapshots, imitate)
		}
		if a != nil {
			sum.actor = s.Float(a)
			loss = s.Add(loss, a)
		}
	}
	// The gradients of actor and value differ in size, so each has a limit of its own.
	if _, err := l.Step(&s, loss, torch.Descent{Rate: rate, Limit: l.config.ClipNorm, Apart: checkpoint.ActorPrefix}); err != nil {
		return sum, err
	}
	return sum, l.Slow.Blend(&l.Net.Parameters, averaging)
}

// valueLoss returns the mean squared error of v on nodes drawn from each snapshot.
func (l *learner) valueLoss(s *torch.Scope, rng *rand.Rand, snapshots []*snapshot) *torch.Tensor {
	var b graph.Batch
	var targets []float32
	for _, x := range snapshots {
		b.Begin(x.Cluster)
		for range l.config.BatchNodes {
			i := rng.IntN(len(x.Nodes))
			b.AddStar(&x.Nodes[i])
			targets = append(targets, x.Targets[i])
		}
	}
	v := l.Net.Values(s, &b, false)
	return s.Mean(s.Square(s.Sub(v, s.Float32(targets, len(targets), 1))))
}

// actorLoss returns the mean over the snapshots of -log π(teacher), if the actor imitates, and otherwise
// of Σ π (log π - Q / temperature). Here π = softmax((a(before) - a(after)) / temperature) is the
// policy over the candidates of a snapshot, and Q = v(before) - v(after). The loss is nil if no
// snapshot has candidates to learn from.
func (l *learner) actorLoss(s *torch.Scope, snapshots []*snapshot, imitate bool) *torch.Tensor {
	var b graph.Batch
	var segment, teacher []int64
	segments := 0
	add := func(after bool) {
		for _, x := range snapshots {
			if len(x.Before) < 2 || imitate && x.Teacher < 0 {
				continue
			}
			b.Begin(x.Cluster)
			of := x.Before
			if after {
				of = x.After
			} else {
				if x.Teacher >= 0 {
					teacher = append(teacher, int64(len(segment)+x.Teacher))
				}
				for range of {
					segment = append(segment, int64(segments))
				}
				segments++
			}
			for i := range of {
				b.AddStar(&of[i])
			}
		}
	}
	add(false)
	add(true)
	n := len(segment)
	if n == 0 {
		return nil
	}
	differences := func(actor bool) *torch.Tensor {
		v := l.Net.Values(s, &b, actor)
		return s.Scale(s.Sub(s.Narrow(v, 0, 0, n), s.Narrow(v, 0, n, n)), 1/l.config.Temperature)
	}
	logs := s.SegmentLogSoftmax(differences(true), segment, segments)
	if imitate {
		return s.Scale(s.Mean(s.Rows(logs, s.Int64(teacher, len(teacher)))), -1)
	}
	q := s.Detach(differences(false))
	return s.Scale(s.Sum(s.Mul(s.Exp(logs), s.Sub(logs, q))), 1/float64(segments))
}

// priceLoss is the Poisson regression of the actor's outputs a, logarithms of prices, on the critic's prices p: the mean of exp(a) - p a
// over kinds drawn from each snapshot. Its minimum is the mean of p over all kinds that look alike to the actor. A mean is right, for
// the cost of a placement is a sum of prices.
//
// If the actor hears of places, p is what more the critic expects the kind to wait for once it has lost a place. If not, p is all that
// it expects the kind to wait for then. The loss is nil if the scope has failed.
func (l *learner) priceLoss(s *torch.Scope, rng *rand.Rand, snapshots []*snapshot) *torch.Tensor {
	var actor, before, after graph.Batch
	for _, x := range snapshots {
		for _, b := range []*graph.Batch{&actor, &before, &after} {
			b.Begin(x.Cluster)
		}
		for range l.config.BatchNodes {
			i := rng.IntN(len(x.Actor))
			actor.AddStar(&x.Actor[i])
			before.AddStar(&x.Before[i])
			after.AddStar(&x.After[i])
		}
	}
	low, prices := s.Float32s(l.Net.Values(s, &before, false)), s.Float32s(l.Net.Values(s, &after, false))
	if len(low) == 0 || len(low) != len(prices) {
		return nil
	}
	for i := range prices {
		p := math.Exp(float64(prices[i]))
		if l.config.Encoder == checkpoint.GNN {
			p = max(p-math.Exp(float64(low[i])), 0)
		}
		prices[i] = float32(priceScale * p)
	}
	a := l.Net.Values(s, &actor, true)
	return s.Mean(s.Sub(s.Exp(a), s.Mul(s.Float32(prices, len(prices), 1), a)))
}

// priceScale makes prices, in percent of the cluster, numbers around 1. Only the ratios of prices count.
const priceScale = 100

// Checkpoint returns the network that plays.
func (l *learner) Checkpoint() (*checkpoint.Checkpoint, error) { return l.Slow.Checkpoint() }

// ready returns a network that Checkpoint returned, ready to score.
func ready(c *checkpoint.Checkpoint) (*infer.Network, error) {
	net, err := infer.New(c)
	if err != nil {
		return nil, fmt.Errorf("the weights went wrong, lower the learning rate: %w", err)
	}
	return net, nil
}
