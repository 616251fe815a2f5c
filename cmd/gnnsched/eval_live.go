package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/agreement"
	"gnnsched/scheduler/eval/testbed"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/linear"
	"gnnsched/scheduler/server"
)

// What --live repeats unless told otherwise; it takes a hundred times as long as simulating.
var (
	liveScenarios = []string{"aaml"}
	livePolicies  = []string{kubernetes, "best-fit", "gnn"}
)

const (
	liveSeeds  = 2
	kubernetes = "kube-scheduler" // live, it is upstream's own default profile
)

// runLive repeats the scenarios on clusters of its own.
func runLive(c *ucli.Context) error {
	for _, flag := range []string{"plot", "threshold", "all"} {
		if c.IsSet(flag) {
			return exit.Usagef("--%s is for the simulator; leave it or --live out", flag)
		}
	}
	if c.String("output") == "csv" {
		return exit.Usagef("--live has no CSV; choose table, markdown or json")
	}
	e, err := liveEvaluation(c)
	if err != nil {
		return err
	}
	contenders, err := profiles(e.contenders, c.StringSlice("checkpoint"))
	if err != nil {
		return err
	}
	program, err := kwokcluster(c.String("kwokcluster"))
	if err != nil {
		return err
	}
	log, closer, err := cli.Log(c, "eval-live", true) // what schedulers say is for the file
	if err != nil {
		return err
	}
	defer closer.Close()
	log.Info().Strs("scenarios", c.StringSlice("scenario")).Msg("repeating on clusters")
	view := evalProgress(c)
	defer view.close()
	var reports []*agreement.Report
	for i, s := range e.scenarios {
		r, err := agreement.Run(c.Context, agreement.Config{
			Scenario: s, Seeds: e.seeds, Contenders: contenders, Launcher: testbed.Program(program), LogDir: c.String("log-dir"),
			Progress: func(done float64, text string) {
				view.show((float64(i)+done)/float64(len(e.scenarios)), s.Name, text)
			},
		})
		if err != nil {
			return err
		}
		reports = append(reports, r)
	}
	view.close()
	if e.format == "json" {
		out := json.NewEncoder(c.App.Writer)
		out.SetIndent("", "  ")
		return out.Encode(reports)
	}
	for _, r := range reports {
		if err := r.Write(c.App.Writer, e.format == "markdown"); err != nil {
			return err
		}
	}
	return nil
}

// liveEvaluation reads the flags that simulating has too, with other defaults.
func liveEvaluation(c *ucli.Context) (evaluation, error) {
	for flag, values := range map[string][]string{"scenario": liveScenarios, "policies": livePolicies, "seeds": {fmt.Sprint(liveSeeds)}} {
		if !c.IsSet(flag) {
			if err := c.Set(flag, strings.Join(values, ",")); err != nil {
				return evaluation{}, err
			}
		}
	}
	return evaluationOf(c)
}

// profiles gives every contender the scheduler profile that is to do the same.
func profiles(contenders []eval.Contender, files []string) ([]agreement.Contender, error) {
	var out []agreement.Contender
	for _, x := range contenders {
		p := server.Profile{SchedulerName: x.Name}
		_, notHeuristic := heuristic.Find(x.Name)
		switch {
		case x.Name == kubernetes:
			p.Variant = server.DefaultProfile
		case notHeuristic == nil:
			p.Policy = x.Name
		case slices.Contains(checkpoint.ShippedNames(), x.Name):
			p.Variant = x.Name
		}
		out = append(out, agreement.Contender{Contender: x, Profile: p})
	}
	for _, f := range files {
		name, path := checkpointArgument(f)
		file, err := filepath.Abs(path)
		if err != nil {
			return nil, fmt.Errorf("find %s: %w", path, err)
		}
		p := server.Profile{SchedulerName: name, Checkpoint: file, Variant: server.Variants[0]} // any: the file says what it is
		if filepath.Ext(path) == ".json" {
			p = server.Profile{SchedulerName: name, Policy: heuristic.FromWeights(file)}
			if _, err := linear.Load(file); err != nil {
				return nil, exit.Usagef("--checkpoint %s: --live is for networks, heuristics and linear weights, which have a scheduler profile; a table has none", f)
			}
		}
		out[slices.IndexFunc(out, func(x agreement.Contender) bool { return x.Name == name })].Profile = p
	}
	return out, nil
}
