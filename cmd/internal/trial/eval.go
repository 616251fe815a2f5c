// Package trial has the commands that play policies in the simulator: gnnsched eval and tune.
// This file has what they share: flags.
package trial

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	ucli "github.com/urfave/cli/v2"

	page "gnnsched/cmd/internal/report"
	"gnnsched/cmd/internal/work"
	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/choice"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/contender"
	"gnnsched/scheduler/eval/live"
	"gnnsched/scheduler/eval/testbed"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy/preference"
	"gnnsched/scheduler/sim"
)

// Eval returns the command eval.
func Eval() *ucli.Command {
	return &ucli.Command{
		Name:  "eval",
		Usage: "compare policies in the simulator, on the same arrivals",
		Description: "Each policy places the same pods on the same clusters, once for each seed. The table shows each policy's\n" +
			"mean and its difference from the first policy, with a 95% interval and Wilcoxon's signed-rank test.\n" +
			"Unscheduled pods are always shown too. All this happens in the simulator, without a cluster. With --live, eval\n" +
			"repeats the episodes on simulated clusters with the real kube-scheduler, by default for a few policies.\n\n" +
			"Examples:\n" +
			"   gnnsched eval                                          # all policies, the quick scenarios\n" +
			"   gnnsched eval --scenario 'hetero*' --seeds 30 -o markdown\n" +
			"   gnnsched eval --all --policies kube-scheduler,gnn      # the mean of every metric, and most differences\n" +
			"   gnnsched eval --print-scenario mixed > mine.yaml       # write a scenario to a file, edit it, …\n" +
			"   gnnsched eval --scenario mine.yaml                     # … compare on it\n" +
			"   gnnsched eval --checkpoint logs/gnn.safetensors        # add a network that you trained\n" +
			cli.More + "\nScenarios:\n" + scenarioHelp() + "\n" + eval.OpenBHelp + "\n\n" +
			"Policies: " + strings.Join(contender.Names(), ", ") + "\n" +
			"and the networks " + strings.Join(checkpoint.ShippedNames(), ", ") + "; those that begin with gpu see GPUs\n\n" +
			"A threshold such as 'gnn.cpuStd <= 0.75*kube-scheduler.cpuStd' compares means. Each side is a sum of numbers\n" +
			"and of POLICY.METRIC, which can have a factor; the operators are <, <=, > and >=. To apply it to one scenario,\n" +
			"write that scenario's name and a colon in front. Write a policy's name in double quotes if it has a colon.\n" +
			"The metrics are " + strings.Join(eval.MetricNames(eval.Metrics), ", ") + ".\n" +
			"GPU traces and MIG also have " + strings.Join(eval.MetricNames(eval.Filling), ", ") + ", and at a load allocation95,\n" +
			"left95, watts95, meanWatts95 and bound95.\n\n" +
			"More examples:\n" +
			"   gnnsched eval --policies kube-scheduler,stock:stock.yaml   # kube-scheduler, configured by a file\n" +
			"   gnnsched eval --policies best-fit,most-allocated,gnn   # best-fit is the baseline\n" +
			"   gnnsched eval --threshold 'gnn.cpuStd <= 0.75*kube-scheduler.cpuStd'   # exit code 99 if missed\n" +
			"   gnnsched eval --preferences off                        # as if no pod belonged to a Deployment\n" +
			"   gnnsched eval --html report.html                       # a page with heat maps and decisions, too\n" +
			"   gnnsched eval --data DIR --scenario openb:default --policies fgd,gpu-gnn --metrics allocation95,allocation130\n" +
			"   gnnsched eval --autoscaler karpenter:60s --scenario scarce   # what it costs a day if nodes come and go\n" +
			"   gnnsched eval --live --scenario aaml                   # the simulator compared with a cluster\n" +
			"   gnnsched eval -o json > r.json && gnnsched eval --from r.json --all   # play once, print twice\n" +
			"   gnnsched eval -o json | jq '.[].policies[].mean'",
		Flags: cli.Grouped(slices.Concat(evalFlags(), scaledFlags(), work.Flags(), cli.LogFlags()),
			cli.Group{Heading: "autoscalers and what nodes cost", Flags: cli.Names(scaledFlags())},
			cli.Group{Heading: "what is judged", Flags: "objective preferences threshold resample"},
			cli.Group{Heading: "output", Flags: "html metrics from"},
			cli.Group{Heading: "on simulated clusters", Flags: "live"},
			cli.Group{Heading: "on several processes or machines", Flags: work.FlagNames}),
		Action: runEval,
	}
}

