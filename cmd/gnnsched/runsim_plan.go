package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/cluster"
	"gnnsched/internal/exit"
	"gnnsched/workload"
	"gnnsched/workload/driver"
	"gnnsched/workload/trace"
)

// planSource is where the plan of a run comes from: drawn at random, or read from a file.
type planSource struct {
	generator workload.Generator
	replay    *trace.PlanFile // not nil for --replay
	trace     *traceSource    // not nil for --trace
}

// generatorFlags decide random arrivals and mean nothing for a replay.
var generatorFlags = []string{"cpu-load", "mem-load", "pod-load", "cluster-resets", "shapes", "seed", "replicas-min", "replicas-max"}

// readSource reads and checks everything that the flags say about the plan, before any cluster
// is touched. csv is the file that will be written.
func readSource(c *ucli.Context, csv string) (planSource, error) {
	if c.NArg() > 0 {
		return planSource{}, exit.New(exit.Usage, fmt.Errorf("unexpected argument %q", c.Args().First()), "runsim takes flags only; see `runsim --help`")
	}
	for _, f := range traceFlags {
		if c.IsSet(f) && !c.IsSet("trace") {
			return planSource{}, exit.New(exit.Usage, fmt.Errorf("--%s is about a trace", f), "name one with --trace, or leave it out")
		}
	}
	switch {
	case c.IsSet("trace"):
		t, err := readTrace(c, csv)
		return planSource{trace: t}, err
	case c.IsSet("replay"):
		return readReplay(c, csv)
	}
	g := workload.Generator{
		Seed: c.Uint64("seed"), Shapes: workload.DefaultShapes(), ReplicasMin: c.Int("replicas-min"), ReplicasMax: c.Int("replicas-max"),
		Fills: c.Int("cluster-resets"), Target: workload.Load{CPU: c.Float64("cpu-load"), Memory: c.Float64("mem-load"), Pods: c.Float64("pod-load")},
	}
	if file := c.String("shapes"); file != "" {
		data, err := os.ReadFile(file)
		if err != nil {
			return planSource{}, exit.New(exit.Usage, fmt.Errorf("read the shapes: %w", err), "")
		}
		if g.Shapes, err = workload.ReadShapes(file, data); err != nil {
			return planSource{}, exit.New(exit.Usage, err, "docs/workload.md describes the file")
		}
	}
	if err := g.Validate(); err != nil {
		return planSource{}, exit.New(exit.Usage, err, "see `runsim --help`")
	}
	return planSource{generator: g}, nil
}

func readReplay(c *ucli.Context, csv string) (planSource, error) {
	file := c.String("replay")
	for _, f := range generatorFlags {
		if c.IsSet(f) {
			return planSource{}, exit.New(exit.Usage, fmt.Errorf("--%s has no effect with --replay, which deploys what the file says", f), "leave one of the two out")
		}
	}
	if sameFile(file, csv) {
		return planSource{}, exit.New(exit.Usage, fmt.Errorf("%s, to which the deployed workload is written, is the file that is replayed", csv), "choose another file with --csv")
	}
	in, err := open(file)
	if err != nil {
		return planSource{}, err
	}
	defer in.Close()
	r, err := trace.ReadPlan(in, file)
	if err != nil {
		return planSource{}, exit.New(exit.Usage, err, "docs/workload.md describes the file")
	}
	return planSource{replay: &r}, nil
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

// sameFile tells whether both paths lead to one file that exists.
func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// tolerations decide which nodes count as schedulable.
func (s planSource) tolerations() []cluster.Toleration {
	switch {
	case s.replay != nil:
		return s.replay.Tolerations()
	case s.trace != nil:
		return workload.Tolerations(nil) // a trace has none of its own
	}
	return workload.Tolerations(s.generator.Shapes)
}

// plan is the plan for a cluster with this much room.
func (s planSource) plan(room driver.Room) (workload.Plan, error) {
	switch {
	case s.replay != nil:
		return s.replay.Plan, nil
	case s.trace != nil:
		return s.trace.plan(room)
	}
	g := s.generator
	g.Capacity, g.Used = room.Allocatable, room.Used
	p, err := g.Plan()
	switch {
	case errors.Is(err, workload.ErrNoCapacity):
		return p, exit.New(exit.Usage, fmt.Errorf("%w (%d nodes are excluded by taints or cordons)", err, room.Excluded), "are the nodes Ready? `kubectl get nodes` tells; a shape with tolerations opens tainted ones")
	case errors.Is(err, workload.ErrLoaded):
		return p, exit.New(exit.Usage, err, "remove earlier runs with `cleancluster`, or ask for more with --cpu-load, --mem-load and --pod-load")
	}
	return p, err
}

// seed is that of a random plan.
func (s planSource) seed() *uint64 {
	switch {
	case s.replay != nil:
		return nil
	case s.trace != nil:
		return s.trace.seedUsed()
	}
	return &s.generator.Seed
}

// notes are what a person should know before the plan is applied.
func (s planSource) notes(p workload.Plan) []string {
	if s.replay != nil {
		return s.replay.Notes
	}
	if s.trace != nil {
		return nil
	}
	if lost := trace.Lost(trace.Plan, p); len(lost) > 0 {
		return []string{"the CSV does not hold labels, node selectors and tolerations, which these shapes have: " + strings.Join(lost, ", ") + "; repeat the run by its seed instead"}
	}
	return nil
}
