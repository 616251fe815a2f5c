//go:build torch

package value

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/neural"
	"gnnsched/scheduler/sim"
	"gnnsched/workload/trace/openb"
)

// Progress tells how far a run is.
type Progress struct {
	Iteration, Iterations int
	ValueLoss, ActorLoss  float64 // means over the iteration's updates; in devices², and in nats
	Allocation            float64 // mean over the iteration's episodes, 0 to 1
	Elapsed               time.Duration
}

// Score is the result of an evaluation on the held-out workloads.
type Score struct {
	Allocation float64 // mean fraction of the GPUs that is allocated at the end
	Gain       float64 // Allocation minus FGD's on the same arrivals
	Worst      float64 // the smallest gain on a workload
}

// total is the number by which networks are chosen: the mean gain counts as much as the worst one, so that
// a gain on average is not bought with a loss on one workload.
func (s Score) total() float64 { return s.Gain + s.Worst }

// Trainer runs the training on a family of workloads. The fields are set before Train, which is called
// once.
type Trainer struct {
	Config Config
	Nodes  []openb.Node
	Family []Workload // from which workloads are drawn

	Progress  func(Progress)                     // called after each iteration; may be nil
	Evaluated func(iteration int, s Score)       // called after each evaluation; may be nil
	Improved  func(*checkpoint.Checkpoint) error // called with every network that is the best so far; may be nil

	player  player
	learner *learner
	memory  [][]snapshot // by episode
	held    []held
	best    *checkpoint.Checkpoint
	score   Score
	start   time.Time
}

// held is a held-out workload, with the allocation that FGD reaches on it.
type held struct {
	workload Workload
	seed     uint64
	fgd      float64
}

// Train runs until the iterations are done or ctx ends, and returns the network that is best on the
// held-out workloads. When ctx ends early, Train returns the best network so far with ctx's error.
func (t *Trainer) Train(ctx context.Context) (*checkpoint.Checkpoint, Score, error) {
	// libtorch orders the sums of a backward pass by counters that each thread has of its own: a
	// run that changes threads would not give the same weights twice.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := t.prepare(); err != nil {
		return nil, Score{}, err
	}
	defer t.learner.drop()
	for i := range t.Config.Iterations {
		if ctx.Err() != nil {
			break
		}
		if err := t.iterate(i); err != nil {
			return nil, Score{}, fmt.Errorf("iteration %d: %w", i+1, err)
		}
		if (i+1)%t.Config.EvaluateEvery == 0 || i+1 == t.Config.Iterations {
			if err := t.evaluate(i + 1); err != nil {
				return nil, Score{}, fmt.Errorf("evaluation after iteration %d: %w", i+1, err)
			}
		}
	}
	if t.best == nil {
		return nil, Score{}, fmt.Errorf("before the first evaluation: %w", ctx.Err())
	}
	return t.best, t.score, ctx.Err()
}

func (t *Trainer) prepare() error {
	if err := t.Config.Validate(); err != nil {
		return fmt.Errorf("training configuration: %w", err)
	}
	if len(t.Family) == 0 {
		return errors.New("no workload to learn on: name pod files of a trace")
	}
	for _, w := range t.Family {
		if !slices.ContainsFunc(w.Pods, func(p openb.Pod) bool { return p.GPUs > 0 }) {
			return fmt.Errorf("workload %s: %w", w.Name, openb.ErrNoGPU)
		}
	}
	t.start = time.Now()
	t.player = player{t.Config, t.Nodes}
	c := checkpoint.Random(t.Config.architecture(), rand.New(rand.NewPCG(t.Config.Seed, 0x6c6561726e)))
	t.Config.Family = nil
	for _, w := range t.Family {
		t.Config.Family = append(t.Config.Family, w.Name)
	}
	var err error
	if c.Manifest.Config, err = json.Marshal(t.Config); err != nil {
		return err
	}
	c.Manifest.Seed, c.Manifest.Objective = t.Config.Seed, "gpu-allocation"
	if t.learner, err = newLearner(t.Config, c); err != nil {
		return err
	}
	return t.holdOut()
}

// rng returns the random numbers of a purpose, iteration and episode. Each has a stream of its own, so
// that the order in which episodes are played does not matter.
func (t *Trainer) rng(purpose, iteration, episode int) *rand.Rand {
	return rand.New(rand.NewPCG(t.Config.Seed, uint64(purpose)<<48|uint64(iteration)<<16|uint64(episode)))
}

// The purposes of random numbers, and the first seeds of arrivals. Published results use the seeds 42 to
// 51, which are far from both.
const (
	playing  = 1
	learning = 2
	holding  = 3

	trainingSeeds = 1 << 40
	heldOutSeeds  = 1 << 41
)

// holdOut draws the held-out workloads and lets FGD play them.
func (t *Trainer) holdOut() error {
	t.held = make([]held, t.Config.EvaluateWorkloads)
	return parallel(len(t.held), func(i int) error {
		w := t.Config.draw(t.rng(holding, 0, i), t.Family[i%len(t.Family)])
		env, err := t.player.env(w)
		if err != nil {
			return err
		}
		t.held[i] = held{workload: w, seed: heldOutSeeds + uint64(i)}
		t.held[i].fgd, err = allocation(env, t.held[i].seed, heuristic.NewFGD(env.Typical()))
		return err
	})
}