func evalFlags() []ucli.Flag {
	return []ucli.Flag{
		&ucli.StringSliceFlag{Name: "scenario", Usage: "`NAMES`, patterns such as 'hetero*', all, or YAML files; " +
			"--help-all lists them; default: " + strings.Join(eval.Default, ",")},
		&ucli.StringFlag{Name: "data", Usage: "`FOLDER` of the openb trace, for the scenarios openb:LIST"},
		&ucli.StringFlag{Name: "print-scenario", Usage: "print the file of the scenario `NAME`"},
		&ucli.IntFlag{Name: "seeds", Value: 10, Usage: "`NUMBER` of episodes for each policy"},
		&ucli.Uint64Flag{Name: "seed", Value: 1, Usage: "`SEED` of the first episode; the others follow it"},
		resampleFlag(),
		&ucli.StringSliceFlag{Name: "policies", Usage: "`NAMES` of policies, the baseline first; default: all, as --help-all lists them"},
		&ucli.StringSliceFlag{Name: "checkpoint", Usage: "add a network from a `FILE`, linear weights from .json or a " +
			"KubeSchedulerConfiguration from .yaml; NAME=FILE sets its name; repeatable"},
		&ucli.StringFlag{Name: "objective", Usage: "judge by this `OBJECTIVE` instead of the scenarios', such as balance=1,energy=0.3"},
		&ucli.StringSliceFlag{Name: "threshold", Usage: "exit with code 99 unless the `CONDITION` holds; repeatable"},
		&ucli.StringFlag{Name: "preferences",
			Usage: "how preferences and the spreading of replicas count, instead of what the scenarios say: `MODE` " +
				strings.Join(choice.Names(sim.PreferenceModes, choice.Text), ", ")},
		page.Flag(),
		&ucli.StringSliceFlag{Name: "from", Usage: "play nothing, and read the comparisons from `FILES` that -o json wrote"},
		&ucli.StringFlag{Name: "metrics", Usage: "print one table with these `METRICS`: a row for each policy, " +
			"means and differences from the first; with -o table or markdown"},
		&ucli.BoolFlag{Name: "all", Usage: "print the mean of every metric and most differences; markdown, csv and json always hold every mean"},
		&ucli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "table", Usage: "`FORMAT`: " + strings.Join(evalFormats, ", ")},
		&ucli.BoolFlag{Name: "live", Usage: "repeat the episodes on simulated clusters with the real kube-scheduler, and show the difference"},
	}
}

// scenarioHelp lists the scenarios with a line about each.
func scenarioHelp() string {
	all := eval.Scenarios()
	slices.SortFunc(all, func(a, b eval.Scenario) int { return strings.Compare(a.Name, b.Name) })
	width := 0
	for _, s := range all {
		width = max(width, len(s.Name))
	}
	var b strings.Builder
	for _, s := range all {
		fmt.Fprintf(&b, "   %-*s %s\n", width, s.Name, s.About)
	}
	return b.String()
}

// evaluation holds the parsed flags of an evaluation.
type evaluation struct {
	scenarios  []eval.Scenario
	contenders []eval.Contender
	seeds      []uint64
	thresholds []eval.Threshold
	format     string
	all        bool          // print every metric
	metrics    []eval.Metric // print only these metrics; empty for the usual tables
}

func runEval(c *ucli.Context) error {
	if c.NArg() > 0 {
		return cli.UnknownCommand("gnnsched eval", c.Args().First(), nil)
	}
	if name := c.String("print-scenario"); name != "" {
		text, err := eval.Source(name)
		if err != nil {
			return exit.New(exit.Usage, fmt.Errorf("--print-scenario: %w", err), "")
		}
		_, err = c.App.Writer.Write(text)
		return err
	}
	if c.IsSet("autoscaler") {
		return runScaled(c)
	}
	if err := refuse(c, "--%s goes with --autoscaler only", strings.Fields(cli.Names(scaledFlags()))...); err != nil {
		return err
	}
	if c.Bool("live") {
		return runLive(c)
	}
	if c.IsSet("from") {
		return runRead(c)
	}
	e, err := evaluationOf(c)
	if err != nil {
		return err
	}
	return e.print(c, func() ([]*eval.Comparison, error) { return e.compare(c) })
}

