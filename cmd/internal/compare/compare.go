// Package compare is the command `gnnsched compare`, which replays a record under profiles and compares them with what
// really happened.
package compare

import (
	"context"
	"errors"
	"fmt"
	"slices"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/cmd/internal/progress"
	"gnnsched/cmd/internal/recording"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/replay"
	"gnnsched/scheduler/server"
)

// Command returns the command.
func Command() *ucli.Command {
	return &ucli.Command{
		Name:      "compare",
		Usage:     "replay a record under profiles, and compare them with what really happened",
		ArgsUsage: "RECORD",
		Description: "RECORD is a folder that gnnsched record or gnnsched convert wrote. Its pods and nodes are played again in memory, with\n" +
			"all filters of kube-scheduler and with preemption, under the profile that the cluster has now (--present) and others. The first row\n" +
			"is what really happened. How far the simulated present profile is from it is said first. docs/compare.md describes the\n" +
			"figures and what the replay lacks.\n\n" +
			"Examples:\n" +
			"   gnnsched compare prod.record                                       # the default scheduler and gnn\n" +
			"   gnnsched compare --profile acgnn-pack --profile most-allocated --objective pack prod.record\n" +
			"   gnnsched compare --checkpoint mine=my.safetensors --checkpoint stock.yaml prod.record\n" +
			"   gnnsched compare --prices prices.yaml prod.record                  # what the nodes in use cost\n" +
			"   gnnsched compare --out run prod.record && gnnsched report run      # as a page\n" +
			"   gnnsched compare --from 2026-06-01T00:00:00Z --to 2026-06-08T00:00:00Z -o json prod.record",
		Flags:  append(flags(), cli.LogFlags()...),
		Action: run,
	}
}

func flags() []ucli.Flag {
	return append([]ucli.Flag{
		&ucli.StringFlag{Name: "present", Value: server.DefaultProfile, Usage: "`PROFILE` that the cluster has now"},
		&ucli.StringSliceFlag{Name: "profile", Aliases: []string{"p"}, Value: ucli.NewStringSlice("gnn"), Usage: "`PROFILE` to compare with it; may be given several times"},
		recording.CheckpointFlag(),
		&ucli.StringFlag{Name: "objective", Value: "balance", Usage: "`OBJECTIVE` of the column cost, such as pack or balance=1,pack=0.5"},
		recording.PricesFlag(),
		&ucli.Uint64Flag{Name: "seed", Value: 1, Usage: "`SEED` of the draws among equal nodes and of the resampling"},
		&ucli.StringFlag{Name: "out", Usage: "leave a folder `DIR` for gnnsched report: the verdict, all figures with intervals, and what the replay lacks"},
		&ucli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "table", Usage: "`FORMAT`: table, csv or json"},
	}, recording.WindowFlags()...)
}

// blocks is the number of stretches of time before dependent ones are joined.
const blocks = 512

func run(c *ucli.Context) error {
	write, known := formats[c.String("output")]
	if !known {
		return exit.Usagef("--output %q: choose table, csv or json", c.String("output"))
	}
	term, err := objective.Parse(c.String("objective"))
	if err == nil && slices.ContainsFunc(term, func(w objective.Weighted) bool { return objective.Measured(w.Term) }) {
		err = errors.New("a replay cannot measure usage; choose terms about requests, such as balance or pack")
	}
	if err != nil {
		return exit.New(exit.Usage, fmt.Errorf("--objective: %w", err), "")
	}
	chosen, err := recording.Profiles(c)
	if err != nil {
		return err
	}
	prices, err := recording.Prices(c)
	if err != nil {
		return err
	}
	source, err := recording.Source(c, recording.Window(c))
	if err != nil {
		return err
	}
	log, closer, err := cli.Log(c, "compare", progress.OnTerminal())
	if err != nil {
		return err
	}
	defer closer.Close()
	bar := progress.New(c.App.ErrWriter, progress.OnTerminal(), log)
	defer bar.Close()
	p := player{source: source, config: replay.Config{Objective: term, Prices: prices, Blocks: blocks, Seed: c.Uint64("seed")}, bar: bar, parts: len(chosen) + 1}
	r, err := inFolder(c, func() (result, error) {
		out, err := p.all(c.Context, chosen)
		out.Objective, out.priced = term.Name(), prices != nil
		return out, err
	})
	if err != nil {
		return err
	}
	bar.Close()
	return write(c.App.Writer, r)
}

// player plays one course after another.
type player struct {
	source replay.Source
	config replay.Config
	bar    *progress.Bar
	parts  int
	done   int
}

// all plays what really happened and the profiles, the present one first.
func (p *player) all(ctx context.Context, chosen []server.Profile) (result, error) {
	decoded, err := server.Config{Profiles: chosen, QPS: 1}.Decode()
	if err != nil {
		return result{}, err
	}
	p.config.Profile = decoded.Profiles[0]
	var names []string
	var courses []replay.Course
	if p.source.Bound() {
		real, err := p.play(ctx, "what really happened", replay.Real)
		if err != nil {
			return result{}, err
		}
		names, courses = append(names, reality), append(courses, real)
	}
	for i, profile := range decoded.Profiles {
		name := chosen[i].SchedulerName
		p.config.Profile = profile
		course, err := p.play(ctx, name, replay.Run)
		if err != nil {
			return result{}, err
		}
		names, courses = append(names, name), append(courses, course)
	}
	return compare(&p.source, names, courses, p.config.Seed), nil
}

type play func(context.Context, replay.Source, replay.Config) (replay.Course, error)

func (p *player) play(ctx context.Context, name string, play play) (replay.Course, error) {
	c := p.config
	c.Progress = func(done float64) {
		p.bar.Show((float64(p.done)+done)/float64(p.parts), name, fmt.Sprintf("%s: %.0f %%", name, 100*done))
	}
	out, err := play(ctx, p.source, c)
	p.done++
	if err != nil {
		return out, fmt.Errorf("play %s: %w", name, err)
	}
	return out, nil
}
