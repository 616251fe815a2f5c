package vector

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"gnnsched/gnn/feature"
	"gnnsched/gnn/graph"
	"gnnsched/internal/cluster"
	"gnnsched/scheduler/sim"
)

// Options say how a Vector is made.
type Options struct {
	Count   int             // environments
	Threads int             // goroutines that work on a step; 0: as many as processors
	Layout  *feature.Layout // features of observations; nil: none
	// Feasible allows every candidate. Otherwise only those that the pod's preferences and default spreading leave may be chosen, or what
	// Choose returned.
	Feasible bool
	// Autoreset begins a new episode in the step after the one that ended an episode. Otherwise the environment stays at
	// the end until Reset.
	Autoreset bool
	// Watch is called in environment i with each choice before it is carried out, and with the choice -1 at the end of an episode. It may
	// be called from several goroutines at once; nil: nobody watches.
	Watch func(i int, env *sim.Env, choice int, on cluster.DeviceSet)
}

// maxCount is the most environments of a Vector.
const maxCount = 65_536

// Vector is a number of environments that step together. Its methods may be called from several threads; they wait for each
// other.
type Vector struct {
	mu      sync.Mutex
	closed  bool
	options Options
	widths  feature.Widths
	slots   int
	worlds  []*world
	offsets []Counts // where the rows of each environment begin, in the last observation

	// The arguments of the call that runs.
	actions []int64
	arrays  *Arrays
	start   Start
}

// ErrClosed means that Close was called before.
var ErrClosed = errors.New("the environment is closed")

// New makes environments. Reset must come next.
func New(c sim.Config, o Options) (*Vector, error) {
	if o.Count < 1 || o.Count > maxCount {
		return nil, fmt.Errorf("%d environments are outside 1 to %d", o.Count, maxCount)
	}
	if o.Threads <= 0 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	v := &Vector{options: o, worlds: make([]*world, o.Count), offsets: make([]Counts, o.Count+1)}
	if o.Layout != nil {
		v.widths = o.Layout.Widths
	}
	for i := range v.worlds {
		env, err := sim.New(c)
		if err != nil {
			return nil, err
		}
		v.worlds[i] = newWorld(env, o, i)
	}
	v.slots = v.worlds[0].env.MaxNodes()
	return v, nil
}

// Choose returns the action that choose makes of the candidates of environment i, which Step takes even if it is masked: who weighs
// preferences against scores may take any. It is 0 where the episode is over.
func (v *Vector) Choose(i int, choose func(*sim.Env) int) int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	w := v.worlds[i]
	if w.over {
		return 0
	}
	w.chosen = int64(choose(w.env))
	return w.chosen
}

// Slots returns the largest number of candidates that a decision can have.
func (v *Vector) Slots() int { return v.slots }

// Start says which episodes Reset begins.
type Start struct {
	// Seeds has the seed of each environment's episode; those after it have the seeds that follow. nil: the seeds go on.
	Seeds []uint64
	Mask  []bool // the environments to reset; nil: all
	Skip  bool   // leave out episodes in which nothing can be placed
}

// Reset begins an episode in each environment and writes the observation.
func (v *Vector) Reset(s Start, a *Arrays) error {
	return v.locked(a, func() error {
		for i, w := range v.worlds {
			if s.Seeds == nil && !w.seeded && (s.Mask == nil || s.Mask[i]) {
				return fmt.Errorf("environment %d: the first reset needs a seed", i)
			}
		}
		v.start = s
		if err := v.each((*Vector).begin); err != nil {
			return err
		}
		return v.observe()
	})
}

// begin is Reset for environment i.
func (v *Vector) begin(i int) error {
	w, s := v.worlds[i], v.start
	if s.Mask != nil && !s.Mask[i] {
		w.reward, w.ended = 0, false
		return nil
	}
	if s.Seeds != nil {
		w.next, w.skip, w.seeded = s.Seeds[i], s.Skip, true
	}
	return w.begin()
}

// Step puts the pending pod of every environment on a candidate, and writes results and observation. It changes nothing if an
// action is wrong.
func (v *Vector) Step(actions []int64, a *Arrays) error {
	return v.locked(a, func() error {
		if len(actions) != len(v.worlds) {
			return fmt.Errorf("%d actions for %d environments", len(actions), len(v.worlds))
		}
		for i, w := range v.worlds {
			if err := w.allows(actions[i]); err != nil {
				return fmt.Errorf("environment %d: %w", i, err)
			}
		}
		v.actions = actions
		if a.Slots > 0 && !a.graph() && a.NodeRaw == nil && a.CandidateNode == nil { // where the rows lie is known, so one pass will do
			return v.each(func(v *Vector, i int) error {
				if err := v.step(i); err != nil {
					return err
				}
				return v.write(i)
			})
		}
		if err := v.each((*Vector).step); err != nil {
			return err
		}
		return v.observe()
	})
}

// step is Step for environment i.
func (v *Vector) step(i int) error {
	w := v.worlds[i]
	w.reward, w.ended = 0, false
	switch {
	case !w.over:
		w.step(int(v.actions[i]))
	case v.options.Autoreset:
		return w.begin()
	}
	return nil
}