// print plays comparisons, prints them, and writes the page of --html. The table comes first, so that a page that cannot be written costs
// no result. With an error, the comparisons are those that ended before it.
func (e evaluation) print(c *ucli.Context, play func() ([]*eval.Comparison, error)) error {
	run, err := page.Begin(c, "eval", e.seeds, work.FlagNames+" log-dir log-level")
	if err != nil {
		return err
	}
	comparisons, err := play()
	if err != nil && len(comparisons) == 0 {
		return err
	}
	for _, r := range comparisons {
		run.Add(r)
	}
	if len(e.seeds) > 0 {
		run.Notes = []string{fmt.Sprintf("Heat maps and decisions are of the episode of seed %d. Metrics and waiting times are of all seeds.",
			e.seeds[0])}
	}
	return errors.Join(err, e.write(c.App.Writer, comparisons), missed(comparisons), run.Write(c, err))
}

// evaluationOf reads the flags.
func evaluationOf(c *ucli.Context) (e evaluation, err error) {
	if e, err = outputOf(c); err != nil {
		return e, err
	}
	if e.seeds, err = seedsOf(c, 1); err != nil {
		return e, err
	}
	if e.scenarios, err = scenarios(c, c.StringSlice("scenario")...); err != nil {
		return e, err
	}
	if e.scenarios, err = resampled(c, e.scenarios); err != nil {
		return e, err
	}
	if e.contenders, err = contender.List(c.StringSlice("policies"), c.StringSlice("checkpoint")); err != nil {
		return e, err
	}
	if err = preferFlag(c, e.scenarios); err != nil {
		return e, err
	}
	if err = e.aim(c.String("objective")); err != nil {
		return e, err
	}
	e.thresholds, err = eval.ChooseThresholds(c.StringSlice("threshold"), e.scenarios, e.contenders)
	return e, err
}

func resampleFlag() *ucli.BoolFlag {
	return &ucli.BoolFlag{
		Name: "resample",
		Usage: "draw the episodes of a trace from blocks of its arrivals; =false plays it as recorded (default: " +
			"as the scenario says, else true)",
		DisableDefaultText: true,
	}
}

// resampled applies --resample to the scenarios on traces.
func resampled(c *ucli.Context, list []eval.Scenario) ([]eval.Scenario, error) {
	if !c.IsSet("resample") {
		return list, nil
	}
	out, traces := slices.Clone(list), 0
	for i := range out {
		if cfg, ok := out[i].Resampled(c.Bool("resample")); ok {
			out[i].Config = cfg
			traces++
		}
	}
	if traces == 0 {
		return nil, exit.New(exit.Usage, errors.New("--resample: no scenario plays a trace at its times"), "leave it out")
	}
	return out, nil
}

// preferFlag lets preferences count in all scenarios as --preferences says.
func preferFlag(c *ucli.Context, scenarios []eval.Scenario) error {
	mode := preference.Mode(c.String("preferences"))
	if mode == "" {
		return nil
	}
	if err := mode.OneOf(sim.PreferenceModes); err != nil {
		return exit.Usagef("--%v", err)
	}
	for i := range scenarios {
		scenarios[i].Preferences = mode
	}
	return nil
}

// compare runs every scenario and shows the progress. With --html, each is watched.
func (e evaluation) compare(c *ucli.Context) ([]*eval.Comparison, error) {
	view := cli.StderrBar(c.App.ErrWriter)
	defer view.Close()
	pool, err := work.Begin(c, view)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	var out []*eval.Comparison
	for i, s := range e.scenarios {
		contenders, watching := e.contenders, (*eval.Watching)(nil)
		if c.IsSet("html") {
			contenders, watching = eval.Watched(contenders, e.seeds[0], len(e.scenarios)*len(e.contenders))
		}
		r, err := eval.Compare(c.Context, s, contenders, e.seeds, view.Episodes(i, len(e.scenarios), s.Name))
		if r != nil && watching != nil {
			watching.Into(r)
		}
		if err != nil {
			if r != nil {
				out = append(out, r)
				view.Close()
				fmt.Fprintf(c.App.ErrWriter, "note: %s: the figures are of the %d of %d seeds that were played\n", s.Name, len(r.Seeds), len(e.seeds))
			}
			return out, err
		}
		if err := r.Judge(e.thresholds); err != nil {
			return out, exit.New(exit.Usage, err, "")
		}
		out = append(out, r)
	}
	return out, nil
}

