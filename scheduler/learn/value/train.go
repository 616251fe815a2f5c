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

// Progress is how far a run is.
type Progress struct {
	Iteration, Iterations int
	ValueLoss, ActorLoss  float64 // means over the iteration's updates
	Allocation            float64 // mean over the iteration's episodes, 0 to 1
	Elapsed               time.Duration
}

// Score is how a policy does on the held-out workloads.
type Score struct {
	Allocation float64 // mean fraction of the GPUs that is given at the end
	Gain       float64 // that less FGD's on the same arrivals
	Worst      float64 // the least gain of one workload
}

// total is what networks are picked by: a gain on average that is not bought with a loss
// somewhere.
func (s Score) total() float64 { return s.Gain + s.Worst }

// Trainer learns on a family of workloads.
type Trainer struct {
	Config Config
	Nodes  []openb.Node
	Family []Workload // that workloads are drawn from

	Progress  func(Progress)                     // called after each iteration; may be nil
	Evaluated func(iteration int, s Score)       // called after each evaluation; may be nil
	Improved  func(*checkpoint.Checkpoint) error // gets the best network so far whenever there is a new one; may be nil

	player  player
	learner *learner
	memory  [][]snapshot // by episode
	held    []held
	best    *checkpoint.Checkpoint
	score   Score
	start   time.Time
}

// held is a held-out workload with what FGD makes of it.
type held struct {
	workload Workload
	seed     uint64
	fgd      float64
}

// Train runs until the iterations are done or ctx ends, and returns the network that was best
// on held-out workloads; when ctx ends early, the best so far with ctx's error.
func (t *Trainer) Train(ctx context.Context) (*checkpoint.Checkpoint, Score, error) {
	// libtorch orders the sums of a backward pass by counters that each thread has of its own.
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
	c := checkpoint.Random(t.Config.Architecture(), rand.New(rand.NewPCG(t.Config.Seed, 0x6c6561726e)))
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

// rng is a stream of random numbers of its own for each purpose, iteration and episode, so that
// it does not matter in which order episodes are played.
func (t *Trainer) rng(purpose, iteration, episode int) *rand.Rand {
	return rand.New(rand.NewPCG(t.Config.Seed, uint64(purpose)<<48|uint64(iteration)<<16|uint64(episode)))
}

// The purposes of random numbers, and the seeds of arrivals. What is published is evaluated on
// the seeds 42 to 51, which are far from both.
const (
	playing, learning, holding = 1, 2, 3

	trainingSeeds = 1 << 40
	heldOutSeeds  = 1 << 41
)

// holdOut draws the held-out workloads and plays FGD on them.
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

// iterate plays episodes and learns from the latest.
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
		if len(s) > 0 { // none where no pod fits anywhere
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

// episode plays one, with FGD and random placements in the first iterations and the network
// later.
func (t *Trainer) episode(i, e int, net *infer.GPUNetwork) ([]snapshot, float64, error) {
	rng := t.rng(playing, i, e)
	env, err := t.player.env(t.Config.draw(rng, t.Family[rng.IntN(len(t.Family))]))
	if err != nil {
		return nil, 0, err
	}
	imitate := i < t.Config.Imitation
	var pol policy.Policy = heuristic.NewFGD(env.Typical())
	random := 0.0
	switch {
	case !imitate:
		pol = neural.NewGPU("learning", net, env.Typical())
	case e > 0:
		random = t.Config.Exploration * rng.Float64()
	}
	w := newWatcher(t.Config, env, rng)
	o, err := eval.Episode(env, uint64(trainingSeeds)+rng.Uint64N(trainingSeeds), w.following(pol, imitate, random))
	if err != nil {
		return nil, 0, err
	}
	return w.end(), o.GPU.Allocation, nil
}

// allocation is the fraction of the GPUs that is given when the episode of a seed is over.
func allocation(env *sim.Env, seed uint64, p policy.Policy) (float64, error) {
	o, err := eval.Play(env, seed, p, nil)
	if err != nil {
		return 0, err
	}
	return o.GPU.Allocation, nil
}

// learn takes the iteration's updates.
func (t *Trainer) learn(i int, p *Progress) error {
	c := t.Config
	rng := t.rng(learning, i, 0)
	rate := c.LearningRate * (1 - 0.95*float64(i)/float64(c.Iterations))
	averaging := c.Averaging
	if i <= c.Imitation { // and the first turn that it plays
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

// quickAveraging is the least averaging as long as what plays was not learned from the network's
// own episodes: nobody wants to follow its first weights.
const quickAveraging = 0.02

// evaluate plays the held-out workloads and keeps the network if it is the best so far.
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

// parallel calls do for 0 to n-1, on all processors, and returns the errors.
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
