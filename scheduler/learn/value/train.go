//go:build torch

package value

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/feature"
	"gnnsched/gnn/infer"
	"gnnsched/internal/cluster"
	"gnnsched/internal/each"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/neural"
	"gnnsched/scheduler/policy/supply"
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
func (s score) evaluation() Evaluation {
	total := -(s.gain + s.worst)
	text := ""
	for _, g := range s.gains {
		text += fmt.Sprintf(" %+.2f", 100*g)
	}
	return Evaluation{
		Total:   total,
		Figures: map[string]float64{"heldOutAllocation": s.allocation, "heldOutGain": s.gain, "heldOutWorstGain": s.worst},
		curves:  []scalar{{tagGain, s.gain}, {tagWorstGain, s.worst}},
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

	tagLearningRate = "charts/learning_rate"
	tagSpeed        = "charts/SPS"           // iterations a second
	tagNorm         = "losses/gradient_norm" // before it was limited
)

// Trainer runs the training on a family of workloads, on scenarios or on a record. The fields are set before Train, which is called
// once.
type Trainer struct {
	Config Config
	Nodes  []openb.Node
	Family []Workload             // from which workloads are drawn
	Start  *checkpoint.Checkpoint // whose weights the network begins with, of the configuration's architecture; nil: random ones
	Options

	task    task
	kinds   *kindTask // the task, on the graph of kinds
	figures figures

	agent     *agent
	iteration int           // that comes next, from 0
	from      int           // iteration that this process began with
	start     time.Time     // of this process
	before    time.Duration // that earlier processes took
	best      *checkpoint.Checkpoint
	bestScore Evaluation
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

// prepare checks the trainer's fields, lets a rule play the held-out workloads and returns the first weights.
func (t *Trainer) prepare() (c *checkpoint.Checkpoint, err error) {
	if err := t.Check(); err != nil {
		return nil, err
	}
	objective := "waiting"
	if t.kinds != nil {
		t.task = t.kinds
		if r := t.kinds.record; r != nil && t.Note != nil {
			t.Note(r.String())
		}
	} else {
		t.task, objective = &gpuTask{player: player{t.Config, t.Nodes}, family: t.Family}, "gpu-allocation"
	}
	c = checkpoint.Random(t.Config.architecture(), rand.New(rand.NewPCG(t.Config.Seed, 0x6c6561726e)))
	if t.Start != nil {
		c.Weights = t.Start.Weights
	}
	if c.Manifest.Config, err = t.Config.stored(); err != nil {
		return nil, err
	}
	c.Manifest.Seed, c.Manifest.Objective = t.Config.Seed, objective
	if err := t.task.hold(); err != nil {
		return nil, err
	}
	if t.kinds != nil && t.Note != nil && slices.Max(t.kinds.price) == 0 {
		t.Note("under the rule price nothing waits in the episodes to choose on, so that a network has nothing to win")
	}
	return c, nil
}

// Check returns an error if the fields do not fit together, or a record cannot be learned on. Train checks it too.
func (t *Trainer) Check() (err error) {
	if err := t.Config.Validate(); err != nil {
		return fmt.Errorf("training configuration: %w", err)
	}
	if t.Start != nil {
		if has, want := t.Start.Manifest.Architecture, t.Config.architecture(); !has.Equal(want) {
			return fmt.Errorf("the network to begin with has the architecture %+v, and the configuration %+v: "+
				"name another one, or choose encoder, head, hidden and features with --config", has, want)
		}
	}
	if t.Config.Graph != checkpoint.KindsGraph {
		return t.checkFamily()
	}
	if t.kinds == nil {
		t.kinds, err = newKindTask(t.Config)
	}
	return err
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

// Resumed returns the configuration of a stored run.
func Resumed(s *State) (c Config, err error) { return c, json.Unmarshal(s.Stored, &c) }

func (c *gpuTask) learnsOn() []any { return []any{c.nodes, c.family} }

func (*gpuTask) figure() (tag, text string) { return tagAllocation, "allocation %.2f%%" }

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
func (c *gpuTask) evaluate(net *infer.Network) (Evaluation, error) {
	of := learningPolicy(net)
	reached := make([][]float64, len(c.held))
	if err := parallel(len(c.held), func(i int) (err error) {
		reached[i], err = c.play(c.held[i], func(env *sim.Env) policy.Policy { return of(policy.Setting{Typical: env.Typical()}) })
		return err
	}); err != nil {
		return Evaluation{}, err
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

// describe returns the figures of the last iteration in words: the mean figure of its episodes, and mean losses.
func (t *Trainer) describe() string {
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

// kindTask plays scenarios in which pods of some kinds wait. The cost at a moment is the sum of what the waiting pods request. The network
// learns each kind's part of that sum.
type kindTask struct {
	config        Config
	learn, choose []sim.Config // episodes to learn on, and to choose the best network on
	judge         []sim.Config // episodes to judge that network on, with other seeds
	record        *eval.Recorded
	price         []float64 // what waits in each episode to choose on under the rule price
}

// newKindTask returns the task of a configuration: on its record if it has one, else on its scenarios.
func newKindTask(c Config) (*kindTask, error) {
	t := &kindTask{config: c}
	if c.Trace == "" {
		all, err := eval.ChooseScenarios(c.Scenarios, "")
		t.learn = each.Map(all, func(s eval.Scenario) sim.Config { return s.Config })
		t.choose, t.judge = t.learn, t.learn
		return t, err
	}
	r, err := eval.OfRecord(c.Trace, objective.Mix{{Term: objective.Waiting{}, Weight: 1}}, eval.ThreeParts)
	if err != nil {
		return nil, err
	}
	t.record, t.learn, t.choose, t.judge = &r, []sim.Config{r.Learn.Config}, []sim.Config{r.Judge.Config}, []sim.Config{r.Judge.Config}
	if r.Choose != nil {
		t.choose = []sim.Config{r.Choose.Config}
	}
	return t, nil
}

const tagWaiting = "charts/waiting"

func (c *kindTask) learnsOn() []any { return []any{c.learn} }

func (*kindTask) figure() (tag, text string) { return tagWaiting, "waiting %.2f%% of the cluster" }

// episode implements task. In the first iterations linear plays. Some placements are random in every second episode.
func (c *kindTask) episode(i, e int, net *infer.Network) ([]snapshot, float64, error) {
	rng := c.config.rng(playing, i, e)
	env, err := sim.New(c.learn[rng.IntN(len(c.learn))])
	if err != nil {
		return nil, 0, err
	}
	r := &kindRecorder{config: c.config, rng: rng, encoder: newKindEncoder(c.config), waits: map[*cluster.Kind][]float64{}}
	if r.policy = learningPolicy(net)(policy.Setting{}); i < c.config.Imitation {
		if r.policy, err = ruled("linear"); err != nil {
			return nil, 0, err
		}
	}
	if e%2 > 0 {
		r.random = c.config.Exploration * rng.Float64()
	}
	o, err := eval.Episode(env, uint64(trainingSeeds)+rng.Uint64N(trainingSeeds), r.decide)
	if err != nil {
		return nil, 0, err
	}
	return r.end(), o.Waiting, nil
}

// ruled returns the rule of a name.
func ruled(name string) (policy.Policy, error) {
	h, err := heuristic.Find(name)
	if err != nil {
		return nil, err
	}
	return h.New(policy.Setting{}), nil
}

// hold implements task.
func (c *kindTask) hold() (err error) {
	c.price, err = c.play(c.choose, heldOutSeeds, func() (policy.Policy, error) { return ruled("price") })
	return err
}

// play returns what waits in each of the held-out episodes of some configurations under a policy. first is the seed of the first.
func (c *kindTask) play(on []sim.Config, first uint64, of func() (policy.Policy, error)) ([]float64, error) {
	waiting := make([]float64, c.config.EvaluateWorkloads)
	return waiting, parallel(len(waiting), func(i int) error {
		env, err := sim.New(on[i%len(on)])
		if err != nil {
			return err
		}
		p, err := of()
		if err != nil {
			return err
		}
		o, err := eval.Play(env, first+uint64(i), p, nil)
		waiting[i] = o.Waiting
		return err
	})
}

// someWaiting is added to what waits before a ratio is taken, as a share of the cluster: what hardly waits should not decide.
const someWaiting = 0.001

// evaluate implements task. The score is the geometric mean over the episodes of what waits, over that under the rule price.
func (c *kindTask) evaluate(net *infer.Network) (Evaluation, error) {
	waiting, err := c.play(c.choose, heldOutSeeds, func() (policy.Policy, error) { return learningPolicy(net)(policy.Setting{}), nil })
	if err != nil {
		return Evaluation{}, err
	}
	var sum, logs float64
	for i, w := range waiting {
		sum, logs = sum+w, logs+math.Log((w+someWaiting)/(c.price[i]+someWaiting))
	}
	n := float64(len(waiting))
	total := math.Exp(logs / n)
	return Evaluation{
		Total:   total,
		Figures: map[string]float64{"heldOutWaiting": sum / n, "heldOutWaitingOverPrice": total},
		curves:  []scalar{{"eval/waiting_over_price", total}},
		Text:    fmt.Sprintf("waiting %.2f%% of the cluster, %.3f times that of the rule price", 100*sum/n, total),
		Short:   fmt.Sprintf("%.3f of price", total),
	}, nil
}

// judged are the rules that Judge plays beside a network.
var judged = []string{"price", "linear", "kube-scheduler"}

// Judge plays episodes that neither trained a network on the graph of kinds nor chose it with the network and with rules; of a record that
// is too short for three parts, episodes of the part that chose it. It returns what waits under each, in words, and for the network's
// manifest as shares of the cluster. The run must be over.
func (t *Trainer) Judge(c *checkpoint.Checkpoint) (text string, figures map[string]float64, err error) {
	net, err := ready(c)
	if err != nil {
		return "", nil, err
	}
	figures = map[string]float64{}
	of := func(tag string, p func() (policy.Policy, error)) (string, error) {
		waiting, err := t.kinds.play(t.kinds.judge, judgedSeeds, p)
		figures["judgedWaiting"+tag] = each.Sum(waiting, func(w float64) float64 { return w / float64(len(waiting)) })
		return fmt.Sprintf("%.3f%%", 100*figures["judgedWaiting"+tag]), err
	}
	if text, err = of("", func() (policy.Policy, error) { return learningPolicy(net)(policy.Setting{}), nil }); err != nil {
		return "", nil, err
	}
	on := "episodes that neither trained nor chose it"
	if r := t.kinds.record; r != nil && r.Choose == nil {
		on = "other episodes of the blocks that chose it"
	}
	text = "judged on " + on + ": " + text + " of the cluster waits"
	for _, name := range judged {
		under, err := of("."+name, func() (policy.Policy, error) { return ruled(name) })
		if err != nil {
			return "", nil, err
		}
		text += fmt.Sprintf(", under %s %s", name, under)
	}
	return text, figures, nil
}

// kindRecorder plays an episode with a policy and takes snapshots of the kinds.
type kindRecorder struct {
	config Config
	rng    *rand.Rand
	policy policy.Policy
	random float64 // share of random placements

	table   supply.Table
	encoder kindEncoder
	scores  []float32

	decisions, fill int                         // fill: until the cluster was full
	waits           map[*cluster.Kind][]float64 // sums up to each decision, in percent of the cluster; missing zeros come first
	taken           []snapshot
	at              []int // decision of each
	kinds           [][]*cluster.Kind
}

// decide implements eval.Decide.
func (r *kindRecorder) decide(env *sim.Env) (eval.Choice, error) {
	rows, s := env.Candidates(), env.Snapshot()
	r.scores = slices.Grow(r.scores[:0], len(rows))[:len(rows)]
	if err := r.policy.Score(s, env.Pending(), rows, r.scores); err != nil {
		return eval.Choice{}, err
	}
	capacity := objective.Capacity(s.Nodes)
	for _, k := range s.Demand.Kinds {
		r.add(k, 100*k.Waiting*objective.Share(k.Pod.Requests, capacity))
	}
	if r.decisions%r.config.SnapshotEvery == 0 {
		r.take(s)
	}
	if r.decisions++; !env.Filled() {
		r.fill = r.decisions
	}
	choice := policy.Best(r.scores)
	if r.random > 0 && r.rng.Float64() < r.random {
		choice = r.rng.IntN(len(rows))
	}
	return eval.Choice{Candidate: choice, Devices: policy.Devices(r.policy, s.Nodes[rows[choice]], env.Pending())}, nil
}

// add adds what a kind waits for at this decision.
func (r *kindRecorder) add(k *cluster.Kind, waits float64) {
	sums := r.waits[k]
	for len(sums) < r.decisions {
		sums = append(sums, r.until(sums, len(sums)-1))
	}
	r.waits[k] = append(sums, r.until(sums, len(sums)-1)+waits)
}

// until returns the sum up to a decision.
func (*kindRecorder) until(sums []float64, decision int) float64 {
	if decision = min(decision, len(sums)-1); decision < 0 {
		return 0
	}
	return sums[decision]
}

// take takes a snapshot.
func (r *kindRecorder) take(s *cluster.Snapshot) {
	r.table.Sync(s)
	r.encoder.stars.Look(&r.table)
	x := r.encoder.snapshot(r.encoder.stars.Seen())
	r.taken, r.at, r.kinds = append(r.taken, x), append(r.at, r.decisions), append(r.kinds, slices.Clone(s.Demand.Kinds))
}

// kindEncoder encodes kinds of pods as a network's critic and actor see them.
type kindEncoder struct {
	stars  *neural.KindStars
	actors *neural.KindStars // nil if there is no actor
}

func newKindEncoder(c Config) (e kindEncoder) {
	heard := c.Encoder == checkpoint.GNN
	e.stars = neural.NewKindStars(c.layout(), heard || c.actor())
	if c.actor() {
		e.actors = neural.NewKindStars(c.layout(), heard)
	}
	return e
}

// snapshot returns a snapshot without targets of what a KindStars has Seen.
func (e kindEncoder) snapshot(kinds []feature.Kind, sums feature.Kinds) snapshot {
	e.stars.See(kinds, sums)
	as := func(int) float64 { return 0 }
	x := snapshot{Cluster: slices.Clone(e.stars.Cluster()), Nodes: e.stars.All(as), Teacher: -1}
	if e.actors != nil {
		e.actors.See(kinds, sums)
		x.Actor, x.Before = e.actors.All(as), e.stars.All(e.stars.Loses)
		x.After = e.stars.All(func(k int) float64 { return e.stars.Loses(k) - 1 })
	}
	return x
}

// end returns the snapshots after the episode whose horizon lies within it, with their targets: for each kind the logarithm of what its
// pods wait for, on average over the horizon.
func (r *kindRecorder) end() (out []snapshot) {
	ahead := max(int(r.config.Horizon*float64(r.fill)), 1)
	for i, x := range r.taken {
		if len(r.kinds[i]) == 0 || r.at[i]+ahead >= r.decisions {
			continue
		}
		for _, k := range r.kinds[i] {
			sums := r.waits[k]
			mean := (r.until(sums, r.at[i]+ahead) - r.until(sums, r.at[i])) / float64(ahead)
			x.Targets = append(x.Targets, targetOf(mean))
		}
		out = append(out, x)
	}
	return out
}

// targetOf returns the target of a kind whose pods wait for so much on average over the horizon, in percent of the cluster.
func targetOf(waits float64) float32 { return float32(math.Log(waits + neural.KindOffset)) }