// scenarios reads the values of --scenario, and prints what their records lack.
func scenarios(c *ucli.Context, arguments ...string) ([]eval.Scenario, error) {
	all, err := eval.ChooseScenarios(arguments, c.String("data"))
	if err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("--scenario: %w", err), "gnnsched eval --print-scenario NAME shows the format of a file")
	}
	for _, s := range all {
		for _, n := range s.Notes {
			fmt.Fprintf(c.App.ErrWriter, "note: %s: %s\n", s.NodesFile, n)
		}
	}
	return all, nil
}

var evalFormats = []string{"table", "markdown", "csv", "json"}

// write writes the comparisons in the format of --output.
func (e evaluation) write(w io.Writer, comparisons []*eval.Comparison) error {
	switch e.format {
	case "json":
		return cli.JSON(w, comparisons)
	case "csv":
		return eval.WriteCSV(w, comparisons)
	}
	for _, r := range comparisons {
		write := r.WriteSummary
		switch {
		case len(e.metrics) > 0:
			write = func(w io.Writer) error { return r.WriteMetrics(w, e.metrics, e.format == "markdown") }
		case e.format == "markdown":
			write = r.WriteMarkdown
		case e.all:
			write = r.WriteTable
		}
		if err := write(w); err != nil {
			return err
		}
	}
	return nil
}