// iterate plays episodes and learns from the latest ones.
func (t *Trainer) iterate(i int) error {
	_, net, err := t.learner.acting()
	if err != nil {
		return err
	}
	n := t.Config.Episodes
	taken, allocations := make([][]snapshot, n), make([]float64, n)
	if err := parallel(n, func(e int) (err error) {
		taken[e], allocations[e], err = t.episode(i, e, net)
		return err
	}); err != nil {
		return err
	}
	for _, s := range taken {
		if len(s) > 0 { // there is none if no pod fits on any node
			t.memory = append(t.memory, s)
		}
	}
	t.memory = slices.Delete(t.memory, 0, max(len(t.memory)-t.Config.Remember, 0))
	if len(t.memory) == 0 {
		return errors.New("no pod of the workloads fits on any node")
	}
	p := Progress{Iteration: i + 1, Iterations: t.Config.Iterations}
	if err := t.learn(i, &p); err != nil {
		return err
	}
	for _, a := range allocations {
		p.Allocation += a / float64(n)
	}
	if p.Elapsed = time.Since(t.start); t.Progress != nil {
		t.Progress(p)
	}
	return nil
}

// episode plays episode e of iteration i: with FGD and random placements in the first iterations, with
// the network later. It returns the snapshots and the allocation.
func (t *Trainer) episode(i, e int, net *infer.GPUNetwork) ([]snapshot, float64, error) {
	rng := t.rng(playing, i, e)
	env, err := t.player.env(t.Config.draw(rng, t.Family[rng.IntN(len(t.Family))]))
	if err != nil {
		return nil, 0, err
	}
	r := newRecorder(t.Config, env, rng, heuristic.NewFGD(env.Typical()))
	r.teacher = i < t.Config.Imitation
	switch {
	case !r.teacher:
		r.policy = neural.NewGPU("learning", net, env.Typical())
	case e > 0:
		r.random = t.Config.Exploration * rng.Float64()
	}
	o, err := eval.Episode(env, uint64(trainingSeeds)+rng.Uint64N(trainingSeeds), r.decide)
	if err != nil {
		return nil, 0, err
	}
	return r.end(), o.GPU.Allocation, nil
}

// allocation returns the fraction of the GPUs that p has allocated at the end of a seed's episode.
func allocation(env *sim.Env, seed uint64, p policy.Policy) (float64, error) {
	o, err := eval.Play(env, seed, p, nil)
	if err != nil {
		return 0, err
	}
	return o.GPU.Allocation, nil
}

// learn takes the iteration's updates and notes their losses.
func (t *Trainer) learn(i int, p *Progress) error {
	c := t.Config
	rng := t.rng(learning, i, 0)
	rate := c.LearningRate * (1 - 0.95*float64(i)/float64(c.Iterations))
	averaging := c.Averaging
	if i <= c.Imitation { // including the first iteration in which the network plays
		averaging = max(averaging, quickAveraging)
	}
	batch := make([]*snapshot, c.BatchSnapshots)
	for range c.Updates {
		for k := range batch {
			episode := t.memory[rng.IntN(len(t.memory))]
			batch[k] = &episode[rng.IntN(len(episode))]
		}
		l, err := t.learner.update(rng, batch, rate, averaging, i < c.Imitation)
		if err != nil {
			return err
		}
		p.ValueLoss += l.value / float64(c.Updates)
		p.ActorLoss += l.actor / float64(c.Updates)
	}
	return nil
}

// quickAveraging is the smallest averaging until the network learns from its own episodes. The average
// must forget the random weights at the start.
const quickAveraging = 0.02

// evaluate lets the network play the held-out workloads and keeps it if it is the best so far.
func (t *Trainer) evaluate(iteration int) error {
	c, net, err := t.learner.acting()
	if err != nil {
		return err
	}
	gains, allocations := make([]float64, len(t.held)), make([]float64, len(t.held))
	if err := parallel(len(t.held), func(i int) error {
		h := t.held[i]
		env, err := t.player.env(h.workload)
		if err != nil {
			return err
		}
		allocations[i], err = allocation(env, h.seed, neural.NewGPU("learning", net, env.Typical()))
		gains[i] = allocations[i] - h.fgd
		return err
	}); err != nil {
		return err
	}
	s := Score{Worst: gains[0]}
	for i, g := range gains {
		s.Gain += g / float64(len(gains))
		s.Allocation += allocations[i] / float64(len(gains))
		s.Worst = min(s.Worst, g)
	}
	if t.best == nil || s.total() > t.score.total() {
		t.best, t.score = c, s
		c.Manifest.Training = map[string]float64{
			"iteration": float64(iteration), "seconds": time.Since(t.start).Seconds(),
			"heldOutAllocation": s.Allocation, "heldOutGain": s.Gain, "heldOutWorstGain": s.Worst,
		}
		if t.Improved != nil {
			if err := t.Improved(c); err != nil {
				return err
			}
		}
	}
	if t.Evaluated != nil {
		t.Evaluated(iteration, s)
	}
	return nil
}

// parallel calls do for 0 to n-1, on all processors, and returns all errors.
func parallel(n int, do func(i int) error) error {
	errs := make([]error, n)
	gate := make(chan struct{}, runtime.GOMAXPROCS(0))
	var wg sync.WaitGroup
	for i := range n {
		wg.Add(1)
		gate <- struct{}{}
		go func() {
			defer func() { <-gate; wg.Done() }()
			errs[i] = do(i)
		}()
	}
	wg.Wait()
	return errors.Join(errs...)
}
