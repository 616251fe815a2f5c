package eval

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/mig"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/preference"
	"gnnsched/scheduler/sim"
)

// Contender is a policy in a comparison.
type Contender struct {
	Name string
	// New returns the policy for one episode. It may be called from several goroutines at once.
	New func(policy.Setting) policy.Policy
	// RandomTies breaks ties between equal scores at random, as kube-scheduler does. Otherwise
	// the first node with the best score is taken.
	RandomTies bool
	// Play plays the episode of a seed in place of New's policy, for a contender that is no policy: it uses knowledge that no scheduler has.
	// It may be called from several goroutines at once; nil for a policy.
	Play func(ctx context.Context, env *sim.Env, seed uint64) (sim.Outcome, error)
	// PlayAll plays the episodes of all seeds at the same time, in place of New's policy, for a
	// policy outside of this program; nil for others.
	PlayAll func(ctx context.Context, all Batch) ([]sim.Outcome, error)
	// Observe returns the observer of New's policy in the episode of a seed, or nil. It may be called from several goroutines at once; nil if
	// there is no observer. Episodes of Play cannot be observed.
	Observe func(seed uint64) Observer
	// Moves lets running pods move in an episode: it is called when one begins, after sim.Env.Reset. nil: they stay. It goes with New.
	Moves func(env *sim.Env) error
	// Origin says how another process gets the contender; nil if none can.
	Origin *Origin
	// Network reports that the policy is a neural network. The other policies are its baselines.
	Network bool
}

// Origin names a contender. Package contender makes one of it.
type Origin struct {
	Policy   string // as in --policies, without File
	File     string // path that follows Policy; empty if there is none
	Argument bool   // Policy and File are as in --checkpoint
}

// Batch is the episodes that Contender.PlayAll plays.
type Batch struct {
	Scenario Scenario
	Seeds    []uint64
	Observe  func(seed uint64) Observer // as Contender.Observe; nil if there is no observer
	Played   func()                     // called after each episode
}

func (c Contender) kind() Kind {
	switch {
	case c.Network:
		return Network
	case c.Play != nil:
		return Bound
	}
	return Baseline
}

// Kind tells how a result counts in a comparison.
type Kind string

// The kinds of results.
const (
	Baseline Kind = "baseline" // of a policy without a network
	Network  Kind = "network"
	Bound    Kind = "bound" // a contender with knowledge that no scheduler has, or the optimum
)

// Ties returns the random numbers that break ties in the episode of a seed, or nil if the first
// node with the best score is taken.
func (c Contender) Ties(seed uint64) *rand.Rand {
	if !c.RandomTies {
		return nil
	}
	return rand.New(rand.NewPCG(seed, tieStream))
}

// Episode plays the episode of a seed.
func (c Contender) Episode(ctx context.Context, env *sim.Env, seed uint64) (sim.Outcome, error) {
	if c.Play != nil {
		return c.Play(ctx, env, seed)
	}
	p := watched{
		c.New(policy.Setting{Seed: seed, Typical: env.Typical(), Running: env.TypicalRunning()}), c.Ties(seed), nil, c.Moves,
	}
	if c.Observe != nil {
		p.observer = c.Observe(seed)
	}
	return play(ctx, env, seed, p)
}

// Result holds a contender's outcomes.
type Result struct {
	Name     string
	Kind     Kind
	Outcomes []sim.Outcome // by seed, in the order of Comparison.Seeds
}

// Comparison holds the results of several contenders on the same episodes of one scenario.
type Comparison struct {
	Scenario Scenario
	Seeds    []uint64
	Results  []Result
	Baseline int // the index of the result that the others differ from; -1 for none
	// OneWorkload reports that the same pods arrived on every seed. The seeds are then one sample, and
	// differences have no intervals.
	OneWorkload bool
	Verdicts    []Verdict // set by Judge
	Observed    *Observed // set by Watching.Into; nil if nobody watched
	hash        string    // of the scenario; empty if it is not known
}

// Seeds returns the n seeds from first on.
func Seeds(first uint64, n int) []uint64 {
	out := make([]uint64, n)
	for i := range out {
		out[i] = first + uint64(i)
	}
	return out
}

// tieStream separates the random numbers of ties from all others that are drawn from the seed.
const tieStream = 0x7469_6573

