package cem

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"

	"gnnsched/internal/choice"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/linear"
	"gnnsched/scheduler/policy/preference"
	"gnnsched/scheduler/policy/stock"
	"gnnsched/scheduler/sim"
)

// choiceSeed is the first seed of the episodes that choose among the strategies. Neither a search nor
// an evaluation plays them.
const choiceSeed = firstSeed + 1<<40

// StockTuner tunes the score plugins of kube-scheduler: a search for each strategy of NodeResourcesFit, after
// which further episodes choose the strategy.
type StockTuner struct {
	Search                      // Generations are those of each strategy
	Strategies []stock.Strategy // to search; at least one
	// FreePreferences lets the search lower the weights of PodTopologySpread and TaintToleration relative to
	// the plugins that score requests, or leave out the default topology spread. Otherwise they are at
	// least as strong as by default.
	FreePreferences bool
}

// Tried is the result of the search for one strategy.
type Tried struct {
	Profile     stock.Profile
	Generations int     // completed
	Elite       float64 // mean loss of the last generation's elite; the default profile's loss is 1
	Choice      float64 // loss on the episodes that choose among strategies; NaN if they were not played
}

// Validate reports the first setting out of range.
func (t *StockTuner) Validate() error {
	if len(t.Strategies) == 0 {
		return errors.New("no strategy to search")
	}
	for i, s := range t.Strategies {
		if !slices.Contains(stock.Strategies, s) || slices.Contains(t.Strategies[:i], s) {
			return fmt.Errorf("strategy %q: want each of %v at most once", s, stock.Strategies)
		}
	}
	return t.validate(make([]float64, stockSpace{strategy: t.Strategies[0]}.size()))
}

// Tune returns what it found for each strategy, the best one first. It calls told after each generation. When
// ctx ends early, Tune returns the strategies that have a generation, by their last one, with ctx's error.
func (t *StockTuner) Tune(ctx context.Context, told func(stock.Strategy, Generation)) ([]Tried, error) {
	if err := t.Validate(); err != nil {
		return nil, fmt.Errorf("tune: %w", err)
	}
	tried, err := newTrials(t.Search, true)
	if err != nil {
		return nil, fmt.Errorf("tune: %w", err)
	}
	space, err := t.space(tried.envs[0])
	if err != nil {
		return nil, fmt.Errorf("tune: %w", err)
	}
	var found []Tried
	for _, s := range t.Strategies {
		space.strategy = s
		var x Tried
		if x, err = t.one(ctx, tried, space, func(g Generation) { told(s, g) }); x.Generations > 0 {
			found = append(found, x)
		}
		if err != nil {
			break
		}
	}
	if err == nil {
		err = choose(ctx, tried, found)
	}
	slices.SortStableFunc(found, func(a, b Tried) int {
		if err != nil {
			return cmp.Compare(a.Elite, b.Elite)
		}
		return cmp.Compare(a.Choice, b.Choice)
	})
	return found, err
}

// one searches with one strategy.
func (t *StockTuner) one(ctx context.Context, tried *trials, space stockSpace, told func(Generation)) (Tried, error) {
	x := Tried{Choice: math.NaN()}
	vector, err := t.from(make([]float64, space.size()), func(ctx context.Context, generation int, vectors [][]float64) ([]float64, error) {
		policies, err := stockPolicies(vectors, space.profile)
		if err != nil {
			return nil, err
		}
		return tried.generation(ctx, generation, policies)
	}).Minimise(ctx, func(g Generation) {
		x.Generations, x.Elite = g.Number, g.Elite
		told(g)
	})
	if x.Generations > 0 {
		x.Profile = space.profile(vector)
	}
	return x, err
}

// choose sets Choice, on twice as many episodes as a generation has.
func choose(ctx context.Context, tried *trials, found []Tried) error {
	policies, err := stockPolicies(found, func(x Tried) stock.Profile { return x.Profile })
	if err != nil {
		return err
	}
	losses, err := tried.on(ctx, eval.Seeds(choiceSeed, 2*tried.Episodes), policies)
	for i, l := range losses {
		found[i].Choice = l
	}
	return err
}

