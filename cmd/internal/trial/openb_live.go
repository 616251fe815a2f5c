package trial

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/cmd/internal/progress"
	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/internal/runfolder"
	"gnnsched/scheduler/eval/agreement"
	"gnnsched/scheduler/eval/contender"
	"gnnsched/scheduler/eval/testbed"
	"gnnsched/scheduler/eval/tracerun"
	"gnnsched/workload/driver"
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
	if err := refuse(c, "--%s works in the simulator only; leave it or --live out", "node-order", "ties", "check", "workers"); err != nil {
		return err
	}
	if format == "csv" {
		return exit.Usagef("--live has no CSV; choose table, markdown or json")
	}
	cfg, err := liveOpenBConfig(c)
	if err != nil {
		return err
	}
	whole := false
	return playLive(c, &cfg, func() (*tracerun.Report, error) {
		r, err := tracerun.Run(c.Context, cfg)
		whole = err == nil
		return r, err
	}, func(r *tracerun.Report) error {
		switch {
		case !whole: // its tables need every policy on every seed
			return nil
		case format == "json":
			return cli.JSON(c.App.Writer, r)
		}
		return r.Write(c.App.Writer, format == "markdown")
	})
}

// playLive sets the log and the progress of a run on a cluster, runs and prints it, and leaves it in the folder of --out.
func playLive[R interface{ Folder() []runfolder.Row }](
	c *ucli.Context, cfg *tracerun.Config, run func() (R, error), print func(R) error,
) error {
	log, closer, err := cli.Log(c, "eval-openb", true) // messages of schedulers go to the file only
	if err != nil {
		return err
	}
	cfg.Log = log
	view := progress.Stderr(c.App.ErrWriter)
	phase := ""
	cfg.Progress = func(done float64, text string) {
		if done == 0 {
			phase = text
		}
		view.Show(done, phase, text)
	}
	finish := sync.OnceFunc(func() {
		view.Close()
		_ = closer.Close() // of a log file
	})
	defer finish()
	return cli.InFolder(c, cli.Computation[R]{
		Manifest: cli.RunManifest(c, "eval", cfg.Seeds),
		Run: func(*runfolder.Writer) (R, error) {
			defer finish()
			return run()
		},
		Print: print,
		Rows:  R.Folder,
	})
}

// liveSteadyPolicies are the default policies of --steady --live.
var liveSteadyPolicies = []string{"fgd", "running:gpu-gnn", contender.Kubernetes}

// The defaults of --steady --live, with which a profile takes five minutes.
const (
	liveWarmUp = "0.25" // days
	liveDays   = "0.5"
	liveLoad   = "0.95"
)

// runSteadyLive lets the pods of one list come and go on a simulated cluster. After Ctrl-C it prints what was measured.
func runSteadyLive(c *ucli.Context, format string) error {
	if err := refuse(c, "--%s does not work with --steady --live; leave it out",
		"node-order", "ties", "check", "curve", "power", "mixed", "totals", "workers"); err != nil {
		return err
	}
	if speed := c.Float64("speed"); !(speed >= 1 && speed <= 100_000) {
		return exit.Usagef("--speed %v is outside 1 to 100000", speed)
	}
	err := setDefaults(c, map[string]string{
		"warm-up": liveWarmUp, "days": liveDays, "factor": liveLoad, "policies": strings.Join(liveSteadyPolicies, ","),
	})
	if err != nil {
		return err
	}
	base, err := liveOpenBConfig(c)
	if err != nil {
		return err
	}
	const day = 86400
	cfg := tracerun.SteadyConfig{
		Config: base, WarmUp: day * c.Float64("warm-up"), Duration: day * c.Float64("days"), Speed: c.Float64("speed"),
	}
	return playLive(c, &cfg.Config, func() (*tracerun.SteadyReport, error) {
		report, err := tracerun.RunSteady(c.Context, cfg)
		if errors.Is(err, openb.ErrNoLifetime) {
			err = exit.New(exit.Usage, err, "choose another pod list with --workload")
		}
		return report, err
	}, func(r *tracerun.SteadyReport) error {
		r.All = c.Bool("all")
		return writeReport(c.App.Writer, r, format)
	})
}

// liveOpenBConfig reads the flags.
func liveOpenBConfig(c *ucli.Context) (tracerun.Config, error) {
	var out tracerun.Config
	err := setDefaults(c, map[string]string{"seeds": "1", "workload": "default", "policies": strings.Join(liveOpenBPolicies(), ",")})
	if err != nil {
		return out, err
	}
	base, err := openBConfig(c)
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
	if out.GPUs, err = driver.GPURequestsOf(c.Bool); err != nil {
		return out, err
	}
	for _, file := range []*string{&out.NodesFile, &out.PodsFile} { // absolute, because other programs read them too
		if *file, err = filepath.Abs(*file); err != nil {
			return out, fmt.Errorf("find the trace: %w", err)
		}
	}
	if out.Contenders, err = contender.WithProfiles(base.Contenders, c.StringSlice("checkpoint")); err != nil {
		return out, err
	}
	if !c.Bool("steady") && slices.ContainsFunc(out.Contenders, func(x agreement.Contender) bool { return x.Running }) {
		return out, exit.Usagef("--policies: running:POLICY works with --steady only; otherwise no pod leaves")
	}
	program, err := testbed.FindProgram(c.String("kwokcluster"))
	out.Launcher = program
	return out, err
}
