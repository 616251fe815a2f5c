package cem

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"
	"gonum.org/v1/gonum/stat"

	"gnnsched/internal/choice"
	"gnnsched/internal/each"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/linear"
	"gnnsched/scheduler/sim"
)

// firstSeed is the first seed of tuning's episodes. It is far from those of evaluation, which count
// from 1, and from those of training.
const firstSeed = 1 << 61

// Search describes how candidates are drawn and tried. An episode's loss is its cost relative to a baseline
// on the same episode, plus a penalty for more waiting pods.
type Search struct {
	Env        sim.Config
	Baseline   policy.Policy // stateless
	Episodes   int           // in a generation
	WaitWeight float64       // penalty for one percentage point more of waiting pods, against one percent of cost

	Population  int // vectors of weights in a generation; a quarter of them is the elite
	Generations int
	Spread      float64 // standard deviation of every weight at the start; noise starts at a fifth of it
	Seed        uint64  // of the weights that are drawn
}

// validate reports the first setting out of range, given the vector to start from.
func (s Search) validate(start []float64) error {
	if s.Episodes < 1 {
		return fmt.Errorf("%d episodes a generation: want at least 1", s.Episodes)
	}
	if !(s.WaitWeight >= 0) {
		return fmt.Errorf("weight %v of waiting pods: want 0 or more", s.WaitWeight)
	}
	if err := sim.CheckTrainingSeed(s.Seed); err != nil {
		return err
	}
	return s.from(start, nil).validate()
}

// from returns the search that starts from a vector.
func (s Search) from(start []float64, f func(context.Context, int, [][]float64) ([]float64, error)) Problem {
	return Problem{Start: start, Spread: s.Spread, Population: s.Population, Generations: s.Generations, Seed: s.Seed, Losses: f}
}

// trials plays candidates on episodes, as many at a time as there are processors.
type trials struct {
	Search
	randomTies bool       // candidates break ties at random, as kube-scheduler does
	envs       []*sim.Env // one for each worker
	free       chan *sim.Env
}

func newTrials(s Search, randomTies bool) (*trials, error) {
	t := &trials{Search: s, randomTies: randomTies, free: make(chan *sim.Env, runtime.GOMAXPROCS(0))}
	for range cap(t.free) {
		env, err := sim.New(s.Env)
		if err != nil {
			return nil, err
		}
		t.envs = append(t.envs, env)
		t.free <- env
	}
	return t, nil
}

// generation returns the mean loss of each policy over the episodes of a generation. Each policy is used by
// one goroutine at a time.
func (t *trials) generation(ctx context.Context, number int, policies []policy.Policy) ([]float64, error) {
	return t.on(ctx, eval.Seeds(firstSeed+uint64(number*t.Episodes), t.Episodes), policies)
}

// on returns the mean loss of each policy over the episodes of seeds.
func (t *trials) on(ctx context.Context, seeds []uint64, policies []policy.Policy) ([]float64, error) {
	var base []sim.Outcome
	outcomes := make([][]sim.Outcome, len(policies))
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(len(t.envs))
	work.Go(func() (err error) {
		base, err = t.play(ctx, seeds, t.Baseline, true)
		return err
	})
	for i, p := range policies {
		work.Go(func() (err error) {
			outcomes[i], err = t.play(ctx, seeds, p, t.randomTies)
			return err
		})
	}
	if err := work.Wait(); err != nil {
		return nil, err
	}
	out := make([]float64, len(policies))
	for i := range out {
		for k, o := range outcomes[i] {
			out[i] += o.Relative(base[k], t.WaitWeight) / float64(len(seeds))
		}
	}
	return out, nil
}

// play returns the outcomes of a policy on the episodes of seeds.
func (t *trials) play(ctx context.Context, seeds []uint64, p policy.Policy, randomTies bool) (out []sim.Outcome, err error) {
	env := <-t.free
	defer func() { t.free <- env }()
	for _, seed := range seeds {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var ties *rand.Rand
		if randomTies {
			ties = rand.New(rand.NewPCG(seed, 1))
		}
		o, err := eval.Play(env, seed, p, ties)
		if err != nil {
			return nil, err
		}
		out = append(out, o)
	}
	return out, nil
}

// searchStream separates the search's random numbers from the others that a seed gives.
const searchStream = 0x63656d

