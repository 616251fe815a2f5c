package trial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/choice"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/internal/kuberelease"
	"gnnsched/internal/table"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/contender"
	"gnnsched/scheduler/learn/cem"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/linear"
	"gnnsched/scheduler/policy/stock"
	"gnnsched/scheduler/server"
)

// Tune returns the command tune. version is the program's.
func Tune(version string) *ucli.Command {
	return &ucli.Command{
		Name:  "tune",
		Usage: "fit a policy's weights, or kube-scheduler's own, to a scenario by the cross-entropy method",
		Description: "Each generation draws weights around those of the last one, tries them on the same episodes, and keeps the\n" +
			"best ones. `gnnsched tune linear --help` says more.\n\n" +
			"Examples:\n" +
			"   gnnsched tune linear --scenario my.yaml --out my.json   # a weighted sum of features\n" +
			"   gnnsched tune stock --trace prod.record                 # kube-scheduler's own plugins, for your own cluster\n" +
			"   gnnsched tune mig --out mig.json                        # for MIG partitions: gnnsched eval --scenario 'mig-*'",
		Subcommands: []*ucli.Command{tuneLinearCommand(version), tuneStockCommand(version), tuneMIGCommand()},
		Action: func(c *ucli.Context) error {
			if c.NArg() > 0 {
				return cli.UnknownCommand("gnnsched tune", c.Args().First(), c.Command.Subcommands)
			}
			return ucli.ShowSubcommandHelp(c)
		},
	}
}

// tuneLinearCommand returns the command tune linear.
func tuneLinearCommand(version string) *ucli.Command {
	return &ucli.Command{
		Name:  "linear",
		Usage: "fit the weights of the linear policy",
		Description: "The weights are compared with the default scoring. docs/reference/features.md lists the features.\n" +
			"By default all weights start at zero, so that the flags decide the result. The file holds the weights, the\n" +
			"command that repeats the run, and the results on other seeds. Ctrl-C stops early and writes the weights so\n" +
			"far, with the command that leads to them.\n\n" +
			"Examples:\n" +
			"   gnnsched tune linear                                       # minutes; writes linear.json\n" +
			"   gnnsched tune linear --scenario my.yaml --out my.json\n" +
			"   gnnsched tune linear --from linear --scenario my.yaml      # start from weights built into the program\n" +
			"   gnnsched eval --checkpoint my=my.json                      # judge the weights",
		Flags: tuningFlags("linear.json",
			&ucli.StringFlag{Name: "from", Value: cem.FromZero, Usage: "`WEIGHTS` to start from: " + cem.FromZero +
				", a name built into the program (" + strings.Join(linear.TunedNames(), ", ") + "), or a .json file"},
			&ucli.StringFlag{Name: "features", Usage: "`NAMES` of the features whose weights are tuned; " +
				"the other weights do not change; default: all"},
			&ucli.StringFlag{Name: "name", Value: "linear", Usage: "`NAME` of the policy in tables"}),
		Action: tuneOn(version, tuneLinear),
	}
}

// tuneStockCommand returns the command tune stock.
func tuneStockCommand(version string) *ucli.Command {
	return &ucli.Command{
		Name:  "stock",
		Usage: "fit the weights and strategies of kube-scheduler's own score plugins, and write a KubeSchedulerConfiguration",
		Description: "It is for clusters where no other scheduler may run: kube-scheduler --config reads the file. The head of the file\n" +
			"holds the command that repeats the run, and the results on other seeds.\n\n" +
			"Examples:\n" +
			"   gnnsched tune stock --scenario my.yaml            # writes stock.yaml\n" +
			"   gnnsched tune stock --trace prod.record           # for your own cluster\n" +
			"   gnnsched eval --policies kube-scheduler,stock:stock.yaml --scenario my.yaml",
		Flags: tuningFlags("stock.yaml",
			&ucli.StringFlag{Name: "strategies", Value: strings.Join(choice.Names(stock.Strategies, choice.Text), ","),
				Usage: "`NAMES` of the strategies of NodeResourcesFit to search, each for --generations"},
			&ucli.BoolFlag{Name: "free-preferences", Usage: "let PodTopologySpread and TaintToleration weigh less against requests " +
				"than by default, down to no default spreading of replicas"}),
		Action: tuneOn(version, tuneStock),
	}
}

