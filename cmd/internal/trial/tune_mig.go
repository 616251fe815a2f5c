package trial

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"

	ucli "github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"gnnsched/internal/cli"
	"gnnsched/internal/cluster/mig"
	"gnnsched/internal/exit"
	"gnnsched/internal/table"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/learn/cem"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/partition"
	"gnnsched/scheduler/policy/preference"
	"gnnsched/scheduler/sim"
)

// tuneMIGCommand returns the command tune mig.
func tuneMIGCommand() *ucli.Command {
	return &ucli.Command{
		Name:  "mig",
		Usage: "learn the cost of the states of a GPU with MIG, for the policy mig:FILE.json",
		Flags: append(searchFlags(),
			&ucli.StringFlag{Name: "out", Value: "mig.json", Usage: "`FILE` to write"}),
		Action: cli.FlagsOnly(tuneMIG),
	}
}

// tuneMIG learns values for mig:FILE.json and writes them to the file of --out.
func tuneMIG(c *ucli.Context) error {
	cfg := defaultConfig()
	cfg.Seed, cfg.Generations, cfg.Population, cfg.Episodes = c.Uint64("seed"), c.Int("generations"), c.Int("population"), c.Int("episodes")
	if err := sim.CheckTrainingSeed(cfg.Seed); err != nil {
		return exit.New(exit.Usage, fmt.Errorf("--seed: %w", err), "")
	}
	out := c.String("out")
	if err := cli.Writable(out); err != nil {
		return err
	}
	var left cli.TimeLeft
	left.After(0)
	v, weights, err := train(c.Context, cfg, func(g cem.Generation) {
		fmt.Fprintf(c.App.ErrWriter, "generation %d: the elite leaves %.3f%% idle%s\n",
			g.Number, 100*g.Elite, left.After(float64(g.Number)/float64(cfg.Generations)))
	})
	if err != nil {
		return err
	}
	b, err := v.Marshal(fmt.Sprintf("gnnsched tune mig --seed %d --generations %d --population %d --episodes %d",
		cfg.Seed, cfg.Generations, cfg.Population, cfg.Episodes))
	if err != nil {
		return err
	}
	if err := os.WriteFile(out, b, 0o644); err != nil {
		return exit.New(exit.Usage, err, "choose a place that you can write to with --out")
	}
	t := table.Of("FEATURE", "WEIGHT", "WHAT IT IS")
	for i, f := range mig.Features {
		t.Add(f.Name, fmt.Sprintf("%.4f", weights[i]), f.About)
	}
	if err := t.Columns(c.App.Writer); err != nil {
		return err
	}
	fmt.Fprintf(c.App.Writer, "wrote %s; gnnsched eval --scenario 'mig-*' --policies mig:fgd,mig:value,mig:%s judges it\n", out, out)
	return nil
}

// config describes a training.
type config struct {
	MIG         sim.MIG // without a mix; an episode's allocation counts at its loads
	Generations int
	Population  int // vectors of weights in a generation
	Episodes    int // of each vector in a generation
	Seed        uint64
}

// defaultConfig returns the configuration of the shipped values.
func defaultConfig() config {
	return config{
		MIG:         sim.MIG{Machines: 8, GPUs: 8, Loads: []float64{0.7, 0.8, 0.9, 0.95, 1, 1.1, 1.3}},
		Generations: 30, Population: 32, Episodes: 24, Seed: 1,
	}
}

const mixStream = 0x6d6978

// train learns values. The same configuration gives the same values. After each generation it calls told, unless that is nil. A loss is
// the mean share of the compute slices that were requested, exist, and are idle.
func train(ctx context.Context, c config, told func(cem.Generation)) (*partition.Values, []float64, error) {
	if err := sim.CheckTrainingSeed(c.Seed); err != nil {
		return nil, nil, err
	}
	start := make([]float64, len(mig.Features))
	start[0] = 1
	p := cem.Problem{Start: start, Spread: 0.5, Population: c.Population, Generations: c.Generations, Seed: c.Seed, Losses: c.losses}
	weights, err := p.Minimise(ctx, told)
	if err != nil {
		return nil, nil, fmt.Errorf("learn the cost of MIG states: %w", err)
	}
	return partition.Weighted(weights), weights, nil
}

// losses plays the episodes of a generation with each vector, as many at a time as there are processors.
func (c config) losses(ctx context.Context, generation int, vectors [][]float64) ([]float64, error) {
	out := make([]float64, len(vectors))
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(runtime.GOMAXPROCS(0))
	for i, w := range vectors {
		work.Go(func() error {
			v := partition.Weighted(w)
			for e := range c.Episodes {
				loss, err := c.loss(ctx, v, sim.TrainingEpisode(c.Seed, uint64(generation*c.Episodes+e+1)))
				if err != nil {
					return err
				}
				out[i] += loss / float64(c.Episodes)
			}
			return nil
		})
	}
	return out, work.Wait()
}

// loss plays an episode.
func (c config) loss(ctx context.Context, v *partition.Values, seed uint64) (sum float64, err error) {
	x := eval.Contender{Name: "mig:value", New: func(s policy.Setting) policy.Policy { return v.Policy(partition.MixOf(s.Typical)) }}
	m := c.MIG
	m.Weights = family(seed)
	env, err := sim.New(sim.Config{MIG: &m, Preferences: preference.Off})
	if err != nil {
		return 0, err
	}
	o, err := x.Episode(ctx, env, seed)
	if err != nil {
		return 0, err
	}
	for _, at := range o.Partitions.Loads {
		sum += (min(at.Load, 1) - min(at.Allocation, 1)) / float64(len(m.Loads))
	}
	return sum, nil
}

// family draws the weights of a mix whose shares are uniform on the simplex.
func family(seed uint64) (weights partition.Mix) {
	rng := rand.New(rand.NewPCG(seed, mixStream))
	for _, p := range mig.Profiles() {
		weights[p] = rng.ExpFloat64()
	}
	return weights
}
