package trial

import (
	"context"
	"fmt"
	"slices"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/choice"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/contender"
	"gnnsched/scheduler/eval/live"
	"gnnsched/scheduler/eval/testbed"
	"gnnsched/scheduler/server"
	"gnnsched/scheduler/sim"
)

// Demo returns the command demo, a setting of package live.
func Demo() *ucli.Command {
	return &ucli.Command{
		Name:  "demo",
		Usage: "see where the networks pay: mixed nodes under load, two scarce pools and a pool of GPUs, beside the default scheduler",
		Description: "It starts simulated clusters, deploys the same pods through a network and the default scheduler, says what is\n" +
			"won, which pods wait and why, and prints the figures beside the simulator's. Then it removes the clusters. It touches no\n" +
			"other one.\n\n" +
			"Examples:\n" +
			"   gnnsched demo                            # about a minute\n" +
			"   gnnsched demo --seeds 5 --seed 20        # more workloads, and others\n" +
			"   gnnsched try                             # one workload, to watch in a browser",
		Flags: append([]ucli.Flag{
			&ucli.IntFlag{Name: "seeds", Value: 2, Usage: "`NUMBER` of workloads in each part; each is deployed once through each scheduler"},
			&ucli.Uint64Flag{Name: "seed", Value: 1, Usage: "`SEED` of the first workload; the others follow it"},
			&ucli.StringFlag{Name: "variant", Value: "gnn", Usage: "learned `PROFILE` for the scarce pools: gnn, dqn, acgnn or acdqn"},
		}, cli.LogFlags()...),
		Action: cli.FlagsOnly(runDemo),
	}
}

// demoPart is one comparison of the demo: a network and the default scheduler on a scenario.
type demoPart struct {
	title, scenario, learned string

	figure string // that is compared
	of     func(sim.Outcome) float64
	more   bool // more is better
}

func demoParts(variant string) []demoPart {
	return []demoPart{
		{"Mixed nodes under load", "jobs", "rule", "standard deviation of the nodes' load",
			func(o sim.Outcome) float64 { return 100 * (o.CPUStd + o.MemoryStd) / 2 }, false},
		{"A full cluster with two scarce pools", "scarce-pools", variant, "pods without a node",
			func(o sim.Outcome) float64 { return 100 * float64(o.Unscheduled) / float64(max(o.Arrived, 1)) }, false},
		{"A pool of GPUs", "gpu-pool", "gpu-gnn", "GPUs allocated",
			func(o sim.Outcome) float64 { return 100 * o.GPU.Allocation }, true},
	}
}

// The workloads that the simulator plays, far from those on the clusters.
const usualSeed, usualSeeds = 101, 40

// demo is a run of the demo.
type demo struct {
	launcher testbed.Launcher
	logDir   string
	seeds    []uint64
	view     *cli.Bar
}

func runDemo(c *ucli.Context) error {
	seeds, err := seedsOf(c, 1)
	if err != nil {
		return err
	}
	if !slices.Contains(server.Variants, c.String("variant")) {
		return exit.Usagef("%w", choice.Unknown("variant", c.String("variant"), server.Variants))
	}
	_, closer, err := cli.Log(c, "demo", true)
	if err != nil {
		return err
	}
	defer closer.Close()
	program, err := testbed.FindProgram()
	if err != nil {
		return err
	}
	d := &demo{program, c.String("log-dir"), seeds, cli.StderrBar(c.App.ErrWriter)}
	defer d.view.Close()
	var reports []*live.Report
	var all verdict
	for _, p := range demoParts(c.String("variant")) {
		r, err := d.play(c.Context, p)
		if err != nil {
			return err
		}
		usual, err := p.usual(c.Context, r.Scenario)
		if err != nil {
			return err
		}
		all.add(p, r, usual)
		reports = append(reports, r)
	}
	d.view.Close()
	fmt.Fprint(c.App.Writer, all)
	for _, r := range reports {
		fmt.Fprintln(c.App.Writer)
		if err := r.Write(c.App.Writer, false); err != nil {
			return err
		}
	}
	return nil
}

// play deploys the workloads of a part through both schedulers on a cluster for each.
func (d *demo) play(ctx context.Context, p demoPart) (*live.Report, error) {
	s, err := eval.Find(p.scenario)
	if err != nil {
		return nil, err
	}
	list, err := contender.List([]string{contender.Kubernetes, p.learned}, nil)
	if err != nil {
		return nil, err
	}
	with, err := contender.WithProfiles(list, nil)
	if err != nil {
		return nil, err
	}
	return live.Run(ctx, live.Config{
		Scenario: s, Seeds: d.seeds, Contenders: with, Launcher: d.launcher, LogDir: d.logDir,
		Progress: func(done float64, text string) { d.view.Show(done, p.title, p.title+": "+text) },
	})
}

// usual compares both policies on other workloads in the simulator.
func (p demoPart) usual(ctx context.Context, s eval.Scenario) (*eval.Comparison, error) {
	list, err := contender.List([]string{contender.Kubernetes, p.learned}, nil)
	if err != nil {
		return nil, err
	}
	return eval.Compare(ctx, s, list, eval.Seeds(usualSeed, usualSeeds), nil)
}

// verdict says in a line for all parts and one for each on how many workloads the networks do better.
type verdict struct {
	here, of, there, others int
	parts                   string
}

// add adds a part that was played on clusters and in the simulator.
func (v *verdict) add(p demoPart, r *live.Report, usual *eval.Comparison) {
	var base, learned []sim.Outcome
	for i := 0; i < len(r.Trials); i += 2 {
		base, learned = append(base, r.Trials[i].Cluster), append(learned, r.Trials[i+1].Cluster)
	}
	here, ours, theirs := p.count(learned, base)
	there, simulated, by := p.count(usual.Results[1].Outcomes, usual.Results[0].Outcomes)
	v.here, v.of, v.there, v.others = v.here+here, v.of+len(base), v.there+there, v.others+len(usual.Seeds)
	v.parts += fmt.Sprintf("%s (%s): %s %.1f %%, not %.1f %%; in the simulator %.1f %%, not %.1f %%.\n",
		p.title, p.learned, p.figure, ours, theirs, simulated, by)
}

// String returns the lines.
func (v verdict) String() string {
	return fmt.Sprintf("The networks do better than the default scheduler on %d of %d workloads here, and on %d of %d in the simulator.\n%s",
		v.here, v.of, v.there, v.others, v.parts)
}

// count returns on how many workloads the first outcomes are better, and both means.
func (p demoPart) count(learned, base []sim.Outcome) (better int, ours, theirs float64) {
	for i := range learned {
		a, b := p.of(learned[i]), p.of(base[i])
		if a != b && (a > b) == p.more {
			better++
		}
		ours, theirs = ours+a/float64(len(learned)), theirs+b/float64(len(base))
	}
	return better, ours, theirs
}
