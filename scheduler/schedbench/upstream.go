package main

import (
	"context"
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

	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/plugin"
)

func upstreamCommand() *ucli.Command {
	return &ucli.Command{
		Name:  "upstream",
		Usage: "run Kubernetes' own scheduler benchmark, scheduler_perf",
		Description: "`make bench-upstream` and `make test-upstream` build what it needs and run it.\n" +
			"Each workload runs in a process with its own etcd and API server, once for each profile.",
		Flags: []ucli.Flag{
			&ucli.StringFlag{Name: "bin", Required: true, Usage: "`DIR` with the programs etcd and suite"},
			&ucli.StringFlag{Name: "kubernetes", Required: true, Usage: "`DIR` with the source of Kubernetes in Go's module cache"},
			&ucli.StringSliceFlag{Name: "suites", Value: ucli.NewStringSlice(suites...),
				Usage: "`SUITES` of scheduler_perf; with --integration also " + strings.Join(integrationSuites, ", ") + " by default"},
			&ucli.StringFlag{Name: "only", Usage: "only workloads that match `REGEXP`, for example SchedulingBasic"},
			&ucli.IntFlag{Name: "size", Value: 2000,
				Usage: "at most `SIZE` nodes and SIZE measured pods in a workload, which shrinks in proportion; 0 for upstream's sizes"},
			&ucli.IntFlag{Name: "pairs", Value: 1, Usage: "`PAIRS` of runs for a result"},
			&ucli.StringFlag{Name: "variant", Value: "gnn", Usage: "shipped `NETWORK` that scores"},
			&ucli.BoolFlag{Name: "integration", Usage: "run the workloads with the label integration-test, through our profile alone, " +
				"and measure nothing"},
			&ucli.BoolFlag{Name: "list", Usage: "list the workloads, and run nothing"},
			&ucli.StringFlag{Name: "profile-dir", Usage: "write a CPU profile of each run to `DIR`"},
		},
		Action: cli.FlagsOnly(func(c *ucli.Context) error {
			u, err := parseUpstream(c)
			if err != nil {
				return err
			}
			return u.run(c.Context)
		}),
	}
}

// upstream runs workloads of scheduler_perf.
type upstream struct {
	options
	bin, perf   string // folders of the programs, and of the package scheduler_perf
	modules     string // folder of Go's module cache
	workloads   []workload
	integration bool
	list        bool
}

func parseUpstream(c *ucli.Context) (*upstream, error) {
	u := &upstream{
		options: options{
			variant: c.String("variant"), pairs: c.Int("pairs"), profileDir: c.String("profile-dir"), out: c.App.Writer, progress: c.App.ErrWriter,
		},
		integration: c.Bool("integration"), list: c.Bool("list"),
	}
	switch {
	case !slices.Contains(plugin.Networks(), u.variant):
		return nil, exit.Usagef("--variant %q: want one of %v", u.variant, plugin.Networks())
	case u.pairs < 1 || c.Int("size") < 0:
		return nil, exit.Usagef("--pairs must be 1 or more, --size 0 or more")
	}
	only, err := regexp.Compile(c.String("only"))
	if err != nil {
		return nil, exit.Usagef("--only: %w", err)
	}
	if err := u.find(c.String("bin"), c.String("kubernetes")); err != nil {
		return nil, err
	}
	if u.profileDir, err = makeProfileDir(u.profileDir); err != nil {
		return nil, err
	}
	names := c.StringSlice("suites")
	if u.integration && !c.IsSet("suites") {
		names = append(names, integrationSuites...)
	}
	if u.workloads, err = selected(u.perf, names, u.integration, c.Int("size")); err != nil {
		return nil, exit.New(exit.Usage, err, "name suites of this Kubernetes with --suites")
	}
	u.workloads = slices.DeleteFunc(u.workloads, func(w workload) bool { return !only.MatchString(w.String()) })
	if len(u.workloads) == 0 {
		return nil, exit.Usagef("--only %q: no workload matches; see --list", only)
	}
	return u, nil
}