// tuningFlags are the flags of tuning on a scenario, with those of one command.
func tuningFlags(out string, own ...ucli.Flag) []ucli.Flag {
	return cli.Grouped(slices.Concat([]ucli.Flag{
		&ucli.StringFlag{Name: "scenario", Value: "family", Usage: "`NAME` or YAML file of the workloads to tune on"},
		&ucli.StringFlag{Name: "trace", Usage: "tune on the nodes and pods of a `RECORD` (gnnsched record) instead, " +
			"and judge on the last fifth of its time"},
		resampleFlag(),
		&ucli.StringFlag{Name: "objective", Usage: "`OBJECTIVE` to tune for, instead of the scenario's, for example balance=1,pack=0.5"},
		&ucli.StringFlag{Name: "out", Value: out, Usage: "`FILE` to write"},
		&ucli.IntFlag{Name: "stop-after", Usage: "end after this `NUMBER` of the generations, as Ctrl-C does; 0 for none"},
		&ucli.Float64Flag{Name: "spread", Value: 0.5, Usage: "standard `DEVIATION` of each weight at the start; " +
			"if all weights start at zero, it changes the scale of the scores but not their order"},
		&ucli.Float64Flag{Name: "wait-weight", Value: 40,
			Usage: "`PENALTY` for each additional percentage point of waiting pods, in percent of the objective"},
		&ucli.IntFlag{Name: "held-out", Value: 20,
			Usage: "judge the result on this `NUMBER` of episodes, which have gnnsched eval's first seeds; 0 for none"},
	}, own, searchFlags()),
		cli.Group{Heading: "the search", Flags: "population episodes spread wait-weight stop-after held-out resample"})
}

// searchFlags are the flags of every search by the cross-entropy method.
func searchFlags() []ucli.Flag {
	return []ucli.Flag{
		&ucli.IntFlag{Name: "generations", Value: 30, Usage: "`NUMBER` of generations"},
		&ucli.IntFlag{Name: "population", Value: 32, Usage: "`NUMBER` of weight vectors in a generation; the best quarter is kept"},
		&ucli.IntFlag{Name: "episodes", Value: 24, Usage: "`NUMBER` of episodes on which each vector is tried"},
		&ucli.Uint64Flag{Name: "seed", Value: 1, Usage: "`SEED` of all random numbers"},
	}
}

// tuneOn returns the action of a command that tunes on a scenario.
func tuneOn(version string, run func(c *ucli.Context, s tuning, version string) error) ucli.ActionFunc {
	return cli.FlagsOnly(func(c *ucli.Context) error {
		s, err := tuningScenarios(c)
		if err != nil {
			return err
		}
		return run(c, s, version)
	})
}

// tuning holds the scenario to tune on and the one to judge on.
type tuning struct{ learn, judge eval.Scenario }

// tuningScenarios reads the flags about scenarios.
func tuningScenarios(c *ucli.Context) (tuning, error) {
	o := objective.Mix(nil)
	if text := c.String("objective"); text != "" {
		var err error
		if o, err = objective.Parse(text); err != nil {
			return tuning{}, exit.New(exit.Usage, fmt.Errorf("--objective: %w", err), "docs/reference/objectives.md lists the terms")
		}
	}
	if dir := c.String("trace"); dir != "" {
		return tuningOnRecord(c, dir, o)
	}
	found, err := scenarios(c, c.String("scenario"))
	if err != nil {
		return tuning{}, err
	}
	if len(found) != 1 {
		return tuning{}, exit.Usagef("--scenario %s holds %d scenarios, want one", c.String("scenario"), len(found))
	}
	if found, err = resampled(c, found); err != nil {
		return tuning{}, err
	}
	if o != nil {
		found[0].Objective = o
	}
	return tuning{found[0], found[0]}, nil
}

