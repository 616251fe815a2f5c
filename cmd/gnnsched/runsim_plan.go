package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/exit"
	"gnnsched/internal/files"
	"gnnsched/workload"
	"gnnsched/workload/driver"
	"gnnsched/workload/record"
	"gnnsched/workload/record/play"
	"gnnsched/workload/trace"
)

// Flags of one way to make a plan; with another they are refused.
var (
	generatorFlags = []string{"cpu-load", "mem-load", "pod-load", "cluster-resets", "shapes", "seed", "replicas-min", "replicas-max"}
	timedFlags     = []string{"speed", "limit"} // of --trace and of --replay RECORD
)

// playsRecord reports whether --replay names the record of a cluster.
func playsRecord(c *ucli.Context) bool { return record.Is(c.String("replay")) }

// planSource reads and checks all flags about the plan, before any cluster is touched. csv is
// the file that the deployed workload will be written to.
func planSource(c *ucli.Context, csv string) (s driver.Source, err error) {
	if c.NArg() > 0 {
		return s, exit.New(exit.Usage, fmt.Errorf("unexpected argument %q", c.Args().First()), "runsim takes flags only; see `runsim --help`")
	}
	played := playsRecord(c)
	for _, f := range timedFlags {
		if c.IsSet(f) && !c.IsSet("trace") && !played {
			return s, exit.New(exit.Usage, fmt.Errorf("--%s works with --trace only", f), "name a trace, or leave it out")
		}
	}
	switch {
	case played && !c.IsSet("trace"):
		return replayedSource(c)
	case c.IsSet("trace"):
		return traceSource(c, csv)
	case c.IsSet("replay"):
		return recordedSource(c, csv)
	}
	return generatedSource(c)
}

func generatedSource(c *ucli.Context) (s driver.Source, err error) {
	g := workload.Generator{
		Seed: c.Uint64("seed"), Shapes: workload.DefaultShapes(), ReplicasMin: c.Int("replicas-min"), ReplicasMax: c.Int("replicas-max"),
		Fills:  c.Int("cluster-resets"),
		Target: workload.Load{CPU: loadOf(c, "cpu-load"), Memory: loadOf(c, "mem-load"), Pods: loadOf(c, "pod-load")},
	}
	if file := c.String("shapes"); file != "" {
		data, err := files.Read(file, files.Data)
		if err != nil {
			return s, exit.New(exit.Usage, fmt.Errorf("read the shapes: %w", err), "")
		}
		if g.Shapes, err = workload.ReadShapes(file, data); err != nil {
			return s, exit.New(exit.Usage, err, "docs/reference/scenario-file.md describes the file")
		}
	}
	if err := g.Validate(); err != nil {
		return s, exit.New(exit.Usage, err, "see `runsim --help`")
	}
	return driver.Generated(g), nil
}

// loadOf returns the load of a flag. One that is not given ends no fill if another one is given.
func loadOf(c *ucli.Context, flag string) float64 {
	given := func(f string) bool { return c.IsSet(f) }
	if !given(flag) && slices.ContainsFunc(generatorFlags[:3], given) {
		return workload.MaxTarget
	}
	return c.Float64(flag)
}

// replayedSource plays the record that --replay names.
func replayedSource(c *ucli.Context) (s driver.Source, err error) {
	if err := errors.Join(withoutGenerator(c), checkPace(c)); err != nil {
		return s, err
	}
	r, err := play.LoadReplay(c.String("replay"))
	if err != nil {
		return s, exit.New(exit.Usage, err, "docs/how-to/record.md says how to make a record")
	}
	return driver.Replayed(r, c.Float64("speed"), c.Int("limit")), nil
}

// withoutGenerator refuses the flags of random arrivals beside --replay.
func withoutGenerator(c *ucli.Context) error {
	for _, f := range generatorFlags {
		if c.IsSet(f) {
			return exit.New(exit.Usage, fmt.Errorf("--%s has no effect with --replay, which deploys the file as it is", f),
				"leave one of the two out")
		}
	}
	return nil
}

// checkPace checks the flags that pods with times have.
func checkPace(c *ucli.Context) error {
	if speed := c.Float64("speed"); !(speed > 0 && speed <= 1e9) {
		return exit.Usagef("--speed %v: choose a number over 0 and up to 1e9; 3600 deploys an hour of the trace in a second", speed)
	}
	if c.Int("limit") < 0 {
		return exit.Usagef("--limit %d is negative; 0 stands for all pods", c.Int("limit"))
	}
	return nil
}

func recordedSource(c *ucli.Context, csv string) (s driver.Source, err error) {
	file := c.String("replay")
	if err := withoutGenerator(c); err != nil {
		return s, err
	}
	if sameFile(file, csv) {
		return s, exit.New(exit.Usage, fmt.Errorf("--replay and --csv name the same file, %s", csv), "choose another file with --csv")
	}
	in, err := open(file)
	if err != nil {
		return s, err
	}
	defer in.Close()
	plan, err := trace.ReadPlan(in, file)
	if err != nil {
		return s, exit.New(exit.Usage, err, "docs/reference/scenario-file.md describes the file")
	}
	return driver.Recorded(plan), nil
}

func traceSource(c *ucli.Context, csv string) (s driver.Source, err error) {
	file := c.String("trace")
	if err := checkTraceFlags(c, csv); err != nil {
		return s, err
	}
	in, err := open(file)
	if err != nil {
		return s, err
	}
	defer in.Close()
	t, err := trace.Auto.Read(in, file)
	if err != nil {
		return s, exit.New(exit.Usage, err, "docs/reference/scenario-file.md describes the file")
	}
	return driver.Traced(t.Arrivals, c.Float64("speed"), c.Int("limit"), t.Notes), nil
}

// checkTraceFlags checks the values of the flags that go with --trace, and refuses the others.
func checkTraceFlags(c *ucli.Context, csv string) error {
	for _, f := range append([]string{"replay"}, generatorFlags...) {
		if c.IsSet(f) {
			return exit.New(exit.Usage, fmt.Errorf("--%s has no effect with --trace, which deploys the file as it is", f),
				"leave one of the two out")
		}
	}
	if err := checkPace(c); err != nil {
		return err
	}
	switch {
	case record.Is(c.String("trace")):
		return exit.New(exit.Usage, fmt.Errorf("%s is a record, not a trace", c.String("trace")),
			"runsim --replay plays a record, with the constraints of its pods")
	case sameFile(c.String("trace"), csv):
		return exit.New(exit.Usage, fmt.Errorf("--trace and --csv name the same file, %s", csv), "choose another file with --csv")
	}
	return nil
}

// open opens a file that a flag names; - is stdin.
func open(file string) (io.ReadCloser, error) {
	if file == "-" {
		return io.NopCloser(os.Stdin), nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("read the workload: %w", err), "")
	}
	return f, nil
}

// sameFile tells whether both paths lead to the same existing file.
func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}