// find checks the folders of the flags. The runs have another working directory, so that all paths
// become absolute.
func (u *upstream) find(bin, kubernetes string) (err error) {
	if u.bin, err = filepath.Abs(bin); err != nil {
		return err
	}
	if kubernetes, err = filepath.Abs(kubernetes); err != nil {
		return err
	}
	u.perf = filepath.Join(kubernetes, "test", "integration", "scheduler_perf")
	u.modules = filepath.Dir(filepath.Dir(kubernetes)) // without k8s.io/kubernetes@VERSION
	for _, needed := range []string{filepath.Join(u.bin, "etcd"), filepath.Join(u.bin, "suite"), u.perf} {
		if _, err := os.Stat(needed); err != nil {
			return exit.New(exit.Usage, err, "run `make bench-upstream`, which builds the programs and names the folders")
		}
	}
	return nil
}

// makeProfileDir makes the folder for CPU profiles and returns its absolute path; empty for none.
func makeProfileDir(dir string) (string, error) {
	if dir == "" {
		return "", nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", exit.New(exit.Usage, fmt.Errorf("make the directory for profiles: %w", err), "name another with --profile-dir")
	}
	return filepath.Abs(dir)
}

// selected returns the workloads to run: for the integration test the ones that upstream runs, for the benchmark one of each test case with
// the label performance.
func selected(perf string, suites []string, integration bool, size int) ([]workload, error) {
	var out []workload
	for _, suite := range suites {
		all, err := readSuite(perf, suite)
		if err != nil {
			return nil, err
		}
		if integration {
			out = append(out, slices.DeleteFunc(labelled(all, labelIntegration),
				func(w workload) bool { return slices.Contains(w.labels, labelPerformance) })...)
			continue
		}
		out = append(out, representatives(labelled(all, labelPerformance), size)...)
	}
	return out, nil
}

func (u *upstream) run(ctx context.Context) error {
	if u.list {
		for _, w := range u.workloads {
			fmt.Fprintln(u.out, w)
		}
		return nil
	}
	if u.integration {
		return u.check(ctx)
	}
	fmt.Fprintf(u.out, "scheduler_perf with %s against %s; a process, an etcd and an API server for each run\n", u.variant, defaultProfile)
	fmt.Fprintf(u.out, "machine: %d CPUs, load %s\n", runtime.NumCPU(), load())
	var failed []error
	for _, w := range u.workloads {
		var runs int
		r, err := u.compare(ctx, w.String(), func(ctx context.Context, profile string) (run, error) {
			runs++
			return u.measure(ctx, w, profile, runs)
		})
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil: // the others may work
			fmt.Fprintln(u.out, err)
			failed = append(failed, err)
		default:
			fmt.Fprintln(u.out, r.line())
		}
	}
	fmt.Fprintf(u.out, "load at the end %s\n", load())
	return summed(failed, len(u.workloads))
}

// check runs the workloads through our profile. Each must end as upstream wants it to.
func (u *upstream) check(ctx context.Context) error {
	var failed []error
	for i, w := range u.workloads {
		start := time.Now()
		err := u.runOnce(ctx, w, u.variant, nil)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		result := "ok"
		if err != nil {
			result = "FAIL"
			failed = append(failed, err)
		}
		fmt.Fprintf(u.out, "%-4s  %d of %d  %v  %.0f s\n", result, i+1, len(u.workloads), w, time.Since(start).Seconds())
		if err != nil {
			fmt.Fprintln(u.out, err)
		}
	}
	return summed(failed, len(u.workloads))
}

// summed makes one error of the failures, which have been printed.
func summed(failed []error, of int) error {
	if len(failed) == 0 {
		return nil
	}
	return exit.New(exit.Internal, fmt.Errorf("%d of %d workloads failed, the first: %w", len(failed), of, failed[0]),
		"read the output that the error names")
}

var errNoSamples = errors.New("scheduler_perf took no sample of the throughput, which it does once a second; give a larger --size")
