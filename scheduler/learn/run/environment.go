package run

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/graph"
	"gnnsched/gnn/infer"
	"gnnsched/internal/cluster"
	"gnnsched/scheduler/encode"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/neural"
	"gnnsched/scheduler/sim"
	"gnnsched/workload"
)

// Environment plays episodes in the simulator, decision by decision. A decision is the
// choice of a node for the pending pod: Observe encodes it as a graph, Score and TeacherChoice say
// what to do, Step does it. When an episode is over, Begin starts the next.
type Environment struct {
	env      *sim.Env
	settings Settings
	teacher  policy.Policy // nil for none
	all      bool          // whether the network sees all feasible nodes; see Layout
	groups   bool          // whether the network reads the groups of running pods
	nextSeed func() uint64 // seed of the next episode
	figures  *Figures

	net     *infer.Network // the acting network
	encoder *encode.Encoder
	session *infer.Session // of net
	state   *graph.Graph   // of the decision at hand; the encoder owns it
	copied  *graph.Graph   // the last copy of a state
	scores  []float32      // the teacher's
	rows    []int32        // of the nodes that the network sees; reused

	progress
}

// progress is how far an environment is in its episode. It is part of the state file.
type progress struct {
	Seed    uint64  // of the episode
	Actions []int32 // taken so far
	Return  float64 // so far
}

// episode holds the totals of an episode, up to its end or its truncation.
type episode struct {
	ret     float64 // undiscounted sum of the rewards
	length  int     // placements
	outcome sim.Outcome
}

// emptyEpisodes is how many episodes in a row may be without any placement.
const emptyEpisodes = 100

// Begin starts the next episode in which something can be placed.
func (e *Environment) Begin() error {
	for range emptyEpisodes {
		e.progress = progress{Seed: e.nextSeed(), Actions: e.Actions[:0]}
		if err := e.env.Reset(e.Seed); err != nil {
			return fmt.Errorf("training episode %d: %w", e.Seed, err)
		}
		if !e.env.Done() {
			return nil
		}
	}
	return fmt.Errorf("nothing could be placed in %d training episodes: make the nodes larger or the pods smaller", emptyEpisodes)
}

// restore repeats the placements of another environment's episode up to where that was.
func (e *Environment) restore(p progress) error {
	if err := e.reset(p.Seed); err != nil {
		return err
	}
	if err := e.repeat(p.Actions); err != nil {
		return err
	}
	e.progress = p
	return nil
}

// reset begins the episode of a seed.
func (e *Environment) reset(seed uint64) error {
	e.progress = progress{Seed: seed}
	if err := e.env.Reset(seed); err != nil {
		return fmt.Errorf("training episode %d: %w", seed, err)
	}
	return nil
}

// repeat takes the next placements of an episode as they were taken before. Nobody is paid for them.
func (e *Environment) repeat(actions []int32) error {
	for _, a := range actions {
		if e.env.Done() || a < 0 || int(a) >= e.Candidates() {
			return fmt.Errorf("training episode %d cannot be repeated: placement %d does not exist; another version made it",
				e.Seed, len(e.Actions)+1)
		}
		candidate := e.candidate(int(a))
		e.env.StepOn(candidate, e.env.Snapshot().Nodes[e.env.Candidates()[candidate]].ChooseDevices(e.env.Pending().Requests))
		e.Actions = append(e.Actions, a)
	}
	if e.env.Done() {
		return fmt.Errorf("training episode %d cannot be repeated: it ends early; another version made it", e.Seed)
	}
	return nil
}

// follow makes net the acting network. It drops all caches, so that what comes next depends only
// on the episode and the weights, and a resumed run continues as the unbroken one.
func (e *Environment) follow(net *infer.Network) {
	e.encoder, e.session = encode.New(net.Layout()), net.NewSession()
	e.net = net
	e.copied = nil
}

// Observe encodes the decision at hand. Score and CopyState use what it encodes.
func (e *Environment) Observe() {
	e.state = e.encoder.Encode(e.env.Snapshot(), e.env.Pending(), e.seen())
}

// Candidates returns the number of nodes that the network sees.
func (e *Environment) Candidates() int {
	if e.all {
		return len(e.env.Candidates())
	}
	return len(e.env.Preferred())
}

