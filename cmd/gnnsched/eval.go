package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rs/zerolog"
	ucli "github.com/urfave/cli/v2"

	"gnnsched/cmd/internal/progress"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/contender"
	"gnnsched/scheduler/eval/figure"
)

func evalCommand() *ucli.Command {
	return &ucli.Command{
		Name:  "eval",
		Usage: "compare policies in the simulator, on the same arrivals",
		Description: "Every policy meets the same clusters and arrivals. Means and the differences from the first policy, with a\n" +
			"95% bootstrap interval and Wilcoxon's signed-rank test; pods that found no node are counted beside every\n" +
			"other figure. No cluster is needed; --live starts one of its own for each seed and repeats the episodes there,\n" +
			"for a few policies unless told otherwise.\n\n" +
			"Scenarios:\n" + scenarioHelp() + "\n" +
			"A threshold compares means: sums of numbers and of policy.metric, perhaps times a number, with <, <=, > or >=\n" +
			"between them, and the scenario's name and a colon before it where it is not for all; a policy's name with a\n" +
			"colon in it stands in double quotes. The metrics are " + metricHelp() + ".\n\n" +
			"Examples:\n" +
			"   gnnsched eval                                          # all policies on the quick scenarios\n" +
			"   gnnsched eval --scenario 'hetero*' --seeds 30 -o markdown\n" +
			"   gnnsched eval --all --policies kube-scheduler,gnn      # every metric, with its difference\n" +
			"   gnnsched eval --print-scenario mixed > mine.yaml       # a scenario of your own, to be changed …\n" +
			"   gnnsched eval --scenario mine.yaml --plot figures      # … and compared on, with an SVG\n" +
			"   gnnsched eval --checkpoint logs/gnn.safetensors        # add a network that you trained\n" +
			"   gnnsched eval --policies best-fit,most-allocated,gnn   # best-fit is the baseline\n" +
			"   gnnsched eval --threshold 'gnn.cpuStd <= 0.75*kube-scheduler.cpuStd'   # exit 99 where missed\n" +
			"   gnnsched eval --live --scenario aaml                   # the simulator against a cluster\n" +
			"   gnnsched eval -o json | jq '.[].policies[].mean'",
		Flags: append([]ucli.Flag{
			&ucli.StringSliceFlag{Name: "scenario", Usage: "`NAMES`, patterns such as 'hetero*', all, or YAML files; default: " + strings.Join(eval.Default, ",")},
			&ucli.StringFlag{Name: "print-scenario", Usage: "print the file of the scenario `NAME` and do nothing else"},
			&ucli.IntFlag{Name: "seeds", Value: 10, Usage: "`NUMBER` of episodes for each policy"},
			&ucli.Uint64Flag{Name: "seed", Value: 1, Usage: "of the first episode; the others follow it"},
			&ucli.StringSliceFlag{Name: "policies", Usage: "`NAMES`, the baseline first; default: " + strings.Join(contender.Names(), ",")},
			&ucli.StringSliceFlag{Name: "checkpoint", Usage: "also a network from a `FILE`, or a table or linear weights from one in .json; NAME=FILE says what tables call it; repeatable"},
			&ucli.StringSliceFlag{Name: "threshold", Usage: "exit with 99 unless the `CONDITION` holds; repeatable"},
			&ucli.StringFlag{Name: "plot", Usage: "also draw a figure of each scenario into the `DIRECTORY`, as SVG"},
			&ucli.BoolFlag{Name: "all", Usage: "print every metric, not only objective, unscheduled and waited; the formats other than table always do"},
			&ucli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "table", Usage: "`FORMAT`: " + strings.Join(evalFormats, ", ")},
			&ucli.BoolFlag{Name: "live", Usage: "repeat it on simulated clusters with the real kube-scheduler, and state the difference"},
			&ucli.StringFlag{Name: "kwokcluster", Usage: "`PATH` of kwokcluster, for --live; default: beside this program, else on the PATH"},
		}, cli.LogFlags()...),
		Action:      runEval,
		Subcommands: []*ucli.Command{evalOpenBCommand()},
	}
}

func scenarioHelp() string {
	var b strings.Builder
	for _, s := range eval.Scenarios() {
		fmt.Fprintf(&b, "   %-10s %s\n", s.Name, s.About)
	}
	return b.String()
}

func metricHelp() string {
	var names []string
	for _, m := range eval.Metrics {
		names = append(names, m.Name)
	}
	return strings.Join(names, ", ")
}

// evaluation is what one call of the command is about.
type evaluation struct {
	scenarios  []eval.Scenario
	contenders []eval.Contender
	seeds      []uint64
	thresholds []eval.Threshold
	format     string
	plots      string // directory; empty: none
	all        bool   // print every metric
}