// Elsewhere plays episodes in other processes.
type Elsewhere interface {
	// Play plays episodes of contenders that have an Origin, and calls played with each outcome, in any order, one at a time.
	Play(ctx context.Context, s Scenario, episodes []Turn, played func(i int, o sim.Outcome)) error
}

// Turn is the episode of a contender on a seed.
type Turn struct {
	Contender Contender
	Seed      uint64
	outcome   *sim.Outcome
}

type elsewhereKey struct{}

// Within returns a context in which Compare plays the episodes elsewhere that can be played there.
func Within(ctx context.Context, e Elsewhere) context.Context {
	return context.WithValue(ctx, elsewhereKey{}, e)
}

// movable returns the episodes that may be played elsewhere; the contenders that are left play here.
func (c *Comparison) movable(ctx context.Context, contenders []Contender) (e Elsewhere, all []Turn) {
	if e, _ = ctx.Value(elsewhereKey{}).(Elsewhere); e == nil {
		return nil, nil
	}
	for i, seed := range c.Seeds {
		for k, x := range contenders {
			if x.away() {
				all = append(all, Turn{x, seed, &c.Results[k].Outcomes[i]})
			}
		}
	}
	return e, all
}

func (c Contender) away() bool { return c.Origin != nil && c.PlayAll == nil }

// Compare runs every contender on every seed, as many seeds at a time as there are processors. If the scenario wants it, a last result
// named Optimum has the best outcome of each seed. After each episode it calls progress with the number of finished episodes; calls do not
// overlap. progress may be nil. When ctx ends, Compare returns its error, and the comparison of the first seeds, which all contenders have
// played; nil if there are none, or if some contenders play elsewhere or all seeds at once.
func Compare(ctx context.Context, s Scenario, contenders []Contender, seeds []uint64, progress func(done, total int)) (*Comparison, error) {
	if len(contenders) == 0 || len(seeds) == 0 {
		return nil, errors.New("nothing to compare: no policy or no seed")
	}
	c := &Comparison{Scenario: s, Seeds: seeds}
	if s.Optimum {
		contenders = append(contenders, Best())
	}
	for _, x := range contenders {
		c.Results = append(c.Results, Result{Name: x.Name, Kind: x.kind(), Outcomes: make([]sim.Outcome, len(seeds))})
	}
	var told sync.Mutex
	done, total := 0, len(c.Results)*len(seeds)
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(runtime.GOMAXPROCS(0))
	played := func() {
		told.Lock()
		defer told.Unlock()
		if done++; progress != nil {
			progress(done, total)
		}
	}
	for k, x := range contenders {
		if x.PlayAll == nil {
			continue
		}
		work.Go(func() (err error) {
			c.Results[k].Outcomes, err = x.PlayAll(ctx, Batch{Scenario: s, Seeds: seeds, Observe: x.Observe, Played: played})
			return err
		})
	}
	elsewhere, episodes := c.movable(ctx, contenders)
	if len(episodes) > 0 {
		work.Go(func() error {
			return elsewhere.Play(ctx, s, episodes, func(i int, o sim.Outcome) {
				*episodes[i].outcome = o
				played()
			})
		})
	}
	here := func(x Contender) bool { return x.PlayAll == nil && (elsewhere == nil || !x.away()) }
	whole := make([]bool, len(seeds))
	for i := range seeds {
		work.Go(func() error {
			err := c.seed(ctx, contenders, here, i, played)
			whole[i] = err == nil
			return err
		})
	}
	err := work.Wait()
	if alone := !slices.ContainsFunc(contenders, func(x Contender) bool { return !here(x) }); err != nil {
		err = fmt.Errorf("scenario %s: %w", s.Name, err)
		if !alone || !errors.Is(err, context.Canceled) || !c.keep(whole) {
			return nil, err
		}
	}
	return c.named(err)
}

// named sets the hash of the scenario. It fails for files that nobody could have played.
func (c *Comparison) named(err error) (*Comparison, error) {
	hash, failed := c.Scenario.Hash()
	if c.hash = hash; failed != nil {
		return nil, errors.Join(err, failed)
	}
	return c, err
}

// keep drops the seeds from the first one on that is not whole, and reports whether any is left.
func (c *Comparison) keep(whole []bool) bool {
	n := slices.Index(append(whole, false), false)
	c.Seeds = c.Seeds[:n]
	for k := range c.Results {
		c.Results[k].Outcomes = c.Results[k].Outcomes[:n]
	}
	return n > 0
}

