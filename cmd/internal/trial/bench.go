package trial

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/sim"
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

// Split is a part of the set.
type Split string

// The splits that are played. Training has its own seeds.
const (
	Validation Split = "validation"
	Test       Split = "test"
)

// episodes is the number of seeds of a split.
const episodes = 30

// firsts are the first seeds of the splits.
var firsts = map[Split]uint64{Validation: 30_001, Test: 40_001}

// Seeds returns the seeds of a split; nil if there is no such split.
func (s Split) Seeds() []uint64 {
	first, known := firsts[s]
	if !known {
		return nil
	}
	return eval.Seeds(first, episodes)
}

// task is one scenario of the set.
type task struct {
	About    string
	Train    string // the scenario to learn on, with seeds of training
	Scenario string
	Policies []string // the usual contenders, the baseline first
}

// openB is the scenario of the openb trace, which the user has to have.
const openB = "openb"

// migScenario is the scenario of MIG partitions.
const migScenario = "mig-uniform"

// Tasks lists the set.
var Tasks = []task{
	{"balance", "family-wide", "hetero80", []string{"kube-scheduler", "best-fit", "greedy-balance", "linear", "gnn", "acgnn"}},
	{"a few nodes, with a bound", "family", "tiny", []string{"kube-scheduler", "greedy-balance", "linear", "gnn"}},
	{"packing", "family-pack", "pack", []string{"kube-scheduler", "best-fit", "linear-pack"}},
	{"departures in bursts", "family-wide", "bursty", []string{"kube-scheduler", "greedy-balance", "linear", "gnn", "acgnn"}},
	{"machines with and without GPUs", "family-mixed", "mixed-gpu95", []string{"kube-scheduler", "best-fit", "fgd", "mixed"}},
	{"MIG partitions, 130 % requested", "mig-skew-small", migScenario,
		[]string{"kube-scheduler", "gpu-best-fit", "mig:fgd", "mig:value", "gpu-gnn"}},
	{"GPUs, openb trace, 130 % requested", "openb's other pod lists", openB, []string{"kube-scheduler", "best-fit", "fgd", "gpu-gnn"}},
}

// ScenarioOf returns the scenario of a task. openb is the folder of the trace, which the task openB needs.
func (t task) ScenarioOf(openb string) (eval.Scenario, error) {
	idle, err := objective.Parse("gpu-idle")
	switch t.Scenario {
	case openB:
	default:
		return eval.Find(t.Scenario)
	}
	return eval.Scenario{Name: openB, About: t.About, Config: sim.Config{Objective: idle, OpenB: &sim.OpenB{
		NodesFile: filepath.Join(openb, "openb_node_list_gpu_node.csv"), PodsFile: filepath.Join(openb, "openb_pod_list_default.csv"),
		Factor: 1.3,
	}}}, err
}

// Version identifies the set by the contents of its scenarios, learning's and judging's, and the seeds.
func Version() (string, error) {
	h := sha256.New()
	for _, t := range Tasks {
		for _, name := range []string{t.Train, t.Scenario} {
			hash := ""
			if s, err := eval.Find(name); err == nil {
				if hash, err = s.Hash(); err != nil {
					return "", err
				}
			}
			fmt.Fprintln(h, name, hash)
		}
	}
	for _, s := range []Split{Validation, Test} {
		fmt.Fprintln(h, s, s.Seeds())
	}
	return hex.EncodeToString(h.Sum(nil)[:6]), nil
}

// Results is a file of results.
type Results struct {
	Set     string `json:"set"` // Version
	Split   Split  `json:"split"`
	By      string `json:"by"` // who signs it off
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Command string `json:"command"`
	Date    string `json:"date"`
	Machine string `json:"machine"`
	Rows    []Row  `json:"rows"`
}

// Row is a policy's result in one scenario.
type Row struct {
	Scenario    string    `json:"scenario"`
	Hash        string    `json:"hash"`
	Objective   string    `json:"objective"`
	Seeds       [2]uint64 `json:"seeds"` // first and last
	Policy      string    `json:"policy"`
	Kind        eval.Kind `json:"kind"`
	Cost        float64   `json:"cost"`
	Unscheduled float64   `json:"unscheduled"`
	// Difference is from the first policy of the scenario, with its interval; nil for that policy.
	Difference *eval.Interval `json:"difference,omitempty"`
	Mark       string         `json:"mark,omitempty"`
}

// RowsOf returns the results of a comparison.
func RowsOf(c *eval.Comparison) ([]Row, error) {
	hash, err := c.Scenario.Hash()
	if err != nil {
		return nil, err
	}
	differences := eval.Judge(c.Column(eval.Objective))[0]
	var out []Row
	for i, r := range c.Results {
		row := Row{
			Scenario: c.Scenario.Name, Hash: hash, Objective: c.Scenario.Objective.Name(), Seeds: [2]uint64{c.Seeds[0], c.Seeds[len(c.Seeds)-1]},
			Policy: r.Name, Kind: r.Kind, Cost: r.Mean(eval.Objective), Unscheduled: r.Mean(eval.Unscheduled),
		}
		if d := differences[i]; d != nil {
			row.Difference, row.Mark = &d.Interval, d.Mark.String()
		}
		out = append(out, row)
	}
	return out, nil
}

// Read reads the files of a folder that are of this version of the set, and checks that they are about its scenarios.
func Read(folder string) ([]Results, error) {
	version, err := Version()
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		return nil, err
	}
	slices.Sort(files)
	var out []Results
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		var r Results
		if err := json.Unmarshal(text, &r); err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
		if r.Set != version {
			continue
		}
		if err := r.check(); err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
		out = append(out, r)
	}
	return out, nil
}

func (r Results) check() error {
	seeds := r.Split.Seeds()
	if seeds == nil {
		return fmt.Errorf("there is no split %q", r.Split)
	}
	for _, row := range r.Rows {
		if row.Seeds != [2]uint64{seeds[0], seeds[len(seeds)-1]} {
			return fmt.Errorf("%s was played with the seeds %d to %d, which are not those of %s", row.Scenario, row.Seeds[0], row.Seeds[1], r.Split)
		}
		s, err := eval.Find(row.Scenario)
		if row.Scenario == openB {
			continue // the user's data
		}
		if err != nil {
			return err
		}
		if hash, err := s.Hash(); err != nil || hash != row.Hash {
			return fmt.Errorf("%s was played from another file (%s, not %s): %w", row.Scenario, row.Hash, hash, err)
		}
	}
	return nil
}
