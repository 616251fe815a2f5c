package vector

import (
	"errors"
	"fmt"

	"gnnsched/gnn/graph"
	"gnnsched/internal/cluster"
	"gnnsched/scheduler/encode"
	"gnnsched/scheduler/sim"
)

// world is one environment of a Vector.
type world struct {
	env       *sim.Env
	encoder   *encode.Encoder                        // nil without features
	watch     func(choice int, on cluster.DeviceSet) // Options.Watch; may be nil
	feasible  bool                                   // every candidate may be chosen
	mask      []uint8                                // by candidate: 1 if it may be chosen
	decision  int64                                  // number of the decision at hand since the start
	encoded   int64                                  // number of the decision that graph holds
	graph     *graph.Graph                           // the encoder's
	seed      uint64                                 // of this episode
	next      uint64                                 // of the next episode
	seeded    bool                                   // Reset has said which episodes to play
	skip      bool                                   // leave out episodes in which nothing can be placed
	over      bool                                   // the episode has ended, or none has begun
	ended     bool                                   // the last step ended the episode
	reward    float64                                // of the last step
	decisions int64                                  // of the episode
	outcome   *sim.Outcome                           // of the last episode that ended
}

func newWorld(env *sim.Env, o Options, i int) *world {
	w := &world{env: env, over: true, feasible: o.Feasible, mask: []uint8{1}}
	if o.Watch != nil {
		w.watch = func(choice int, on cluster.DeviceSet) { o.Watch(i, env, choice, on) }
	}
	if o.Layout != nil {
		w.encoder = encode.New(o.Layout)
		w.encoder.Know(env.Typical())
		w.graph = w.encoder.Graph()
	}
	return w
}

// emptyEpisodes is how many episodes in a row may be without any placement.
const emptyEpisodes = 100

// begin starts the next episode.
func (w *world) begin() error {
	for range emptyEpisodes {
		w.seed = w.next
		w.next++
		w.decisions, w.reward, w.ended, w.over = 0, 0, false, true
		if err := w.env.Reset(w.seed); err != nil {
			w.seeded = false
			return fmt.Errorf("seed %d: %w", w.seed, err)
		}
		if w.over = w.env.Done(); w.over && w.skip {
			continue
		}
		if w.encoder != nil {
			w.encoder.Forget()
		}
		if w.over {
			w.finish()
		}
		w.look()
		return nil
	}
	w.seeded = false
	return fmt.Errorf("seed %d: nothing could be placed in %d episodes in a row: make the nodes larger or the pods smaller", w.seed,
		emptyEpisodes)
}

// step places the pod at hand.
func (w *world) step(choice int) {
	node := w.env.Snapshot().Nodes[w.env.Candidates()[choice]]
	on := w.encoder.Devices(node, w.env.Pending().Requests)
	if w.watch != nil {
		w.watch(choice, on)
	}
	w.reward = w.env.StepOn(choice, on)
	w.decisions++
	if w.env.Done() {
		w.over, w.ended = true, true
		w.finish()
	}
	w.look()
}

func (w *world) finish() {
	if w.watch != nil {
		w.watch(-1, 0)
	}
	w.outcome = new(w.env.Outcome())
}

var (
	errUnseeded = errors.New("no episode has begun: call reset first")
	errMasked   = errors.New("is masked: the pod's preferences leave other nodes")
)

// allows returns an error if the action may not be taken. Any action will do once the episode is over.
func (w *world) allows(action int64) error {
	switch {
	case !w.seeded:
		return errUnseeded
	case w.over:
		return nil
	case action < 0 || action >= int64(len(w.mask)):
		return fmt.Errorf("seed %d: action %d is none of the %d candidates", w.seed, action, len(w.mask))
	case w.mask[action] == 0:
		return fmt.Errorf("seed %d: action %d %w", w.seed, action, errMasked)
	}
	return nil
}

// look finds out which candidates the decision at hand has.
func (w *world) look() {
	w.decision++
	if w.over {
		w.mask = append(w.mask[:0], 1)
		return
	}
	n := len(w.env.Candidates())
	if cap(w.mask) < n {
		w.mask = make([]uint8, 2*n)
	}
	w.mask = w.mask[:n]
	if w.feasible || w.env.Preferences() == nil {
		for i := range w.mask {
			w.mask[i] = 1
		}
		return
	}
	clear(w.mask)
	for _, i := range w.env.Preferred() {
		w.mask[i] = 1
	}
}

// encode encodes the decision at hand into the encoder's own memory.
func (w *world) encode() {
	if w.over || w.encoder == nil || w.encoded == w.decision {
		return
	}
	w.encoder.Encode(w.env.Snapshot(), w.env.Pending(), w.env.Candidates())
	w.encoded = w.decision
}

// rows returns the numbers of the environment's rows. Those of groups and paths are known once the decision is encoded.
func (w *world) rows(encoded bool) Counts {
	c := Counts{Candidates: len(w.mask), Nodes: 1, Zones: 1}
	if w.over {
		return c
	}
	c.Nodes = len(w.env.Nodes())
	if !encoded {
		return c
	}
	c.Zones, c.Paths = w.graph.Zones, len(w.graph.Candidates)*len(w.graph.Peers)
	for i := range w.graph.Groups {
		c.Groups += len(w.graph.Groups[i].Weight)
	}
	return c
}
