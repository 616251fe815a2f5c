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

	"golang.org/x/sync/errgroup"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/learn/run"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/sim"
	"gnnsched/workload/trace/openb"
)

// score is the result of an evaluation on the held-out workloads.
type score struct {
	allocation float64   // mean fraction of the GPUs that is allocated at the end
	gain       float64   // mean over workloads and loads of the allocation minus FGD's on the same arrivals
	worst      float64   // the smallest gain on a workload at a load
	gains      []float64 // mean over the workloads at each of Config.loads
}

// evaluation returns the score for the run. The mean gain counts as much as the
// worst one, so that a gain on average is not bought with a loss on one workload.
func (s score) evaluation() run.Evaluation {
	total := -(s.gain + s.worst)
	text := ""
	for _, g := range s.gains {
		text += fmt.Sprintf(" %+.2f", 100*g)
	}
	return run.Evaluation{
		Total:   total,
		Figures: map[string]float64{"heldOutAllocation": s.allocation, "heldOutGain": s.gain, "heldOutWorstGain": s.worst},
		Curves:  []run.Scalar{{Tag: tagGain, Value: s.gain}, {Tag: tagWorstGain, Value: s.worst}},
		Text: fmt.Sprintf("GPU allocation %.2f%%, %+.2f points against FGD over all loads, %+.2f at worst, by load%s",
			100*s.allocation, 100*s.gain, 100*s.worst, text),
		Short: fmt.Sprintf("gain + worst %+.2f points", -100*total),
	}
}

// The tags of the figures that a run reports.
const (
	tagValueLoss  = "losses/value_loss"
	tagActorLoss  = "losses/policy_loss"
	tagAllocation = "charts/gpu_allocation"
	tagGain       = "eval/gain_over_fgd"
	tagWorstGain  = "eval/worst_gain_over_fgd"
)

// Trainer runs the training on a family of workloads. The fields are set before Train, which is called
// once.
type Trainer struct {
	Config Config
	Nodes  []openb.Node
	Family []Workload             // from which workloads are drawn
	Start  *checkpoint.Checkpoint // whose weights the network begins with, of the configuration's architecture; nil: random ones
	run.Options

	task    task
	figures run.Figures
}

// gpuTask is episodes on GPU clusters with workloads of a family.
type gpuTask struct {
	player
	family []Workload
	held   []held
}

// held is a held-out workload, with the allocations that FGD reaches on it.
type held struct {
	workload Workload
	seed     uint64
	fgd      []float64 // at each of the loads
}

// Train runs until the iterations are done or ctx ends, and returns the network that is best on the
// held-out workloads; see run.Loop.Run. When ctx ends, the current iteration is completed first.
func (t *Trainer) Train(ctx context.Context) (*checkpoint.Checkpoint, run.Evaluation, error) {
	start, err := t.prepare()
	if err != nil {
		return nil, run.Evaluation{}, err
	}
	l := run.Loop{
		Options: t.Options, Job: start.Manifest.Config, Unit: "iteration", Steps: t.Config.Iterations,
		EvaluateEvery: t.Config.EvaluateEvery, ReportEvery: 1,
		New: func() (run.Learner, error) { return t.newAgent(start) },
		Evaluate: func(c *checkpoint.Checkpoint) (run.Evaluation, error) {
			net, err := ready(c)
			if err != nil {
				return run.Evaluation{}, err
			}
			return t.task.evaluate(net)
		}, Describe: t.describe, Figures: &t.figures,
	}
	return l.Run(ctx)
}

// prepare checks the trainer's fields, lets FGD play the held-out workloads and returns the first weights.
func (t *Trainer) prepare() (*checkpoint.Checkpoint, error) {
	if err := t.Config.Validate(); err != nil {
		return nil, fmt.Errorf("training configuration: %w", err)
	}
	objective := "waiting"
	if t.Config.Graph == checkpoint.KindsGraph {
		t.task = &kindTask{config: t.Config}
	} else {
		if err := t.checkFamily(); err != nil {
			return nil, err
		}
		t.task, objective = &gpuTask{player: player{t.Config, t.Nodes}, family: t.Family}, "gpu-allocation"
	}
	c, err := t.first()
	if err != nil {
		return nil, err
	}
	if c.Manifest.Config, err = json.Marshal(t.Config); err != nil {
		return nil, fmt.Errorf("encode the configuration: %w", err)
	}
	c.Manifest.Seed, c.Manifest.Objective = t.Config.Seed, objective
	return c, t.task.hold()
}