// Problem is a search for the vector of least loss by the cross-entropy method (Rubinstein 1999), with noise that fades (Szita and
// Lőrincz 2006). Each generation draws vectors from a normal distribution and fits the distribution
// to the best quarter of them, the elite.
type Problem struct {
	Start       []float64 // mean of the first distribution
	Spread      float64   // standard deviation of every component at the start
	Population  int       // vectors in a generation
	Generations int
	Seed        uint64 // of the vectors that are drawn
	// Losses returns the losses of a generation's vectors, all on the same workloads, which the generation decides.
	Losses func(ctx context.Context, generation int, vectors [][]float64) ([]float64, error)
}

// elite returns the number of vectors that the distribution is fitted to.
func (p Problem) elite() int { return p.Population / 4 }

func (p Problem) validate() error {
	switch {
	case len(p.Start) == 0:
		return fmt.Errorf("nothing to tune: no weight to start from")
	case p.elite() < 2:
		return fmt.Errorf("population %d with an elite of %d: the elite is a quarter, and at least 2", p.Population, p.elite())
	case p.Generations < 1:
		return fmt.Errorf("%d generations: want at least 1", p.Generations)
	case !(p.Spread > 0):
		return fmt.Errorf("spread %v: want over 0", p.Spread)
	}
	return nil
}

// Generation is the result of one generation of a search. Less loss is better.
type Generation struct {
	Number int     // from 1
	Best   float64 // loss of the best vector
	Elite  float64 // mean loss of the elite
}

// Minimise returns the mean of the last distribution, which
// depends less on luck than the best vector. After each generation it calls told, unless that is
// nil. With an error it returns the mean so far.
func (p Problem) Minimise(ctx context.Context, told func(Generation)) ([]float64, error) {
	if err := p.validate(); err != nil {
		return nil, fmt.Errorf("cross-entropy method: %w", err)
	}
	rng := rand.New(rand.NewPCG(p.Seed, searchStream))
	mean, std := slices.Clone(p.Start), slices.Repeat([]float64{p.Spread}, len(p.Start))
	for g := range p.Generations {
		drawn := make([][]float64, p.Population)
		for i := range drawn {
			drawn[i] = make([]float64, len(mean))
			for j := range mean {
				drawn[i][j] = mean[j] + std[j]*rng.NormFloat64()
			}
		}
		copy(drawn[0], mean) // the mean itself competes
		l, err := p.Losses(ctx, g, drawn)
		if err != nil {
			return mean, err
		}
		tried := make([]vector, p.Population)
		for i := range tried {
			tried[i] = vector{drawn[i], l[i]}
		}
		slices.SortStableFunc(tried, func(a, b vector) int { return cmp.Compare(a.loss, b.loss) })
		elite := tried[:p.elite()]
		p.fit(elite, mean, std, 1-float64(g+1)/float64(p.Generations))
		if told != nil {
			told(Generation{g + 1, elite[0].loss, meanLoss(elite)})
		}
	}
	return mean, nil
}

type vector struct {
	weights []float64
	loss    float64
}

// fit sets mean and std to those of the elite, and adds noise to std: a fifth of Spread at first. left is the fraction of the
// search that is left.
func (p Problem) fit(elite []vector, mean, std []float64, left float64) {
	column := make([]float64, len(elite))
	for j := range mean {
		for i, v := range elite {
			column[i] = v.weights[j]
		}
		mean[j], std[j] = stat.PopMeanStdDev(column, nil)
		std[j] += p.Spread / 5 * left
	}
}

func meanLoss(vs []vector) float64 {
	return each.Sum(vs, func(v vector) float64 { return v.loss / float64(len(vs)) })
}

// FromZero names the start at which every weight is 0.
const FromZero = "zero"

// StartWeights returns the weights that tuning starts from: those of a
// policy that the program carries, or of a linear policy's .json file. They are nil for FromZero.
func StartWeights(from string) ([]float64, error) {
	switch {
	case from == FromZero:
		return nil, nil
	case slices.Contains(linear.TunedNames(), from):
		return linear.Tuned(from).Weights(), nil
	case filepath.Ext(from) != ".json":
		return nil, fmt.Errorf("it is no .json file, and %w",
			choice.Unknown("linear policy", from, append([]string{FromZero}, linear.TunedNames()...)))
	}
	p, err := linear.Load(from)
	if err != nil {
		return nil, err
	}
	if !p.Fixed() {
		return nil, fmt.Errorf("%s: its weights change with the state, which tuning does not learn; name a file without changes", from)
	}
	return p.Weights(), nil
}