// tuningOnRecord divides a record. Without an objective it is balance.
func tuningOnRecord(c *ucli.Context, dir string, o objective.Mix) (tuning, error) {
	if err := refuse(c, "--%s has no meaning with --trace; leave it out", "scenario", "resample"); err != nil {
		return tuning{}, err
	}
	if o == nil {
		o = objective.Mix{{Term: objective.Balance{}, Weight: 1}}
	}
	r, err := eval.OfRecord(dir, o, eval.TwoParts)
	if err != nil {
		return tuning{}, exit.New(exit.Usage, fmt.Errorf("--trace: %w", err), "docs/how-to/train.md says how a record is divided")
	}
	fmt.Fprintln(c.App.ErrWriter, r)
	return tuning{r.Learn, r.Judge}, nil
}

// stockFlags are the flags that decide the resulting profile.
var stockFlags = []string{
	"trace", "scenario", "resample", "objective", "strategies", "free-preferences", "generations", "stop-after", "population",
	"episodes", "spread", "wait-weight", "held-out", "seed",
}

// tuneStock tunes the score plugins of kube-scheduler.
func tuneStock(c *ucli.Context, s tuning, version string) error {
	t := cem.StockTuner{Search: searchOf(c, s.learn), FreePreferences: c.Bool("free-preferences")}
	for _, name := range strings.Split(c.String("strategies"), ",") {
		t.Strategies = append(t.Strategies, stock.Strategy(strings.TrimSpace(name)))
	}
	if err := t.Validate(); err != nil {
		return exit.New(exit.Usage, err, "see gnnsched tune stock --help")
	}
	out := c.String("out")
	if err := checkTuning(c, t.Generations*len(t.Strategies), out); err != nil {
		return err
	}
	return searchStock(c, t, s, out, version)
}

// head is the comment in front of the configuration.
type head struct {
	scenario eval.Scenario
	version  string // of this program
	profile  stock.Profile
	command  string           // that repeats the run
	judged   *eval.Comparison // nil if the profile was not judged
}

func (h head) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Score plugins of kube-scheduler (Kubernetes %s), tuned by gnnsched %s in the simulator:\n  %s\n\n",
		kuberelease.Scheduler, h.version, h.command)
	fmt.Fprintf(&b, "Scenario %s, objective %s.\n", h.scenario.Name, h.scenario.Objective.Name())
	h.results(&b)
	b.WriteString("\nNodeAffinity, InterPodAffinity and ImageLocality were not played. Their weights keep the default profile's ratio\n" +
		"to the sum of NodeResourcesFit and NodeResourcesBalancedAllocation.\n")
	if h.profile.NoDefaultSpread {
		b.WriteString("WITHOUT DEFAULT SPREADING: replicas are spread over nodes and zones only where their manifests have\n" +
			"topologySpreadConstraints. Delete the arguments of PodTopologySpread to spread them as by default.\n")
	}
	b.WriteString("\nUse: kube-scheduler --config FILE. It ignores --kubeconfig then; add clientConnection.kubeconfig, with kubeadm\n" +
		"/etc/kubernetes/scheduler.conf. Compare: gnnsched eval --policies kube-scheduler,stock:FILE\n")
	return b.String()
}