// Mask sets the scores of candidates that preferences exclude to minus infinity.
func (e *Environment) Mask(scores []float32) {
	if !e.all {
		return
	}
	at := 0
	for _, i := range e.env.Preferred() {
		for ; at < int(i); at++ {
			scores[at] = float32(math.Inf(-1))
		}
		at++
	}
	for ; at < len(scores); at++ {
		scores[at] = float32(math.Inf(-1))
	}
}

// seen returns the rows of the nodes that the network sees. It is valid until the next call.
func (e *Environment) seen() []int32 {
	rows := e.env.Candidates()
	if e.all {
		return rows
	}
	e.rows = e.rows[:0]
	for _, i := range e.env.Preferred() {
		e.rows = append(e.rows, rows[i])
	}
	return e.rows
}

// candidate returns the simulator's index of one of the nodes that the network sees.
func (e *Environment) candidate(choice int) int {
	if e.all {
		return choice
	}
	return int(e.env.Preferred()[choice])
}

// Score runs the acting network on the observed decision. The output is valid until the next call.
func (e *Environment) Score() (infer.Output, error) {
	out, err := e.session.Score(e.state, nil)
	if err != nil {
		return out, fmt.Errorf("acting network: %w", err)
	}
	return out, nil
}

// Value observes the decision at hand and returns the acting network's value of it.
func (e *Environment) Value() (float64, error) {
	e.Observe()
	out, err := e.Score()
	return float64(out.Value), err
}

// TeacherChoice returns the candidate that the teacher would choose.
func (e *Environment) TeacherChoice() (int, error) {
	scores, err := e.TeacherScores()
	e.Mask(scores)
	return policy.Best(scores), err
}

// TeacherScores returns the teacher's scores of the candidates. They are valid until the next call.
func (e *Environment) TeacherScores() ([]float32, error) {
	rows := e.seen()
	e.scores = slices.Grow(e.scores[:0], len(rows))[:len(rows)]
	if err := e.teacher.Score(e.env.Snapshot(), e.env.Pending(), rows, e.scores); err != nil {
		return nil, fmt.Errorf("teacher: %w", err)
	}
	return e.scores, nil
}

// Play plays the episode at hand from its start to its end with a network. Begin must follow.
func (e *Environment) Play(net *infer.Network) (sim.Outcome, error) {
	return eval.Play(e.env, e.Seed, e.playerOf(net), nil)
}

// playerOf returns a network as a policy in the episode.
func (e *Environment) playerOf(net *infer.Network) neural.Policy {
	return neural.New("learning", net, e.env.Typical())
}

// Costs returns what rollouts cost that begin with candidates. The acting network plays them.
func (e *Environment) Costs(r *eval.Rollout, tried []int32) (costs []float64, err error) {
	r.Policy = e.playerOf(e.net)
	for _, c := range tried {
		cost, err := r.Cost(e.env, e.candidate(int(c)))
		if err != nil {
			return nil, err
		}
		costs = append(costs, cost)
	}
	return costs, nil
}

// CopyState returns a copy of the observed decision's graph. It shares the pod groups of unchanged
// nodes with the copy before it, and has none for a network that does not read them.
func (e *Environment) CopyState() *graph.Graph {
	g := *e.state
	all := g.Groups
	g.Groups = nil
	c := g.Clone()
	c.Groups = make([]graph.Groups, len(all))
	for i, groups := range all {
		switch {
		case !e.groups:
		case e.copied != nil && i < len(e.copied.Stamp) && e.copied.Stamp[i] == g.Stamp[i]:
			c.Groups[i] = e.copied.Groups[i]
		default:
			c.Groups[i] = graph.Groups{X: slices.Clone(groups.X), Weight: slices.Clone(groups.Weight)}
		}
	}
	e.copied = c
	return c
}

// Step places the pod on a candidate and returns the reward, and whether that ends the episode.
// After the last step, Begin must follow.
func (e *Environment) Step(choice int) (reward float64, last bool) {
	candidate := e.candidate(choice)
	row := e.env.Candidates()[candidate]
	on := e.env.Snapshot().Nodes[row].ChooseDevices(e.env.Pending().Requests)
	reward = e.settings.Reward.step(e.env, candidate, on, e.settings.Discount())
	e.Actions, e.Return = append(e.Actions, int32(choice)), e.Return+reward
	last = e.env.Done()
	if last {
		e.figures.episode(episode{e.Return, len(e.Actions), e.env.Outcome()})
	}
	e.figures.Action(row)
	return reward, last
}

