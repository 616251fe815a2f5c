// Package trial has the commands that play policies in the simulator: gnnsched eval and tune.
// This file has what they share: flags.
package trial

import (
	"fmt"
	"os"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/contender"
	"gnnsched/scheduler/eval/live"
	"gnnsched/scheduler/eval/testbed"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/sim"
)

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
	e, err := liveEvaluation(c)
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

// liveEvaluation reads the flags that work in the simulator too, with other defaults.
func liveEvaluation(c *ucli.Context) (evaluation, error) {
	if err := setDefaults(c, map[string]string{"scenario": liveScenarios, "policies": livePolicies, "seeds": liveSeeds}); err != nil {
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