// missed returns an error that lists the thresholds that do not hold, or nil.
func missed(comparisons []*eval.Comparison) error {
	var lines []string
	judged := 0
	for _, r := range comparisons {
		for _, v := range r.Verdicts {
			if judged++; !v.Pass {
				lines = append(lines, "\n  "+r.Scenario.Name+": "+v.String())
			}
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return exit.New(exit.Gate, fmt.Errorf("%d of %d thresholds missed:%s", len(lines), judged, strings.Join(lines, "")), "")
}

// Defaults of --live, which takes a hundred times as long as the simulator.
const (
	liveScenarios = "aaml"
	livePolicies  = contender.Kubernetes + ",best-fit,gnn"
	liveSeeds     = "2"
)

// runLive repeats the episodes of scenarios on simulated clusters.
func runLive(c *ucli.Context) error {
	err := refuse(c, "--%s works in the simulator only; leave it or --live out", "html", "threshold", "all", "metrics", "from", "workers")
	if err != nil {
		return err
	}
	if f := c.String("output"); f == "csv" {
		return exit.Usagef("--live has no %s; choose table, markdown or json", f)
	}
	e, err := evaluationWith(c, map[string]string{"scenario": liveScenarios, "policies": livePolicies, "seeds": liveSeeds})
	if err != nil {
		return err
	}
	contenders, err := contender.WithProfiles(e.contenders, c.StringSlice("checkpoint"))
	if err != nil {
		return err
	}
	program, err := testbed.FindProgram()
	if err != nil {
		return err
	}
	log, closer, err := cli.Log(c, "eval-live", true) // messages of schedulers go to the file only
	if err != nil {
		return err
	}
	defer closer.Close()
	log.Info().Strs("scenarios", c.StringSlice("scenario")).Msg("repeating on clusters")
	view := cli.StderrBar(c.App.ErrWriter)
	defer view.Close()
	var reports []*live.Report
	for i, s := range e.scenarios {
		r, err := live.Run(c.Context, live.Config{
			Scenario: s, Seeds: e.seeds, Contenders: contenders, Launcher: program, LogDir: c.String("log-dir"),
			Progress: func(done float64, text string) { view.Show((float64(i)+done)/float64(len(e.scenarios)), s.Name, text) },
		})
		if err != nil {
			return err
		}
		reports = append(reports, r)
	}
	view.Close()
	if e.format == "json" {
		return cli.JSON(c.App.Writer, reports)
	}
	for _, r := range reports {
		if err := r.Write(c.App.Writer, e.format == "markdown"); err != nil {
			return err
		}
	}
	return nil
}

// evaluationWith reads the flags, with other defaults.
func evaluationWith(c *ucli.Context, defaults map[string]string) (evaluation, error) {
	if err := setDefaults(c, defaults); err != nil {
		return evaluation{}, err
	}
	return evaluationOf(c)
}

// runRead reads the comparisons of --from, judges them by the thresholds of the files and of the flags, and prints them.
func runRead(c *ucli.Context) error {
	if err := refuse(c, "--from reads what was played; --%s decides what is played: leave one of them out",
		"scenario", "seeds", "seed", "resample", "policies", "checkpoint", "preferences", "workers"); err != nil {
		return err
	}
	e, err := outputOf(c)
	if err != nil {
		return err
	}
	var all []*eval.Comparison
	for _, path := range c.StringSlice("from") {
		some, err := comparisonsOf(path)
		if err != nil {
			return exit.New(exit.Usage, fmt.Errorf("--from: %w", err), "gnnsched eval -o json writes such a file")
		}
		all = append(all, some...)
	}
	if all, err = eval.Merge(all); err != nil {
		return exit.New(exit.Usage, fmt.Errorf("--from: %w", err), "play both again from one file")
	}
	for _, r := range all {
		e.scenarios = append(e.scenarios, r.Scenario)
		for _, x := range r.Results {
			e.contenders = append(e.contenders, eval.Contender{Name: x.Name})
		}
	}
	if e.thresholds, err = eval.ChooseThresholds(c.StringSlice("threshold"), e.scenarios, e.contenders); err != nil {
		return err
	}
	for _, r := range all {
		if err := r.Judge(e.thresholds); err != nil {
			return exit.New(exit.Usage, err, "")
		}
	}
	return e.print(c, func() ([]*eval.Comparison, error) { return all, nil })
}

// outputOf reads the flags about the output.
func outputOf(c *ucli.Context) (evaluation, error) {
	format, err := cli.Format(c, evalFormats)
	e, text := evaluation{format: format, all: c.Bool("all")}, c.String("metrics")
	if err != nil || text == "" {
		return e, err
	}
	if e.format != "table" && e.format != "markdown" || e.all {
		return e, exit.Usagef("--metrics chooses the columns of -o table and -o markdown; leave --all and other formats out")
	}
	if e.metrics, err = eval.ParseMetrics(text); err != nil {
		return e, exit.New(exit.Usage, fmt.Errorf("--metrics: %w", err), "")
	}
	return e, nil
}

// comparisonsOf reads a file that -o json wrote.
func comparisonsOf(path string) ([]*eval.Comparison, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all, err := eval.ReadJSON(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return all, nil
}

// aim sets the objective of all scenarios, unless text is empty.
func (e *evaluation) aim(text string) error {
	if text == "" {
		return nil
	}
	m, err := objective.Parse(text)
	if err != nil {
		return exit.New(exit.Usage, fmt.Errorf("--objective: %w", err), "docs/reference/objectives.md lists the terms")
	}
	for i := range e.scenarios {
		e.scenarios[i].Objective = m
	}
	return nil
}

// seedsOf reads --seeds, which is least or more, and --seed.
func seedsOf(c *ucli.Context, least int) ([]uint64, error) {
	first, n := c.Uint64("seed"), c.Int("seeds")
	if n < least || n > 100_000 {
		return nil, exit.Usagef("--seeds %d is outside %d to 100000", n, least)
	}
	if err := sim.CheckEvaluationSeeds(first, n); err != nil {
		return nil, exit.New(exit.Usage, err, "")
	}
	return eval.Seeds(first, n), nil
}

// Refuse returns a usage error for the first of some flags that is set; format has a place for its name.
func refuse(c *ucli.Context, format string, flags ...string) error {
	for _, name := range flags {
		if c.IsSet(name) {
			return exit.Usagef(format, name)
		}
	}
	return nil
}

// Default sets the flags that are not set.
func setDefaults(c *ucli.Context, values map[string]string) error {
	for name, value := range values {
		if !c.IsSet(name) {
			if err := c.Set(name, value); err != nil {
				return err
			}
		}
	}
	return nil
}
