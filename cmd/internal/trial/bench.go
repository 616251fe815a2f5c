package trial

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/choice"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/contender"
)

// Bench returns the command. version is the program's.
func Bench(version string) *ucli.Command {
	names := choice.Names(Tasks, func(t task) string { return t.Scenario })
	return &ucli.Command{
		Name:  "bench",
		Usage: "play the frozen set of docs/leaderboard.md",
		Description: "The set has one scenario for each kind of task, with seeds that nobody trains on. Choose among your policies on\n" +
			"--split validation, and play --split test once. Without --policies each scenario has its usual contenders.\n\n" +
			"Examples:\n" +
			"   gnnsched bench                                        # what is there to beat\n" +
			"   gnnsched bench --policies kube-scheduler,linear,python:policy.py\n" +
			"   gnnsched bench --split test --checkpoint mine=net.safetensors --by 'Your Name' --results mine.json",
		Flags: []ucli.Flag{
			&ucli.StringFlag{Name: "split", Value: string(Validation), Usage: "`PART` of the set: validation or test"},
			&ucli.StringSliceFlag{Name: "scenario", Usage: "only these `NAMES`: " + strings.Join(names, ", ")},
			&ucli.StringSliceFlag{Name: "policies", Usage: "`NAMES` of policies, the baseline first; default: each scenario's usual ones"},
			&ucli.StringSliceFlag{Name: "checkpoint", Usage: "add a network from a `FILE`, as gnnsched eval does; repeatable"},
			&ucli.StringFlag{Name: "data", Usage: "`DIR` with the openb trace; without it, openb is left out"},
			&ucli.StringFlag{Name: "results", Usage: "write a `FILE` for docs/results/leaderboard"},
			&ucli.StringFlag{Name: "by", Usage: "`NAME` of who signs the results off"},
		},
		Action: func(c *ucli.Context) error { return runBench(c, version) },
	}
}

func runBench(c *ucli.Context, version string) error {
	split := Split(c.String("split"))
	switch {
	case c.NArg() > 0:
		return cli.UnknownCommand("gnnsched bench", c.Args().First(), nil)
	case split.Seeds() == nil:
		return exit.Usagef("--split: %q is neither validation nor test", split)
	case c.IsSet("results") && c.String("by") == "":
		return exit.New(exit.Usage, errors.New("--results: nobody signs them off"), "add --by NAME")
	}
	set, err := Version()
	if err != nil {
		return err
	}
	out := Results{
		Set: set, Split: split, By: c.String("by"), Version: c.App.Version, Commit: version,
		Command: exit.ShellLine(append([]string{"gnnsched"}, os.Args[1:]...)...),
		Date:    time.Now().UTC().Format(time.DateOnly), Machine: machine(),
	}
	tasks, err := tasksOf(c)
	if err != nil {
		return err
	}
	for _, t := range tasks {
		rows, err := playTask(c, t, split)
		if err != nil {
			return err
		}
		out.Rows = append(out.Rows, rows...)
	}
	if !c.IsSet("results") {
		return nil
	}
	text, err := json.MarshalIndent(out, "", " ")
	if err == nil {
		err = os.WriteFile(c.String("results"), append(text, '\n'), 0o644)
	}
	if err != nil {
		return exit.New(exit.Usage, fmt.Errorf("--results: %w", err), "choose a file that you can write")
	}
	return nil
}

// tasksOf returns the tasks that the flags choose.
func tasksOf(c *ucli.Context) (out []task, err error) {
	chosen := c.StringSlice("scenario")
	for _, t := range Tasks {
		at := slices.Index(chosen, t.Scenario)
		switch {
		case len(chosen) > 0 && at < 0:
			continue
		case t.Scenario == openB && c.String("data") == "" && at >= 0:
			return nil, exit.New(exit.Usage, errors.New("--scenario openb needs the trace"),
				"name its folder with --data DIR; docs/results/gpu.md says where to get it")
		case t.Scenario == openB && c.String("data") == "":
			fmt.Fprintln(c.App.ErrWriter, "note: openb is left out; --data DIR adds it")
			continue
		}
		out = append(out, t)
	}
	if len(out) < len(chosen) {
		return nil, exit.Usagef("--scenario: the set lacks one of %s", strings.Join(chosen, ", "))
	}
	return out, nil
}

// playTask plays a task, prints its table and returns its results.
func playTask(c *ucli.Context, t task, split Split) ([]Row, error) {
	s, err := t.ScenarioOf(c.String("data"))
	if err != nil {
		return nil, err
	}
	names := t.Policies
	if c.IsSet("policies") {
		names = c.StringSlice("policies")
	}
	all, err := contender.List(names, c.StringSlice("checkpoint"))
	if err != nil {
		return nil, err
	}
	view := cli.StderrBar(c.App.ErrWriter)
	defer view.Close()
	r, err := eval.Compare(c.Context, s, all, split.Seeds(), view.Episodes(0, 1, s.Name))
	if err != nil {
		return nil, err
	}
	if err := r.WriteSummary(c.App.Writer); err != nil {
		return nil, err
	}
	return RowsOf(r)
}

var model = regexp.MustCompile(`(?m)^model name\s*:\s*(.+)$`)

// machine describes the class of this machine.
func machine() string {
	text, _ := os.ReadFile("/proc/cpuinfo") // elsewhere the architecture has to do
	name := runtime.GOARCH
	if m := model.FindSubmatch(text); m != nil {
		name = string(m[1])
	}
	return fmt.Sprintf("%s, %d processors", name, runtime.GOMAXPROCS(0))
}