// results writes the means on held-out episodes.
func (h head) results(b *strings.Builder) {
	if h.judged == nil {
		b.WriteString("It was not judged on other episodes.\n")
		return
	}
	r := h.judged
	fmt.Fprintf(b, "Means over the %d held-out seeds from %d on, less is better; difference with its interval:\n",
		len(r.Seeds), r.Seeds[0])
	t := table.Of("", "default", "tuned", "difference", "95% interval")
	for i, m := range cem.Judged {
		d := r.Differences(cem.Judged)[i][0]
		interval := fmt.Sprintf("%+.4g to %+.4g", d.Low, d.High)
		if r.Samples() < 2 {
			interval = "one sample"
		}
		four := func(x float64) string { return fmt.Sprintf("%.4g", x) }
		t.Add(m.Title, four(r.Results[0].Mean(m)), four(r.Results[1].Mean(m)), fmt.Sprintf("%+.4g", d.Mean), interval)
	}
	t.Columns(b)
	for _, line := range warnings(r) {
		b.WriteString("Warning: " + line + "\n")
	}
}

// warnings says where the tuned profile is worse than the default, and whether it is better at all.
func warnings(r *eval.Comparison) (lines []string) {
	if r.Samples() < 2 && len(r.Seeds) > 1 {
		lines = append(lines, "these episodes have the same pods, so they are one sample. With --resample=false, "+
			"the profile was tuned on them too; else record for a longer time")
	}
	for i, d := range r.Differences(cem.Judged) {
		m, how := cem.Judged[i], fmt.Sprintf("p = %.2g over %d episodes", d[0].Adjusted, len(r.Seeds))
		if r.Samples() < 2 {
			how = "one sample"
		}
		if d[0].Mean > 0 {
			lines = append(lines, fmt.Sprintf("the tuned profile is worse than the default in %s: %.4g against %.4g (%s)",
				m.Title, r.Results[1].Mean(m), r.Results[0].Mean(m), how))
		}
		if m.Name == eval.Objective.Name && d[0].Mean <= 0 && d[0].Mark != eval.Lower {
			lines = append(lines, fmt.Sprintf("the tuned profile is not shown to be better than the default in %s (%s); the default will do",
				m.Title, how))
		}
	}
	return lines
}

// tunedStock is the name of the result in tables.
const tunedStock = "stock"

// searchStock tunes, judges and writes the file out. When the context ends after a generation, the file has the profile so far, and
// searchStock returns the context's error.
func searchStock(c *ucli.Context, t cem.StockTuner, s tuning, out, version string) error {
	total, log := t.Generations*len(t.Strategies), c.App.ErrWriter
	fmt.Fprintf(log, "tuning on %s: %d generations for each of %d strategies, of %d profiles on %d episodes\n",
		s.learn.Name, t.Generations, len(t.Strategies), t.Population, t.Episodes)
	search, stop := context.WithCancel(c.Context)
	defer stop()
	done := 0
	var left cli.TimeLeft
	left.After(0)
	found, err := t.Tune(search, func(s stock.Strategy, g cem.Generation) {
		if done++; done == c.Int("stop-after") {
			stop()
		}
		fmt.Fprintf(log, "%s: generation %d of %d: best %.4f of the default profile's, elite %.4f%s\n",
			s, g.Number, t.Generations, g.Best, g.Elite, left.After(float64(done)/float64(total)))
	})
	if err != nil && (!errors.Is(err, context.Canceled) || len(found) == 0) {
		return err // before the first generation has ended, there is nothing to write
	}
	for _, x := range found {
		if err == nil {
			fmt.Fprintf(log, "%s: %.4f of the default profile's on %d further episodes\n", x.Profile.Strategy, x.Choice, 2*t.Episodes)
		}
	}
	if err == nil && found[0].Choice >= 1 {
		fmt.Fprintln(log, "warning: no strategy did better than the default profile on the further episodes; "+
			"more --episodes make the search less a matter of luck")
	}
	header := head{scenario: s.learn, version: version, profile: found[0].Profile, command: tuneCommandLine(c, stockFlags)}
	if err = c.Context.Err(); err != nil {
		header.command = tuneCommandLine(c, stockFlags, "stop-after", done, "held-out", 0)
	}
	if n := c.Int("held-out"); err == nil && n > 0 {
		header.judged, err = judgeStock(c, s.judge, found[0].Profile, n)
	}
	text, failed := server.WriteStockConfig(found[0].Profile, header.text())
	if failed == nil {
		failed = os.WriteFile(out, text, 0o644)
	}
	if failed != nil {
		return errors.Join(err, failed)
	}
	fmt.Fprintf(log, "wrote %s: the best profile after %d of %d generations\n", out, done, total)
	return err
}

