package learn

import (
	"fmt"
	"slices"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/graph"
	"gnnsched/gnn/infer"
	"gnnsched/scheduler/encode"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/sim"
)

// walker takes one simulated cluster from decision to decision, episode after episode.
type walker struct {
	env     *sim.Env
	reward  Reward
	gamma   float64
	teacher policy.Policy // nil for none
	groups  bool          // whether the network reads groups of running pods
	next    func() uint64 // seed of the next episode
	ended   func(ended)   // told what every episode gave

	encoder *encode.Encoder
	session *infer.Session
	state   *graph.Graph // of the decision at hand, in the encoder
	kept    *graph.Graph // the last copy
	scores  []float32    // the teacher's

	walk
}

// walk is what a walker's episode follows from.
type walk struct {
	Seed    uint64
	Actions []int32 // so far
	Return  float64 // so far
}

// ended is what an episode gave, or one that was cut had given so far.
type ended struct {
	Return  float64 // undiscounted sum of the rewards
	Length  int     // placements
	Outcome sim.Outcome
}

// emptyEpisodes in a row, in which nothing can be placed, are too many.
const emptyEpisodes = 100

func newWalker(c Config, env sim.Config, teacher policy.Policy, next func() uint64, told func(ended)) (*walker, error) {
	w := &walker{reward: c.Reward, gamma: c.Gamma, teacher: teacher, groups: c.architecture().Encoder == checkpoint.GNN, next: next, ended: told}
	var err error
	w.env, err = sim.New(env)
	return w, err
}

// begin starts the next episode in which something can be placed.
func (w *walker) begin() error {
	for range emptyEpisodes {
		w.walk = walk{Seed: w.next(), Actions: w.Actions[:0]}
		if err := w.env.Reset(w.Seed); err != nil {
			return fmt.Errorf("training episode %d: %w", w.Seed, err)
		}
		if !w.env.Done() {
			return nil
		}
	}
	return fmt.Errorf("nothing could be placed in %d training episodes: make the nodes larger or the pods smaller", emptyEpisodes)
}

// resume goes back to where another walker was.
func (w *walker) resume(from walk) error {
	if err := w.env.Reset(from.Seed); err != nil {
		return fmt.Errorf("training episode %d: %w", from.Seed, err)
	}
	for i, a := range from.Actions {
		if w.env.Done() || int(a) >= len(w.env.Candidates()) {
			return fmt.Errorf("training episode %d cannot be played again: placement %d of %d does not exist; it was made by another version", from.Seed, i+1, len(from.Actions))
		}
		w.env.Step(int(a))
	}
	if w.env.Done() {
		return fmt.Errorf("training episode %d cannot be played again: it ends early; it was made by another version", from.Seed)
	}
	w.walk = from
	return nil
}

// follow makes the network that of net. Whatever was kept for speed is forgotten, so that what
// comes next depends on the episode and the weights alone, and a run can go on from here.
func (w *walker) follow(net *infer.Network) {
	w.encoder, w.session, w.kept = encode.New(), net.NewSession(), nil
}

// look encodes the decision at hand. It must come before the methods below.
func (w *walker) look() {
	w.state = w.encoder.Encode(w.env.Snapshot(), w.env.Pending(), w.env.Candidates())
}

// judge runs the network on the decision at hand. The result is valid until the next call.
func (w *walker) judge() (infer.Output, error) {
	out, err := w.session.Score(w.state, nil)
	if err != nil {
		return out, fmt.Errorf("acting network: %w", err)
	}
	return out, nil
}

// value is what the network takes the decision at hand to be worth.
func (w *walker) value() (float64, error) {
	w.look()
	out, err := w.judge()
	return float64(out.Value), err
}

// ask returns the teacher's choice.
func (w *walker) ask() (int, error) {
	rows := w.env.Candidates()
	w.scores = slices.Grow(w.scores[:0], len(rows))[:len(rows)]
	if err := w.teacher.Score(w.env.Snapshot(), w.env.Pending(), rows, w.scores); err != nil {
		return 0, fmt.Errorf("teacher: %w", err)
	}
	return policy.Best(w.scores), nil
}

// copy returns a copy of the decision at hand. Groups of nodes that have not changed since the
// last copy are shared with it; the MLP's copies have none.
func (w *walker) copy() *graph.Graph {
	g := w.state
	c := &graph.Graph{
		NodeX: slices.Clone(g.NodeX), Zone: slices.Clone(g.Zone), Groups: make([]graph.Groups, len(g.Groups)), Zones: g.Zones,
		Stamp: slices.Clone(g.Stamp), PodX: slices.Clone(g.PodX), ClusterX: slices.Clone(g.ClusterX),
		Candidates: slices.Clone(g.Candidates), CandidateX: slices.Clone(g.CandidateX),
	}
	for i, groups := range g.Groups {
		switch {
		case !w.groups:
		case w.kept != nil && i < len(w.kept.Stamp) && w.kept.Stamp[i] == g.Stamp[i]:
			c.Groups[i] = w.kept.Groups[i]
		default:
			c.Groups[i] = graph.Groups{X: slices.Clone(groups.X), Weight: slices.Clone(groups.Weight)}
		}
	}
	w.kept = c
	return c
}

// step places the pod and returns the reward, the row of the chosen node and whether the episode
// ended with it; begin must follow then.
func (w *walker) step(choice int) (reward float64, row int32, last bool) {
	row = w.env.Candidates()[choice]
	reward = w.reward.step(w.env, choice, w.gamma)
	w.Actions, w.Return = append(w.Actions, int32(choice)), w.Return+reward
	if w.env.Done() {
		w.ended(ended{w.Return, len(w.Actions), w.env.Outcome()})
	}
	return reward, row, w.env.Done()
}

// cut tells of an episode that is left before its end; begin must follow.
func (w *walker) cut() {
	o := w.env.Outcome()
	o.Unscheduled-- // the pod at hand was about to get a node
	w.ended(ended{w.Return, len(w.Actions), o})
}