// seed sets the outcomes of seed number i, of the contenders that play here. It calls played after each episode.
func (c *Comparison) seed(ctx context.Context, contenders []Contender, here func(Contender) bool, i int, played func()) error {
	if i > 0 && !slices.ContainsFunc(contenders, here) {
		return nil
	}
	env, err := sim.New(c.Scenario.Config)
	if err != nil {
		return err
	}
	if i == 0 {
		c.OneWorkload = env.FixedWorkload()
	}
	for k, x := range contenders {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !here(x) {
			continue
		}
		if c.Results[k].Outcomes[i], err = x.Episode(ctx, env, c.Seeds[i]); err != nil {
			return fmt.Errorf("%s: %w", x.Name, err)
		}
		played()
	}
	return nil
}

// Optimum is the name of the result with the best possible outcomes.
const Optimum = "optimum"

// Best returns the contender with the best possible outcomes.
func Best() Contender {
	return Contender{
		Name: Optimum, Origin: &Origin{Policy: Optimum},
		Play: func(_ context.Context, env *sim.Env, seed uint64) (sim.Outcome, error) { return bestOutcome(env, seed) },
	}
}

// Play runs the episode of a seed with a policy that always takes a node with the best score, and
// returns the outcome. Among equal best scores ties draws one; if ties is nil, the first is taken.
func Play(env *sim.Env, seed uint64, p policy.Policy, ties *rand.Rand) (sim.Outcome, error) {
	return play(context.Background(), env, seed, watched{p, ties, nil, nil})
}

// watched is a policy with its random numbers for ties, and who watches it and lets pods move, or nil.
type watched struct {
	policy.Policy
	ties     *rand.Rand
	observer Observer
	moves    func(*sim.Env) error
}

// play is Play that stops with an error when the context ends. An episode with a thousand nodes
// takes minutes.
func play(ctx context.Context, env *sim.Env, seed uint64, p watched) (sim.Outcome, error) {
	decide := Deciding(p.Policy, p.ties)
	begun := p.moves == nil
	o, err := Episode(env, seed, func(env *sim.Env) (Choice, error) {
		err := ctx.Err()
		if err == nil && !begun {
			begun, err = true, p.moves(env)
		}
		if err != nil {
			return Choice{}, err
		}
		choice, err := decide(env)
		if err == nil && p.observer != nil {
			p.observer.Decided(env, choice)
		}
		return choice, err
	})
	if err != nil {
		return o, fmt.Errorf("%s on seed %d: %w", p.Name(), seed, err)
	}
	if p.observer != nil {
		p.observer.Ended(env)
	}
	return o, nil
}

// Observer watches one episode. It must not change the environment, and it is called from one goroutine.
type Observer interface {
	// Decided is called with each choice before it is carried out.
	Decided(env *sim.Env, c Choice)
	// Ended is called at the end of an episode that did not fail.
	Ended(env *sim.Env)
}

// Choice says where a pod goes.
type Choice struct {
	Candidate int               // index in the environment's Candidates
	Devices   cluster.DeviceSet // GPU devices of that node
	Start     int               // first memory slice of the MIG partition
	// Scores are those of the Candidates, -Inf where preferences exclude one; nil if the decider has none. They
	// are valid until the next decision.
	Scores []float32
}

// Decide chooses a node and its devices for the pending pod of the environment.
type Decide func(env *sim.Env) (Choice, error)

// Episode runs the episode of a seed, calls decide for every pod, and returns the outcome.
func Episode(env *sim.Env, seed uint64, decide Decide) (sim.Outcome, error) {
	if err := env.Reset(seed); err != nil {
		return sim.Outcome{}, err
	}
	for !env.Done() {
		choice, err := decide(env)
		if err != nil {
			return sim.Outcome{}, err
		}
		env.StepAt(choice.Candidate, choice.Devices, choice.Start)
	}
	return env.Outcome(), nil
}

// Placements runs Episode and also returns the names of the nodes that each arrival got, by its
// number in the plan. A pod has several nodes if it lost one, and no entry if no node had room.
func Placements(env *sim.Env, seed uint64, decide Decide) (sim.Outcome, map[int][]string, error) {
	at := map[int][]string{}
	o, err := Episode(env, seed, func(env *sim.Env) (Choice, error) {
		choice, err := decide(env)
		if err == nil {
			pod := env.Next()
			at[pod] = append(at[pod], env.Snapshot().Nodes[env.Candidates()[choice.Candidate]].Name)
		}
		return choice, err
	})
	return o, at, err
}