func runEval(c *ucli.Context) error {
	if c.NArg() > 0 {
		return exit.Usagef("unexpected argument %q", c.Args().First())
	}
	if name := c.String("print-scenario"); name != "" {
		text, err := eval.Source(name)
		if err != nil {
			return exit.New(exit.Usage, fmt.Errorf("--print-scenario: %w", err), "")
		}
		_, err = c.App.Writer.Write(text)
		return err
	}
	if c.Bool("live") {
		return runLive(c)
	}
	e, err := evaluationOf(c)
	if err != nil {
		return err
	}
	comparisons, err := e.compare(c)
	if err != nil {
		return err
	}
	if err := e.draw(comparisons); err != nil {
		return err
	}
	if err := e.write(c.App.Writer, comparisons); err != nil {
		return err
	}
	return missed(comparisons)
}

// evaluationOf reads the flags.
func evaluationOf(c *ucli.Context) (e evaluation, err error) {
	n := c.Int("seeds")
	e.format, e.plots = c.String("output"), c.String("plot")
	e.all = c.Bool("all")
	if !slices.Contains(evalFormats, e.format) {
		return e, exit.Usagef("--output %q is not known; there are %s", e.format, strings.Join(evalFormats, ", "))
	}
	if n < 1 || n > 100_000 {
		return e, exit.Usagef("--seeds %d is outside 1 to 100000", n)
	}
	e.seeds = eval.Seeds(c.Uint64("seed"), n)
	if e.scenarios, err = scenarios(c.StringSlice("scenario")); err != nil {
		return e, err
	}
	if e.contenders, err = contender.List(c.StringSlice("policies"), c.StringSlice("checkpoint")); err != nil {
		return e, err
	}
	e.thresholds, err = eval.ChooseThresholds(c.StringSlice("threshold"), e.scenarios, e.contenders)
	return e, err
}

// compare runs every scenario, which can take long, and shows how far it is.
func (e evaluation) compare(c *ucli.Context) ([]*eval.Comparison, error) {
	view := evalProgress(c)
	defer view.Close()
	var out []*eval.Comparison
	for i, s := range e.scenarios {
		r, err := eval.Compare(c.Context, s, e.contenders, e.seeds, func(done, total int) {
			view.Show((float64(i)+float64(done)/float64(total))/float64(len(e.scenarios)), s.Name, fmt.Sprintf("%s: %d of %d episodes", s.Name, done, total))
		})
		if err != nil {
			return nil, err
		}
		if err := r.Judge(e.thresholds); err != nil {
			return nil, exit.New(exit.Usage, err, "")
		}
		out = append(out, r)
	}
	return out, nil
}

// evalProgress shows how far it is: in place on a terminal, as lines on stderr elsewhere.
func evalProgress(c *ucli.Context) *progress.Bar {
	log := zerolog.New(zerolog.ConsoleWriter{Out: c.App.ErrWriter, NoColor: true, PartsExclude: []string{zerolog.TimestampFieldName}})
	if progress.OnTerminal() {
		log = zerolog.Nop()
	}
	return progress.New(c.App.ErrWriter, progress.OnTerminal(), log)
}

// scenarios reads the values of --scenario.
func scenarios(arguments []string) ([]eval.Scenario, error) {
	all, err := eval.ChooseScenarios(arguments)
	if err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("--scenario: %w", err), "gnnsched eval --print-scenario NAME shows the format of a file")
	}
	return all, nil
}

var evalFormats = []string{"table", "markdown", "csv", "json"}

func (e evaluation) write(w io.Writer, comparisons []*eval.Comparison) error {
	switch e.format {
	case "json":
		out := json.NewEncoder(w)
		out.SetIndent("", "  ")
		return out.Encode(comparisons)
	case "csv":
		return eval.WriteCSV(w, comparisons)
	}
	for _, r := range comparisons {
		write := r.WriteSummary
		switch {
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

// draw writes a figure of each comparison into the directory of --plot.
func (e evaluation) draw(comparisons []*eval.Comparison) error {
	if e.plots == "" {
		return nil
	}
	if err := os.MkdirAll(e.plots, 0o755); err != nil {
		return exit.New(exit.Usage, fmt.Errorf("--plot: %w", err), "choose a directory that you can write to")
	}
	for _, r := range comparisons {
		svg, err := figure.SVG(r)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(e.plots, r.Scenario.Name+".svg"), svg, 0o644); err != nil {
			return exit.New(exit.Usage, fmt.Errorf("--plot: %w", err), "choose a directory that you can write to")
		}
	}
	return nil
}

// missed is the error of the thresholds that do not hold.
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