// Observe writes what Step wrote last.
func (v *Vector) Observe(a *Arrays) error { return v.locked(a, v.observe) }

// observe finds out where the rows of each environment begin, and writes them.
func (v *Vector) observe() error {
	a := v.arrays
	if a.graph() {
		if err := v.each(func(v *Vector, i int) error { v.worlds[i].encode(); return nil }); err != nil {
			return err
		}
	}
	for i, w := range v.worlds {
		if !w.seeded {
			return fmt.Errorf("environment %d: no episode has begun: call reset first", i)
		}
		v.offsets[i+1] = v.offsets[i].plus(w.rows(a.graph()))
		if i < len(a.CandidateOffsets) {
			a.CandidateOffsets[i+1] = int64(v.offsets[i+1].Candidates)
		}
		if i < len(a.NodeOffsets) {
			a.NodeOffsets[i+1], a.ZoneOffsets[i+1] = int64(v.offsets[i+1].Nodes), int64(v.offsets[i+1].Zones)
		}
	}
	if a.Rows = v.offsets[len(v.worlds)]; !a.fits(a.Rows) {
		return ErrRoom
	}
	return v.each((*Vector).write)
}

// Graphs calls f with the graph of each decision at hand, in the order of the environments; nil where the episode is over. A graph belongs
// to its environment and is valid until f returns.
func (v *Vector) Graphs(f func(g *graph.Graph) error) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return ErrClosed
	}
	for i, w := range v.worlds {
		g := w.graph
		if g == nil {
			return errors.New("the environments have no features")
		}
		if w.encode(); w.over {
			g = nil
		}
		if err := f(g); err != nil {
			return fmt.Errorf("environment %d: %w", i, err)
		}
	}
	return nil
}

// Outcome returns the outcome of the last episode of environment i that ended.
func (v *Vector) Outcome(i int) (o sim.Outcome, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.closed:
		return o, ErrClosed
	case i < 0 || i >= len(v.worlds):
		return o, fmt.Errorf("environment %d of %d", i, len(v.worlds))
	case v.worlds[i].outcome == nil:
		return o, fmt.Errorf("no episode of environment %d has ended", i)
	}
	return *v.worlds[i].outcome, nil
}

// Close makes every later call an error. It waits for the call that runs.
func (v *Vector) Close() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return ErrClosed
	}
	v.closed, v.worlds = true, nil
	return nil
}

// locked checks the arrays and calls f while no other call runs. After it nothing refers to the caller's memory.
func (v *Vector) locked(a *Arrays, f func() error) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return ErrClosed
	}
	if err := a.check(len(v.worlds), v.widths); err != nil {
		return err
	}
	if a.Slots > 0 && a.Slots != v.slots {
		return fmt.Errorf("%d slots, want %d", a.Slots, v.slots)
	}
	v.arrays = a
	defer func() { v.arrays, v.actions, v.start = nil, nil, Start{} }()
	return f()
}

// job is one pass over all environments. Whoever works on it takes blocks of environments until none is left.
type job struct {
	task  func(v *Vector, i int) error
	v     *Vector
	n     int64 // environments
	block int64
	next  atomic.Int64 // first environment that nobody has taken
	done  atomic.Int64 // environments that are finished
	ended chan struct{}

	mu  sync.Mutex
	at  int // of err
	err error
}

// spins is how often the caller looks whether the others are done before it sleeps. A caller from C is bound to a thread, so
// sleeping and waking cost it several switches of threads.
const spins = 20_000

// each calls task for every environment, on several processors, and returns the error of the first environment that has one.
// The caller works too. It waits for the blocks that others took, and not for helpers that came too late to take one.
func (v *Vector) each(task func(v *Vector, i int) error) error {
	n := int64(len(v.worlds))
	helpers := min(int64(v.options.Threads), n) - 1
	j := &job{task: task, v: v, n: n, block: max(1, n/(8*(helpers+1))), ended: make(chan struct{}, 1)}
	for range helpers {
		go j.work()
	}
	j.work()
	for i := 0; j.done.Load() < n; i++ {
		if i > spins {
			<-j.ended
			break
		}
		if i%1000 == 999 {
			runtime.Gosched()
		}
	}
	return j.err
}

func (j *job) work() {
	for {
		to := j.next.Add(j.block)
		from := to - j.block
		if from >= j.n {
			return
		}
		to = min(to, j.n)
		for i := from; i < to; i++ {
			if err := j.one(int(i)); err != nil {
				j.fail(int(i), err)
			}
		}
		if j.done.Add(to-from) == j.n {
			j.ended <- struct{}{}
		}
	}
}

// one runs the task for an environment. A panic is an error too: it would end the caller's process.
func (j *job) one(i int) (err error) {
	defer func() {
		if p := recover(); p != nil {
			j.v.worlds[i].seeded = false
			err = fmt.Errorf("a fault of the simulator: %v", p)
		}
	}()
	return j.task(j.v, i)
}

func (j *job) fail(i int, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err == nil || i < j.at {
		j.at, j.err = i, fmt.Errorf("environment %d: %w", i, err)
	}
}