// checkFamily returns an error if a workload of the family has no GPUs, and notes their names.
func (t *Trainer) checkFamily() error {
	if len(t.Family) == 0 {
		return errors.New("no workload to learn on: name pod files of a trace")
	}
	t.Config.Family = nil
	for _, w := range t.Family {
		if !slices.ContainsFunc(w.Pods, func(p openb.Pod) bool { return p.GPUs > 0 }) {
			return fmt.Errorf("workload %s: %w", w.Name, openb.ErrNoGPU)
		}
		t.Config.Family = append(t.Config.Family, w.Name)
	}
	return nil
}

// first returns the network that learns, before it does.
func (t *Trainer) first() (*checkpoint.Checkpoint, error) {
	c := checkpoint.Random(t.Config.architecture(), rand.New(rand.NewPCG(t.Config.Seed, 0x6c6561726e)))
	if t.Start == nil {
		return c, nil
	}
	c.Weights = t.Start.Weights
	return c, t.CheckStart()
}

// CheckStart returns an error if Start does not have the configuration's architecture. Train checks it too.
func (t *Trainer) CheckStart() error {
	if t.Start == nil {
		return nil
	}
	if has, want := t.Start.Manifest.Architecture, t.Config.architecture(); !has.Equal(want) {
		return fmt.Errorf("the network to begin with has the architecture %+v, and the configuration %+v", has, want)
	}
	return nil
}

// Resumed returns the configuration of a stored run.
func Resumed(s *run.State) (c Config, err error) { return c, json.Unmarshal(s.Stored, &c) }

func (c *gpuTask) learnsOn() []any { return []any{c.nodes, c.family} }

func (*gpuTask) figure() (tag, text string) { return tagAllocation, "allocation %.2f%%" }

// newAgent returns an agent that starts from the weights of start.
func (t *Trainer) newAgent(start *checkpoint.Checkpoint) (*agent, error) {
	l, err := newLearner(t.Config, start)
	return &agent{task: t.task, learner: l, figures: &t.figures}, err
}

// hold draws the held-out workloads, the same for every seed of the run, and lets FGD play them.
func (c *gpuTask) hold() error {
	c.held = make([]held, c.config.EvaluateWorkloads)
	same := c.config
	same.Seed = heldOutSeed
	return parallel(len(c.held), func(i int) (err error) {
		w := c.config.draw(same.rng(holding, 0, i), c.family[i%len(c.family)])
		h := held{workload: w, seed: heldOutSeeds + uint64(i)}
		h.fgd, err = c.play(h, func(env *sim.Env) policy.Policy { return heuristic.NewFGD(env.Typical()) })
		c.held[i] = h
		return err
	})
}

// play returns the fraction of the GPUs that a policy has allocated at each of the loads of a held-out workload.
func (c *gpuTask) play(h held, in func(*sim.Env) policy.Policy) (reached []float64, err error) {
	env, err := c.env(h.workload)
	if err != nil {
		return nil, err
	}
	o, err := eval.Play(env, h.seed, in(env), nil)
	if err != nil {
		return nil, err
	}
	for _, l := range o.GPU.Loads {
		reached = append(reached, l.Allocation)
	}
	return reached, nil
}

// evaluate lets a network play the held-out workloads.
func (c *gpuTask) evaluate(net *infer.Network) (run.Evaluation, error) {
	of := learningPolicy(net)
	reached := make([][]float64, len(c.held))
	if err := parallel(len(c.held), func(i int) (err error) {
		reached[i], err = c.play(c.held[i], func(env *sim.Env) policy.Policy { return of(policy.Setting{Typical: env.Typical()}) })
		return err
	}); err != nil {
		return run.Evaluation{}, err
	}
	return c.compare(reached).evaluation(), nil
}

// compare returns the score of allocations on the held-out workloads.
func (c *gpuTask) compare(reached [][]float64) score {
	n := float64(len(reached))
	s := score{worst: 1, gains: make([]float64, len(c.config.loads()))}
	for i, at := range reached {
		for k, a := range at {
			gain := a - c.held[i].fgd[k]
			s.gains[k] += gain / n
			s.gain += gain / n / float64(len(at))
			s.worst = min(s.worst, gain)
		}
		s.allocation += at[len(at)-1] / n
	}
	return s
}

// describe returns the figures of the last iteration in words: the mean figure of its episodes, and mean losses, in devices² and nats.
func (t *Trainer) describe(int) string {
	tag, text := t.task.figure()
	out := fmt.Sprintf(text+", loss %.4f", 100*t.figures.Last(tag), t.figures.Last(tagValueLoss))
	if t.Config.actor() {
		out += fmt.Sprintf(", policy loss %.4f", t.figures.Last(tagActorLoss))
	}
	return out
}

// parallel calls do for 0 to n-1, on all processors, and returns the first error.
func parallel(n int, do func(i int) error) error {
	var work errgroup.Group
	work.SetLimit(runtime.GOMAXPROCS(0))
	for i := range n {
		work.Go(func() error { return do(i) })
	}
	return work.Wait()
}
