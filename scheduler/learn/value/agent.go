//go:build torch

package value

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/graph"
	"gnnsched/gnn/infer"
	"gnnsched/gnn/torch"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/neural"
)

// agent plays episodes and learns from the latest of them.
type agent struct {
	*learner
	task    task
	memory  [][]snapshot // by episode
	figures *figures
}

// task plays episodes and judges networks: on GPU clusters, or on clusters where pods of some kinds wait.
type task interface {
	// episode plays episode e of iteration i. It returns the snapshots, and a figure of how the episode went.
	episode(i, e int, net *infer.Network) ([]snapshot, float64, error)
	// hold draws the held-out workloads and lets the best rule play them.
	hold() error
	// evaluate lets a network play them.
	evaluate(net *infer.Network) (Evaluation, error)
	// learnsOn returns everything that distinguishes the nodes and workloads from others.
	learnsOn() []any
	// figure names the figure of episodes.
	figure() (tag, text string)
}

// rng returns the random numbers of a purpose, iteration and episode. Each has a stream of its own, so
// that the order in which episodes are played does not matter.
func (c Config) rng(purpose, iteration, episode int) *rand.Rand {
	return rand.New(rand.NewPCG(c.Seed, uint64(purpose)<<48|uint64(iteration)<<16|uint64(episode)))
}

// The purposes of random numbers, and the first seeds of arrivals. Published results use the seeds 42 to
// 51, which are far from both.
const (
	playing  = 1
	learning = 2
	holding  = 3

	trainingSeeds = 1 << 40
	heldOutSeeds  = 1 << 41
	judgedSeeds   = 1 << 42
	heldOutSeed   = 1 // of the held-out workloads
)

// iterate plays the episodes of iteration i, from 0, and learns.
func (a *agent) iterate(i int) error {
	c, err := a.Checkpoint()
	if err != nil {
		return err
	}
	net, err := ready(c)
	if err != nil {
		return err
	}
	n := a.config.Episodes
	taken, went := make([][]snapshot, n), make([]float64, n)
	if err := parallel(n, func(e int) (err error) {
		taken[e], went[e], err = a.task.episode(i, e, net)
		return err
	}); err != nil {
		return err
	}
	tag, _ := a.task.figure()
	for e, s := range taken {
		a.figures.Add(tag, went[e])
		if len(s) > 0 { // there is none if no pod fits on any node
			a.memory = append(a.memory, s)
		}
	}
	a.memory = slices.Delete(a.memory, 0, max(len(a.memory)-a.config.Remember, 0))
	if len(a.memory) == 0 {
		return errors.New("no pod of the workloads fits on any node")
	}
	return a.learn(i)
}

// episode plays episode e of iteration i: with FGD and random placements in the first iterations, with
// the network later. It returns the snapshots and the allocation. A good network seldom meets a
// cluster in which a kind of pod is about to lose its last slots, and would forget what that costs. So
// some episodes have random placements until a part of the GPUs is allocated, and are recorded from
// then on.
func (c *gpuTask) episode(i, e int, net *infer.Network) ([]snapshot, float64, error) {
	rng := c.config.rng(playing, i, e)
	w := c.config.draw(rng, c.family[rng.IntN(len(c.family))])
	env, err := c.env(w)
	if err != nil {
		return nil, 0, err
	}
	r := newRecorder(c.config, env, rng, heuristic.NewFGD(env.Typical()))
	r.teacher = i < c.config.Imitation
	switch {
	case !r.teacher:
		r.policy = learningPolicy(net)(policy.Setting{Typical: env.Typical()})
		if rng.Float64() < c.config.Disturbed {
			r.random, r.until = rng.Float64(), 0.2+0.6*rng.Float64()
		}
	case e > 0:
		r.random = c.config.Exploration * rng.Float64()
	}
	o, err := eval.Episode(env, uint64(trainingSeeds)+rng.Uint64N(trainingSeeds), r.decide)
	if err != nil {
		return nil, 0, err
	}
	return r.end(), o.GPU.Allocation, nil
}

// learningPolicy returns a constructor of the policy of a network that learns.
func learningPolicy(net *infer.Network) func(policy.Setting) policy.Policy {
	return func(s policy.Setting) policy.Policy { return neural.New("learning", net, s.Typical) }
}

