package trial

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/cmd/internal/progress"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/internal/runfolder"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/agreement"
	"gnnsched/scheduler/eval/contender"
	"gnnsched/scheduler/eval/runlog"
	"gnnsched/scheduler/eval/testbed"
	"gnnsched/scheduler/objective"
)

// Defaults of --live, which takes a hundred times as long as the simulator.
const (
	liveScenarios = "aaml"
	livePolicies  = contender.Kubernetes + ",best-fit,gnn"
	liveSeeds     = "2"
)

// runLive repeats the episodes of scenarios on simulated clusters.
func runLive(c *ucli.Context) error {
	err := refuse(c, "--%s works in the simulator only; leave it or --live out", "threshold", "all", "metrics", "from", "workers")
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
	program, err := testbed.FindProgram(c.String("kwokcluster"))
	if err != nil {
		return err
	}
	prometheus, err := e.prometheus(c.String("prometheus"))
	if err != nil {
		return err
	}
	log, closer, err := cli.Log(c, "eval-live", true) // messages of schedulers go to the file only
	if err != nil {
		return err
	}
	defer closer.Close()
	log.Info().Strs("scenarios", c.StringSlice("scenario")).Msg("repeating on clusters")
	view := progress.Stderr(c.App.ErrWriter)
	defer view.Close()
	played := agreement.Config{Seeds: e.seeds, Contenders: contenders, Launcher: program, LogDir: c.String("log-dir"), Prometheus: prometheus}
	return cli.InFolder(c, cli.Computation[[]*agreement.Report]{
		Manifest: e.manifest(c),
		Run: func(w *runfolder.Writer) ([]*agreement.Report, error) {
			defer view.Close()
			return e.onClusters(c, played, runlog.New(w, len(e.scenarios), len(e.contenders)), view)
		},
		Print: func(reports []*agreement.Report) error {
			if e.format == "json" {
				return cli.JSON(c.App.Writer, reports)
			}
			for _, r := range reports {
				if err := r.Write(c.App.Writer, e.format == "markdown"); err != nil {
					return err
				}
			}
			return nil
		},
	})
}

// prometheus returns the path of a program of Prometheus, which may be in PATH; "" for "".
func (e evaluation) prometheus(program string) (string, error) {
	if program == "" {
		return "", nil
	}
	if !slices.ContainsFunc(e.scenarios, func(s eval.Scenario) bool { return s.Usage != nil }) {
		return "", exit.New(exit.Usage, errors.New("--prometheus: no scenario has usage that it could measure"),
			"leave it out, or choose another scenario, such as blind; docs/how-to/evaluate.md makes one shorter")
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return "", exit.New(exit.Usage, fmt.Errorf("--prometheus: %w", err), testbed.PrometheusHint)
	}
	return filepath.Abs(path)
}

// onClusters repeats the episodes of all scenarios. Each goes to the log.
func (e evaluation) onClusters(
	c *ucli.Context, cfg agreement.Config, log *runlog.Log, view *progress.Bar,
) (reports []*agreement.Report, err error) {
	contenders := cfg.Contenders
	for i, s := range e.scenarios {
		there := s
		there.Name = agreement.OnCluster(s)
		cfg.Scenario, cfg.Contenders = s, slices.Clone(contenders)
		for k, x := range contenders {
			cfg.Contenders[k].Contender = log.Watched(there, []eval.Contender{x.Contender}, e.seeds[0])[0]
		}
		cfg.Progress = func(done float64, text string) {
			view.Show((float64(i)+done)/float64(len(e.scenarios)), s.Name, text)
		}
		r, err := agreement.Run(c.Context, cfg)
		if err != nil {
			return reports, err
		}
		log.WriteRows(there.Name, r.Policies(), r.Folder()...)
		reports = append(reports, r)
	}
	return reports, nil
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
	return e.inFolder(c, func(log *runlog.Log) ([]*eval.Comparison, error) {
		for _, r := range all {
			log.Write(r)
		}
		return all, nil
	})
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

// manifest describes the run.
func (e evaluation) manifest(c *ucli.Context) runfolder.Manifest {
	m := cli.RunManifest(c, "eval", e.seeds)
	if len(e.seeds) > 0 {
		m.Notes = []string{fmt.Sprintf("Heat maps and decisions are of the episode of seed %d. Metrics and waiting times are of all seeds.",
			e.seeds[0])}
	}
	return m
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

// aim sets the objective of all scenarios, unless text is empty. It returns an error if a network of many objectives cannot serve it.
func (e *evaluation) aim(text string) error {
	if text == "" {
		return nil
	}
	m, err := objective.Parse(text)
	if err != nil {
		return exit.New(exit.Usage, fmt.Errorf("--objective: %w", err), "docs/reference/objectives.md lists the terms")
	}
	for _, x := range e.contenders {
		if x.Wish == nil {
			continue
		}
		if _, err := x.Wish(m); err != nil {
			return exit.New(exit.Usage, fmt.Errorf("--objective: %s: %w", x.Name, err), "leave the policy out, or choose another objective")
		}
	}
	for i := range e.scenarios {
		e.scenarios[i].Objective = m
	}
	return nil
}
