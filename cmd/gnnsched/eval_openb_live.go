package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/eval/contender"
	"gnnsched/scheduler/eval/testbed"
	"gnnsched/scheduler/eval/tracerun"
	"gnnsched/workload/trace/openb"
)

// liveOpenBPolicies are the default policies on a cluster: a shipped network for GPU devices and
// kube-scheduler's default profile. If no such network is shipped, FGD takes its place.
func liveOpenBPolicies() []string {
	shipped := checkpoint.ShippedFor(checkpoint.GPUGraph)
	switch {
	case slices.Contains(shipped, "gpu-gnn"):
		return []string{"gpu-gnn", contender.Kubernetes}
	case len(shipped) > 0:
		return []string{shipped[0], contender.Kubernetes}
	}
	return []string{"fgd", contender.Kubernetes}
}

// runOpenBLive deploys one pod list on a simulated cluster.
func runOpenBLive(c *ucli.Context, format string) error {
	for _, flag := range []string{"node-order", "ties", "check"} {
		if c.IsSet(flag) {
			return exit.Usagef("--%s works in the simulator only; leave it or --live out", flag)
		}
	}
	if format == "csv" {
		return exit.Usagef("--live has no CSV; choose table, markdown or json")
	}
	cfg, err := liveOpenBConfig(c, format)
	if err != nil {
		return err
	}
	log, closer, err := cli.Log(c, "eval-openb", true) // messages of schedulers go to the file only
	if err != nil {
		return err
	}
	defer closer.Close()
	cfg.Log = log
	view := evalProgress(c)
	defer view.Close()
	phase := ""
	cfg.Progress = func(done float64, text string) {
		if done == 0 {
			phase = text
		}
		view.Show(done, phase, text)
	}
	report, err := tracerun.Run(c.Context, cfg)
	if err != nil {
		return err
	}
	view.Close()
	if format == "json" {
		return writeJSON(c.App.Writer, report)
	}
	return report.Write(c.App.Writer, format == "markdown")
}

// liveOpenBConfig reads the flags.
func liveOpenBConfig(c *ucli.Context, format string) (tracerun.Config, error) {
	var out tracerun.Config
	for flag, value := range map[string]string{"seeds": "1", "workload": "default"} {
		if !c.IsSet(flag) {
			if err := c.Set(flag, value); err != nil {
				return out, err
			}
		}
	}
	if len(c.StringSlice("policies")) == 0 {
		if err := c.Set("policies", strings.Join(liveOpenBPolicies(), ",")); err != nil {
			return out, err
		}
	}
	base, err := openBConfig(c, format)
	if err != nil {
		return out, err
	}
	if len(base.Workloads) != 1 {
		return out, exit.Usagef("--live takes one pod list, not %d; name one with --workload", len(base.Workloads))
	}
	if n := c.Int("nodes"); n < 1 || n > 5000 {
		return out, exit.Usagef("--nodes %d is outside 1 to 5000", n)
	}
	out = tracerun.Config{
		NodesFile: filepath.Join(base.Dir, openb.NodesFile), PodsFile: openb.PodsFile(base.Dir, base.Workloads[0]),
		Nodes: c.Int("nodes"), Factor: base.Factor, Seeds: base.Seeds, LogDir: c.String("log-dir"),
	}
	for _, file := range []*string{&out.NodesFile, &out.PodsFile} { // absolute, because other programs read them too
		if *file, err = filepath.Abs(*file); err != nil {
			return out, fmt.Errorf("find the trace: %w", err)
		}
	}
	if out.Contenders, err = contender.WithProfiles(base.Contenders, c.StringSlice("checkpoint")); err != nil {
		return out, err
	}
	program, err := kwokcluster(c.String("kwokcluster"))
	out.Launcher = testbed.Program(program)
	return out, err
}