// learn takes the updates of iteration i and notes their losses.
func (a *agent) learn(i int) error {
	c := a.config
	rng := c.rng(learning, i, 0)
	rate := c.LearningRate * (1 - (1-lastRate)*float64(i)/float64(c.Iterations))
	averaging := c.Averaging
	if i <= c.Imitation { // including the first iteration in which the network plays
		averaging = max(averaging, quickAveraging)
	}
	a.figures.Add(tagLearningRate, rate)
	batch := make([]*snapshot, c.BatchSnapshots)
	for range c.Updates {
		for k := range batch {
			episode := a.memory[rng.IntN(len(a.memory))]
			batch[k] = &episode[rng.IntN(len(episode))]
		}
		l, err := a.update(rng, batch, rate, averaging, i < c.Imitation)
		if err != nil {
			return err
		}
		a.figures.Add(tagValueLoss, l.value)
		if c.actor() {
			a.figures.Add(tagActorLoss, l.actor)
		}
	}
	return nil
}

// quickAveraging is the smallest averaging until the network learns from its own episodes. The average
// must forget the random weights at the start.
const quickAveraging = 0.02

// trace returns the fingerprint of the nodes and workloads that the agent learns on.
func (a *agent) trace() ([]byte, error) {
	h := sha256.New()
	err := json.NewEncoder(h).Encode(a.task.learnsOn())
	return h.Sum(nil), err
}

// state returns the values from which restore continues.
func (a *agent) state() ([]any, error) {
	l, err := a.Export()
	trace, failed := a.trace()
	return []any{l, trace, a.memory}, errors.Join(err, failed)
}

// restore brings a new agent to a state. read decodes its values into pointers.
func (a *agent) restore(read func(into ...any) error) error {
	var l torch.TraineeState
	var learned []byte
	if err := read(&l, &learned, &a.memory); err != nil {
		return err
	}
	trace, err := a.trace()
	if err != nil {
		return err
	}
	if !slices.Equal(learned, trace) {
		return errors.New("it learned on other nodes or pods: name the same files")
	}
	for _, episode := range a.memory {
		if err := a.config.check(episode); err != nil {
			return err
		}
	}
	return a.Import(l)
}

// check returns an error if the snapshots of an episode are not of the configuration.
func (c Config) check(episode []snapshot) error {
	if len(episode) == 0 {
		return errors.New("an episode has no snapshot")
	}
	widths := c.layout().Widths
	of := func(nodes []graph.GPUNode) bool {
		return !slices.ContainsFunc(nodes, func(n graph.GPUNode) bool { return len(n.X) != widths.Node })
	}
	for _, s := range episode {
		if len(s.Nodes) == 0 || len(s.Targets) != len(s.Nodes) || len(s.Before) != len(s.After) || s.Teacher < -1 ||
			s.Teacher >= max(len(s.Before), 1) {
			return fmt.Errorf("a snapshot has %d nodes with %d targets, %d candidates before and %d after a placement, and choice %d",
				len(s.Nodes), len(s.Targets), len(s.Before), len(s.After), s.Teacher)
		}
		if c.Graph == checkpoint.KindsGraph && c.actor() && (len(s.Actor) != len(s.Nodes) || len(s.Before) != len(s.Nodes)) {
			return fmt.Errorf("a snapshot has %d kinds, of which an actor sees %d, and %d before they lose a place", len(s.Nodes), len(s.Actor),
				len(s.Before))
		}
		if len(s.Cluster) != widths.Cluster || !of(s.Nodes) || !of(s.Before) || !of(s.After) || !of(s.Actor) {
			return errors.New("a snapshot has other features than the network reads")
		}
	}
	return nil
}

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
	value float64 // mean squared error of v, in devices², or of logarithms of what waits
	actor float64 // cross-entropy against the teacher, divergence from the Boltzmann distribution of the values, or priceLoss
	norm  float64 // of the gradient, before it was limited
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
	sum.norm, err = l.Step(&s, loss, torch.Descent{Rate: rate, Limit: l.config.ClipNorm, Apart: checkpoint.ActorPrefix})
	if err != nil {
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
		prices[i] = float32(neural.PriceScale * p)
	}
	a := l.Net.Values(s, &actor, true)
	return s.Mean(s.Sub(s.Exp(a), s.Mul(s.Float32(prices, len(prices), 1), a)))
}

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