// judgeStock compares the profile with the default on episodes that tuning did not use, and prints the table.
func judgeStock(c *ucli.Context, s eval.Scenario, p stock.Profile, episodes int) (*eval.Comparison, error) {
	fmt.Fprintf(c.App.ErrWriter, "judging on %d other episodes\n\n", episodes)
	base, err := contender.Named(contender.Kubernetes)
	if err != nil {
		return nil, err
	}
	player, err := stock.New(tunedStock, p)
	if err != nil {
		return nil, err
	}
	mine := eval.Contender{Name: tunedStock, New: func(policy.Setting) policy.Policy { return player }, RandomTies: true}
	r, err := cem.Judge(c.Context, s, []eval.Contender{base, mine}, episodes)
	if err != nil {
		return nil, err
	}
	if err := r.WriteSummary(c.App.ErrWriter); err != nil {
		return nil, err
	}
	for _, line := range warnings(r) {
		fmt.Fprintln(c.App.ErrWriter, "warning: "+line)
	}
	return r, nil
}

// linearFlags are the flags that decide the resulting weights.
var linearFlags = []string{
	"trace", "scenario", "resample", "objective", "from", "features", "name", "generations", "stop-after", "population", "episodes", "spread",
	"wait-weight", "held-out", "seed",
}

func tuneLinear(c *ucli.Context, s tuning, version string) error {
	l, err := tuner(c, s.learn)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.App.ErrWriter, "tuning on %s: %d generations of %d weights on %d episodes\n",
		s.learn.Name, l.Generations, l.Population, l.Episodes)
	record := linear.Tuning{Command: tuneCommandLine(c, linearFlags), Version: version, Scenario: s.learn.Name, Seed: l.Seed}
	ctx, stop := context.WithCancel(c.Context)
	defer stop()
	var left cli.TimeLeft
	left.After(0)
	p, err := l.Tune(ctx, c.String("name"), func(g cem.Generation) {
		if record.Generations = g.Number; g.Number == c.Int("stop-after") {
			stop()
		}
		fmt.Fprintf(c.App.ErrWriter, "generation %d of %d: best %.4f of the default scoring's, elite %.4f%s\n",
			g.Number, l.Generations, g.Best, g.Elite, left.After(float64(g.Number)/float64(l.Generations)))
	})
	if err != nil && (!errors.Is(err, context.Canceled) || record.Generations == 0) {
		return err // before the first generation has ended, there is nothing to save
	}
	if err = c.Context.Err(); err != nil {
		record.Command = tuneCommandLine(c, linearFlags, "stop-after", record.Generations, "held-out", 0)
	}
	p.Tuning = &record
	if n := c.Int("held-out"); err == nil && n > 0 {
		record.HeldOut, err = heldOut(c, s.judge, p, n)
	}
	if failed := cem.Save(c.String("out"), p); failed != nil {
		return errors.Join(err, failed)
	}
	fmt.Fprintf(c.App.ErrWriter, "wrote %s: the weights after generation %d of %d\n", c.String("out"), record.Generations, l.Generations)
	return err
}

// tuneCommandLine returns the command with the given flags that repeats this run, even after defaults have
// changed. instead holds the names of flags, each followed by the value to give it. A run that was stopped early needs
// the number of its generations beside --generations, over which the noise fades.
func tuneCommandLine(c *ucli.Context, flags []string, instead ...any) string {
	line := "gnnsched tune " + c.Command.Name
	for _, name := range flags {
		if name == "scenario" && c.IsSet("trace") {
			continue
		}
		if on, is := c.Value(name).(bool); is {
			switch {
			case !c.IsSet(name): // without --resample the scenario decides
			case on:
				line += " --" + name
			default:
				line += " --" + name + "=false"
			}
			continue
		}
		v := fmt.Sprint(c.Value(name))
		if i := slices.Index(instead, any(name)); i >= 0 {
			v = fmt.Sprint(instead[i+1])
		}
		if v != "" {
			line += " --" + name + " " + quoted(v)
		}
	}
	return line
}