// stockPolicies returns the policies of the profiles of xs.
func stockPolicies[X any](xs []X, profile func(X) stock.Profile) (out []policy.Policy, err error) {
	for _, x := range xs {
		p, err := stock.New("candidate", profile(x))
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// space returns the parameters that make a difference in the episodes of the first generation, without a
// strategy.
func (t *StockTuner) space(env *sim.Env) (stockSpace, error) {
	mode := t.Env.PreferenceMode()
	s := stockSpace{spreads: mode == preference.First, declared: mode == preference.Declared, free: t.FreePreferences}
	for _, seed := range eval.Seeds(firstSeed, t.Episodes) {
		if err := env.Reset(seed); err != nil {
			return s, err
		}
		for _, n := range env.Snapshot().Nodes {
			s.gpus = s.gpus || n.Allocatable.GPU > 0
			s.taints = s.taints || mode != preference.Off && n.Avoids(nil) > 0
		}
	}
	return s, nil
}

// half is the weight of NodeResourcesFit and of NodeResourcesBalancedAllocation before the search. Their sum stays
// the same: only the ratio of weights counts. The weights of plugins that are not tuned are
// upstream's times half.
const half = 10

// shapeSteps is the distance between the points of a shape, in percent of utilization.
const shapeSteps = 25

// stockSpace says which parameters of a profile are tuned. A vector of zeros is upstream's default, but
// for the strategy.
type stockSpace struct {
	strategy stock.Strategy
	gpus     bool // some node has GPUs
	spreads  bool // upstream's default topology spread is played
	taints   bool // some node has a taint PreferNoSchedule
	free     bool // preferences may weigh less against requests than by default
	declared bool // the scenario leaves out the default topology spread, and so does the profile
}

// size returns the number of parameters.
func (s stockSpace) size() int {
	n := 2
	for _, more := range []bool{s.gpus, s.gpus, s.spreads, s.taints} {
		if more {
			n++
		}
	}
	if s.strategy == stock.RequestedToCapacityRatio {
		n += 100/shapeSteps + 1
	}
	return n
}

// profile returns the profile of a vector. Values beyond the ends of a range count as the ends.
func (s stockSpace) profile(vector []float64) stock.Profile {
	next := func() float64 {
		x := vector[0]
		vector = vector[1:]
		return x
	}
	p := stock.Default()
	p.Strategy, p.NoDefaultSpread = s.strategy, s.declared
	w := &p.Weights
	for _, x := range []*int64{&w.Spread, &w.Taints, &w.NodeAffinity, &w.PodAffinity, &w.ImageLocality} {
		*x *= half
	}
	w.Fit = between(half+half*next(), 1, 2*half)
	w.Balanced = 2*half - w.Fit
	cpu := between(half+half*next(), 1, 2*half-1)
	p.Fit = []stock.Weighted{{Resource: stock.CPU, Weight: cpu}, {Resource: stock.Memory, Weight: 2*half - cpu}}
	if s.gpus {
		if gpu := between(2*half*next(), 0, 100); gpu > 0 {
			p.Fit = append(p.Fit, stock.Weighted{Resource: stock.GPU, Weight: gpu})
		}
		if next() > 0 {
			p.Balanced = append(p.Balanced, stock.GPU)
		}
	}
	if s.spreads {
		if w.Spread = s.preference(w.Spread, next()); w.Spread == 0 {
			// Without the default constraints nothing is spread in the simulator, as with weight 0. With the
			// weight, what manifests declare still counts.
			p.NoDefaultSpread, w.Spread = true, half*preference.Upstream.Spread
		}
	}
	if s.taints {
		w.Taints = s.preference(w.Taints, next())
	}
	if s.strategy == stock.RequestedToCapacityRatio {
		for u := int64(0); u <= 100; u += shapeSteps {
			least := stock.MaxShapeScore * float64(100-u) / 100
			p.Shape = append(p.Shape, stock.Point{Utilization: u, Score: between(least+stock.MaxShapeScore*next(), 0, stock.MaxShapeScore)})
		}
	}
	return reduced(p)
}

// preference returns the weight of a preference plugin, given the one that has upstream's ratio to the
// resource plugins: it falls to 0 at -1, which only a free space allows, and doubles with every half.
func (s stockSpace) preference(weight int64, x float64) int64 {
	switch {
	case x >= 0:
		return between(float64(weight)*math.Exp2(2*x), weight, 20*weight)
	case s.free:
		return between(float64(weight)*(1+x), 0, weight)
	}
	return weight
}

// between rounds x to an integer from low to high.
func between(x float64, low, high int64) int64 {
	return int64(math.Round(min(max(x, float64(low)), float64(high))))
}

// reduced divides the plugins' weights, and the resources' weights, by what divides them all.
func reduced(p stock.Profile) stock.Profile {
	w := &p.Weights
	divide([]*int64{&w.Fit, &w.Balanced, &w.Spread, &w.Taints, &w.NodeAffinity, &w.PodAffinity, &w.ImageLocality})
	var resources []*int64
	for i := range p.Fit {
		resources = append(resources, &p.Fit[i].Weight)
	}
	divide(resources)
	return p
}

func divide(all []*int64) {
	var by int64
	for _, x := range all {
		for a := *x; a != 0; {
			by, a = a, by%a
		}
	}
	for _, x := range all {
		*x /= max(by, 1)
	}
}

// Tuner tunes the weights of a linear policy on episodes of a simulator's configuration.
type Tuner struct {
	Search
	// From are the weights to start from, in the order of linear.Features; nil for zeros.
	From []float64
	// Features are the names of the features whose weights are tuned. The other weights stay as
	// they are. nil for all.
	Features []string
}

// Validate reports the first setting out of range.
func (t *Tuner) Validate() error {
	if t.From != nil && len(t.From) != len(linear.Features) {
		return fmt.Errorf("%d weights to start from, want %d", len(t.From), len(linear.Features))
	}
	for _, name := range t.Features {
		if !slices.Contains(linear.Features, name) {
			return choice.Unknown("feature", name, linear.Features)
		}
	}
	return t.validate(t.start())
}

// tunes tells whether the weight of a feature is tuned. Without a list those about usage are only tuned where usage
// is played, and those of machines are not.
func (t *Tuner) tunes(feature string) bool {
	if t.Features == nil {
		return slices.Contains(linear.RequestFeatures, feature) || t.Env.Usage != nil && slices.Contains(linear.UsageFeatures, feature)
	}
	return slices.Contains(t.Features, feature)
}

// start returns the first weights of the features that are tuned.
func (t *Tuner) start() (out []float64) {
	for i, name := range linear.Features {
		switch {
		case !t.tunes(name):
		case t.From == nil:
			out = append(out, 0)
		default:
			out = append(out, t.From[i])
		}
	}
	return out
}

// policy returns the policy with the given weights for the features that are tuned.
func (t *Tuner) policy(name string, weights []float64) (*linear.Policy, error) {
	all := make([]float64, len(linear.Features))
	copy(all, t.From)
	next := 0
	for i, feature := range linear.Features {
		if t.tunes(feature) {
			all[i] = weights[next]
			next++
		}
	}
	return linear.New(name, all)
}

// Tune returns the tuned policy under the given name. It calls told after each generation; told may
// be nil. When ctx ends early, Tune returns the policy so far with ctx's error.
func (t *Tuner) Tune(ctx context.Context, name string, told func(Generation)) (*linear.Policy, error) {
	err := t.Validate()
	if err != nil {
		return nil, fmt.Errorf("tune: %w", err)
	}
	tried, err := newTrials(t.Search, false)
	if err != nil {
		return nil, fmt.Errorf("tune: %w", err)
	}
	weights, err := t.from(t.start(), func(ctx context.Context, generation int, vectors [][]float64) ([]float64, error) {
		var policies []policy.Policy
		for _, v := range vectors {
			p, err := t.policy("candidate", v)
			if err != nil {
				return nil, err
			}
			policies = append(policies, p)
		}
		return tried.generation(ctx, generation, policies)
	}).Minimise(ctx, told)
	if weights == nil {
		return nil, err
	}
	p, invalid := t.policy(name, weights)
	if invalid != nil {
		return nil, invalid
	}
	return p, err
}

// heldOutSeed is the seed of the first held-out episode. The evaluation starts with it too; it
// is far from the seeds of tuning.
const heldOutSeed = 1

// Judged are the metrics that HeldOut.Worse is about, the objective first.
var Judged = slices.DeleteFunc(slices.Clone(eval.Metrics), func(m eval.Metric) bool {
	return m.Name != eval.Objective.Name && m.Name != eval.Unscheduled.Name && m.Name != "waited"
})

// HeldOut compares p with baseline on episodes of a scenario that tuning did not see. It
// returns the mean of every metric for both, under the names of baseline and "tuned".
func HeldOut(ctx context.Context, s eval.Scenario, baseline eval.Contender, p *linear.Policy, episodes int) (*linear.HeldOut, error) {
	tuned := eval.Contender{Name: "tuned", New: func(policy.Setting) policy.Policy { return p.Named(p.Name()) }}
	r, err := Judge(ctx, s, []eval.Contender{baseline, tuned}, episodes)
	if err != nil {
		return nil, err
	}
	out := &linear.HeldOut{FirstSeed: heldOutSeed, Episodes: episodes, Samples: r.Samples(), Means: map[string]map[string]float64{},
		Worse: map[string]float64{}}
	for _, x := range r.Results {
		means := map[string]float64{}
		for _, m := range eval.Metrics {
			means[m.Name] = x.Mean(m)
		}
		out.Means[x.Name] = means
	}
	for i, d := range r.Differences(Judged) {
		if d[0].Mean > 0 {
			out.Worse[Judged[i].Name] = d[0].Adjusted
		}
	}
	return out, nil
}

// Judge compares contenders on episodes of a scenario that tuning did not see.
func Judge(ctx context.Context, s eval.Scenario, contenders []eval.Contender, episodes int) (*eval.Comparison, error) {
	s.Optimum = false // only the contenders matter
	return eval.Compare(ctx, s, contenders, eval.Seeds(heldOutSeed, episodes), nil)
}

// Save writes a policy's weights to a .json file, which linear.Load reads.
func Save(path string, p *linear.Policy) error {
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