// Deciding returns decisions that take a node with the best score of a policy, as in Play.
func Deciding(p policy.Policy, ties *rand.Rand) Decide {
	var buffer []float32
	return func(env *sim.Env) (Choice, error) {
		var err error
		if buffer, err = Scores(env, p, buffer); err != nil {
			return Choice{}, err
		}
		c := Choice{Candidate: choose(buffer, ties), Scores: buffer}
		node := env.Snapshot().Nodes[env.Candidates()[c.Candidate]]
		c.Devices, c.Start, err = Place(p, node, env.Pending())
		return c, err
	}
}

// Place returns the devices that a policy gives to a pod on a node, and the first memory slice of the pod's MIG partition. A partition that
// does not fit there is an error.
func Place(p policy.Policy, node *cluster.Node, pod *cluster.Pod) (on cluster.DeviceSet, start int, err error) {
	on = policy.Devices(p, node, pod)
	if pod.Partition == mig.None {
		return on, 0, nil
	}
	gpu := bits.TrailingZeros64(uint64(on))
	if on.Len() != 1 || gpu >= len(node.Slices) {
		return on, 0, fmt.Errorf("%s chose the devices %b for a partition", p.Name(), on)
	}
	used := node.Slices[gpu]
	start = policy.Start(p, used, pod.Partition)
	if start < 0 || !slices.Contains(pod.Partition.Starts(), start) || used&pod.Partition.On(start) != 0 {
		return on, 0, fmt.Errorf("%s put %d compute slices at %d on a GPU with the memory slices %08b in use", p.Name(),
			pod.Partition.Compute(), start, used)
	}
	return on, start, nil
}

// Scores returns p's scores of the candidates of the pending pod, after preferences. The result may
// use buffer's memory.
//
// Preferences come first: a candidate that they do not leave to the policy has the score -Inf. The
// policy scores all candidates, because its scores may depend on which there are. Default spreading is
// weighed against its scores; see preference.Weigh. A policy.Upstream has the scores of preferences
// added to its own instead.
func Scores(env *sim.Env, p policy.Policy, buffer []float32) ([]float32, error) {
	rows := env.Candidates()
	scores := slices.Grow(buffer[:0], len(rows))[:len(rows)]
	if err := p.Score(env.Snapshot(), env.Pending(), rows, scores); err != nil {
		return nil, err
	}
	if u, adds := p.(policy.Upstream); adds {
		for i, v := range env.PreferencesBy(u.PreferenceWeights()) {
			scores[i] += float32(v)
		}
		return scores, nil
	}
	prefer(env, scores)
	return scores, nil
}

// Take returns the index of the candidate that a policy with these scores takes, after preferences as in Scores: the first of the best.
// Numbers below those of float32 are taken for -Inf, a candidate that the policy never takes. None may be NaN.
func Take(env *sim.Env, scores []float64) int {
	narrow := make([]float32, len(scores))
	for i, v := range scores {
		narrow[i] = float32(min(v, math.MaxFloat32))
	}
	prefer(env, narrow)
	return policy.Best(narrow)
}

func prefer(env *sim.Env, scores []float32) {
	var left []int32
	if sums := env.PreferencesBy(preference.Weights{Taints: preference.Upstream.Taints}); sums != nil {
		left = preference.Best(sums, nil)
		next := 0
		for i := range scores {
			if next < len(left) && int(left[next]) == i {
				next++
			} else {
				scores[i] = float32(math.Inf(-1))
			}
		}
	}
	if spread := env.PreferencesBy(preference.Weights{Spread: 1}); spread != nil {
		preference.Weigh(scores, left, spread)
	}
}

// choose returns the index of a best score. With ties, each of several equal best scores is equally
// likely (reservoir sampling).
func choose(scores []float32, ties *rand.Rand) int {
	best := policy.Best(scores)
	if ties == nil {
		return best
	}
	equal := 0
	for i, v := range scores {
		if v != scores[best] {
			continue
		}
		if equal++; ties.IntN(equal) == 0 {
			best = i
		}
	}
	return best
}
