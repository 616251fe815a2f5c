package run

import (
	"fmt"
	"math"
	"slices"

	"gnnsched/gnn/graph"
	"gnnsched/gnn/infer"
	"gnnsched/scheduler/encode"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/neural"
	"gnnsched/scheduler/sim"
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
		e.env.StepOn(candidate, e.encoder.Devices(e.env.Snapshot().Nodes[e.env.Candidates()[candidate]], e.env.Pending().Requests))
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
	e.encoder.Know(e.env.Typical())
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
	on := e.encoder.Devices(e.env.Snapshot().Nodes[row], e.env.Pending().Requests)
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