// Truncate reports an episode that is left before its end. Begin must follow.
func (e *Environment) Truncate() {
	o := e.env.Outcome()
	o.Unscheduled-- // the pod at hand was about to get a node
	e.figures.episode(episode{e.Return, len(e.Actions), o})
}

// actingStream separates an agent's random numbers from the others that its seed gives.
const actingStream = 0x616374

// Environments are the simulator's clusters, side by side, in which an agent acts. All follow one acting
// network, and share the agent's random numbers and figures.
type Environments struct {
	All     []*Environment
	Rand    *rand.Rand // of the agent's choices
	Figures *Figures

	// Elsewhere plays rollouts; nil: this process does.
	Elsewhere Elsewhere

	configs []sim.Config // taken in turn by groups of environments
	group   int
	acting  *checkpoint.Checkpoint

	seed    uint64
	source  *rand.PCG // behind Rand
	started uint64    // episodes
}

// Layout describes the environments of an agent.
type Layout struct {
	Count int // a multiple of Group
	Group int // how many of them play the same episodes
	// All shows the network all feasible nodes, as a scheduler does; Mask says which of them preferences leave. Without it, the network
	// sees only those, as in a scheduler profile that learns.
	All bool
}

// NewEnvironments returns environments of the simulator's configurations, which they take in turn, before their first episode.
func NewEnvironments(s Settings, configs []sim.Config, l Layout, a checkpoint.Architecture, f *Figures) (*Environments, error) {
	e := &Environments{Figures: f, configs: configs, group: l.Group, seed: s.Seed, source: rand.NewPCG(s.Seed, actingStream)}
	e.Rand = rand.New(e.source)
	for i := range l.Count {
		c := configs[i/l.Group%len(configs)]
		env, err := sim.New(c)
		if err != nil {
			return nil, fmt.Errorf("simulator: %w", err)
		}
		var teacher policy.Policy
		if s.Imitation.Taught() {
			if teacher, err = TeacherByName(s.Imitation.Teacher, env.Typical()); err != nil {
				return nil, err
			}
		}
		next := e.nextSeed
		if first := i - i%l.Group; first < i { // the others of a group follow its first
			next = func() uint64 { return e.All[first].Seed }
		}
		e.All = append(e.All, &Environment{
			env: env, settings: s, teacher: teacher, all: l.All, groups: readsGroups(a), nextSeed: next, figures: f,
		})
	}
	return e, nil
}

// nextSeed returns the seed of the next training episode. None is a held-out episode's.
func (e *Environments) nextSeed() uint64 {
	e.started++
	return sim.TrainingEpisode(e.seed, e.started)
}

// Begin starts the first episode of every environment, with the network of c acting.
func (e *Environments) Begin(c *checkpoint.Checkpoint) error {
	for _, env := range e.All {
		if err := env.Begin(); err != nil {
			return err
		}
	}
	return e.Follow(c)
}

// Follow makes the network of c act in every environment.
func (e *Environments) Follow(c *checkpoint.Checkpoint) error {
	net, err := infer.New(c)
	if err != nil {
		return fmt.Errorf("the weights went wrong, lower the learning rate: %w", err)
	}
	e.acting = c
	for _, env := range e.All {
		env.follow(net)
	}
	return nil
}

// environmentsState is the part of a state file that environments continue from.
type environmentsState struct {
	Source  []byte // of the random numbers
	Started uint64 // episodes
	Walks   []progress
}

// state returns what restore needs.
func (e *Environments) state() (environmentsState, error) {
	source, err := e.source.MarshalBinary()
	s := environmentsState{Source: source, Started: e.started}
	for _, env := range e.All {
		s.Walks = append(s.Walks, env.progress)
	}
	return s, err
}

// restore brings environments of the same configuration to a state.
func (e *Environments) restore(s environmentsState) error {
	if len(s.Walks) != len(e.All) {
		return fmt.Errorf("the state has %d environments, the configuration %d", len(s.Walks), len(e.All))
	}
	if err := e.source.UnmarshalBinary(s.Source); err != nil {
		return fmt.Errorf("random numbers: %w", err)
	}
	e.started = s.Started
	for i, env := range e.All {
		if err := env.restore(s.Walks[i]); err != nil {
			return err
		}
	}
	return nil
}