// quoted quotes a word for a shell, if necessary.
func quoted(word string) string {
	if strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.,/") == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// tuner reads the flags.
func tuner(c *ucli.Context, s eval.Scenario) (*cem.Tuner, error) {
	from, err := cem.StartWeights(c.String("from"))
	if err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("--from: %w", err), "")
	}
	l := &cem.Tuner{
		Search: searchOf(c, s),
		From:   from,
	}
	if names := c.String("features"); names != "" {
		l.Features = strings.Split(names, ",")
	}
	if err := l.Validate(); err != nil {
		return nil, exit.New(exit.Usage, err, "see gnnsched tune linear --help")
	}
	return l, checkTuning(c, l.Generations, c.String("out"))
}

// searchOf reads the flags about the search.
func searchOf(c *ucli.Context, s eval.Scenario) cem.Search {
	return cem.Search{
		Env: s.Config, Baseline: heuristic.Kubernetes{}, Episodes: c.Int("episodes"), WaitWeight: c.Float64("wait-weight"),
		Population: c.Int("population"), Generations: c.Int("generations"), Spread: c.Float64("spread"), Seed: c.Uint64("seed"),
	}
}

// checkTuning checks the flags about the end of a run of that many generations, and its file.
func checkTuning(c *ucli.Context, generations int, out string) error {
	if n := c.Int("held-out"); n < 0 {
		return exit.Usagef("--held-out %d is less than 0", n)
	}
	if n := c.Int("stop-after"); n < 0 || n > generations {
		return exit.Usagef("--stop-after %d: choose 1 to the %d of --generations, or 0 for all", n, generations)
	}
	return cli.Writable(out)
}

// heldOut compares a policy with the default scoring on workloads that tuning did not use.
func heldOut(c *ucli.Context, s eval.Scenario, p *linear.Policy, episodes int) (*linear.HeldOut, error) {
	fmt.Fprintf(c.App.ErrWriter, "judging on %d other episodes\n", episodes)
	base, err := contender.Named(contender.Kubernetes)
	if err != nil {
		return nil, err
	}
	out, err := cem.HeldOut(c.Context, s, base, p, episodes)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{base.Name, "tuned"} {
		means := out.Means[name]
		fmt.Fprintf(c.App.ErrWriter, "%s: objective %.4f, %.1f unscheduled, %.1f waited\n",
			name, means["cost"], means["unscheduled"], means["waited"])
	}
	warnOfWeights(c.App.ErrWriter, base.Name, out)
	return out, nil
}

// warnOfWeights warns about metrics in which the tuned weights did worse than the baseline, and about held-out episodes that are only one
// sample.
func warnOfWeights(w io.Writer, baseline string, h *linear.HeldOut) {
	if h.Samples < 2 && h.Episodes > 1 {
		fmt.Fprintln(w, "warning: these episodes have the same pods, so they are one sample. With --resample=false, "+
			"the weights were tuned on them too; else record for a longer time")
	}
	for _, m := range cem.Judged {
		p, worse := h.Worse[m.Name]
		if !worse {
			continue
		}
		mine, theirs := h.Means["tuned"][m.Name], h.Means[baseline][m.Name]
		how := fmt.Sprintf("p = %.2g over %d episodes", p, h.Episodes)
		if h.Samples < 2 {
			how = "one sample"
		}
		fmt.Fprintf(w, "warning: the tuned weights are worse than %s in %s: %.4g against %.4g (%s)\n", baseline, m.Name, mine, theirs, how)
	}
}