// BalanceEnv returns the clusters and workloads that gnntrain learns on by default. The objective is
// balance. Clusters have 4 to 32 nodes of one to three sizes. A few kinds of pods fill them to
// between a quarter and nearly all of their capacity; then as many pods again arrive while others
// leave. The shipped networks learn on scenarios of package eval instead (see the folder learn/runs).
func BalanceEnv() sim.Config {
	return sim.Config{
		Nodes: sim.IntRange{Min: 4, Max: 32},
		Sizes: []sim.NodeSize{
			{Weight: 3, Allocatable: sim.AAMLNode},
			{Weight: 2, Allocatable: cluster.Resources{MilliCPU: 32_000, Memory: 128 << 30, Pods: 110}},
			{Weight: 1, Allocatable: cluster.Resources{MilliCPU: 16_000, Memory: 128 << 30, Pods: 110}},
			{Weight: 1, Allocatable: cluster.Resources{MilliCPU: 96_000, Memory: 192 << 30, Pods: 250}},
		},
		SizeKinds: sim.IntRange{Min: 1, Max: 3}, Zones: sim.IntRange{Min: 1, Max: 3}, ControlPlane: true, Initial: 0.2,
		Shapes: []workload.Shape{
			shape("web", 4, 250, 512), shape("api", 3, 500, 1024), shape("worker", 2, 1000, 2048), shape("cache", 2, 500, 4096),
			shape("batch", 1, 2000, 2048), shape("one", 2, 1000, 4096), shape("large", 1, 4000, 16384), shape("memory", 1, 1000, 16384),
		},
		ShapeKinds: sim.IntRange{Min: 1, Max: 5}, Replicas: sim.IntRange{Min: 5, Max: 15},
		Load: sim.FloatRange{Min: 0.25, Max: 0.95}, Turnover: 1,
		Objective: objective.Mix{{Term: objective.Balance{}, Weight: 1}},
	}
}

func shape(name string, weight float64, milliCPU, mebibytes int64) workload.Shape {
	return workload.Shape{Name: name, Weight: weight, Requests: cluster.Resources{MilliCPU: milliCPU, Memory: mebibytes << 20, Pods: 1}}
}

// Rollouts are those of a round, as data. Whoever has the data can play them, with the same costs to the last bit.
type Rollouts struct {
	Net       *checkpoint.Checkpoint // plays them
	Configs   []sim.Config
	Decisions []Decision
	Rules
}

// Rules are the same for all rollouts of a run.
type Rules struct {
	Horizon  int     // placements
	WaitCost float64 // of rollout.Rollout
}

// Decision is a decision in an episode, and the candidates to try there.
type Decision struct {
	Config int // of the environment, in Rollouts.Configs
	Env    int // number of the environment
	Seed   uint64
	Before []int32 // the choices so far
	Tried  []int32 // none: nothing is to be played
}

// Elsewhere plays rollouts in other processes.
type Elsewhere interface {
	// Costs returns what the rollouts of each decision cost, in the order of Decision.Tried.
	Costs(r Rollouts) ([][]float64, error)
}

// Rollouts describes rollouts of the acting network from the decisions at hand. tried has the candidates of each environment.
func (e *Environments) Rollouts(tried [][]int32, horizon int, waitCost float64) Rollouts {
	r := Rollouts{Net: e.acting, Configs: e.configs, Rules: Rules{horizon, waitCost}}
	for i, env := range e.All {
		r.Decisions = append(r.Decisions, Decision{i / e.group % len(e.configs), i, env.Seed, env.Actions, tried[i]})
	}
	return r
}

// NewReplay returns an environment for decisions of other processes, which networks of an architecture meet.
func NewReplay(c sim.Config, a checkpoint.Architecture) (*Environment, error) {
	all, err := NewEnvironments(Settings{}, []sim.Config{c}, Layout{Count: 1, Group: 1, All: true}, a, nil)
	if err != nil {
		return nil, err
	}
	return all.All[0], nil
}

// Reach brings the environment to a decision, with net as the acting network. If it is earlier in the same episode, it goes on from there.
func (e *Environment) Reach(d Decision, net *infer.Network) error {
	if at := len(e.Actions); e.Seed != d.Seed || at > len(d.Before) || !slices.Equal(e.Actions, d.Before[:at]) {
		if err := e.reset(d.Seed); err != nil {
			return err
		}
	}
	e.follow(net)
	if err := e.repeat(d.Before[len(e.Actions):]); err != nil {
		return err
	}
	for _, c := range d.Tried {
		if c < 0 || int(c) >= e.Candidates() {
			return fmt.Errorf("training episode %d has no candidate %d after %d placements", d.Seed, c, len(d.Before))
		}
	}
	return nil
}
