package main

import (
	"fmt"
	"strings"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/cluster"
	"gnnsched/internal/exit"
	"gnnsched/workload"
	"gnnsched/workload/driver"
	"gnnsched/workload/trace"
	"gnnsched/workload/trace/openb"
)

// formatNames lists the trace formats for the help text.
func formatNames() string {
	var names []string
	for _, f := range trace.Formats() {
		names = append(names, f.Name()+", "+f.About())
	}
	return strings.Join(names, "; ")
}

// traceFlags mean nothing without --trace.
var traceFlags = []string{"format", "speed", "limit", "inflate"}

// traceSource is the trace that --trace names, and how it is to be deployed.
type traceSource struct {
	trace  trace.File
	speed  float64
	limit  int     // pods; 0 for all
	factor float64 // of --inflate; 0 for the trace's own times
	seed   uint64
}

// readTrace reads and checks everything that the flags say about a trace.
func readTrace(c *ucli.Context, csv string) (*traceSource, error) {
	t := &traceSource{speed: c.Float64("speed"), limit: c.Int("limit"), factor: c.Float64("inflate"), seed: c.Uint64("seed")}
	for _, f := range append([]string{"replay"}, generatorFlags...) {
		if c.IsSet(f) && (f != "seed" || !t.inflates()) {
			return nil, exit.New(exit.Usage, fmt.Errorf("--%s has no effect with --trace, which deploys what the file says", f), "leave one of the two out")
		}
	}
	file := c.String("trace")
	switch {
	case sameFile(file, csv):
		return nil, exit.New(exit.Usage, fmt.Errorf("%s, to which the deployed workload is to be written, is the trace", csv), "choose another file with --csv")
	case !(t.speed > 0 && t.speed <= 1e9):
		return nil, exit.Usagef("--speed %v is not over 0 and at most 1e9; 3600 deploys an hour of the trace in a second", t.speed)
	case t.limit < 0:
		return nil, exit.Usagef("--limit %d is negative; 0 stands for all pods", t.limit)
	case c.IsSet("inflate") && c.IsSet("speed"):
		return nil, exit.Usagef("--speed is about the trace's times, which --inflate does not keep; leave one of the two out")
	case c.IsSet("inflate") && !(t.factor > 0 && t.factor <= 100):
		return nil, exit.Usagef("--inflate %v is not over 0 and at most 100; 1.3 asks for 130%% of the cluster's GPUs", t.factor)
	}
	format, err := trace.Named(c.String("format"))
	if err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("--format: %w", err), "")
	}
	in, err := open(file)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	if t.trace, err = format.Read(in, file); err != nil {
		return nil, exit.New(exit.Usage, err, "docs/workload.md describes the file")
	}
	if t.inflates() && t.trace.Pods == nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("%s is not an openb pod list, which --inflate draws from", file), "leave --inflate out, or name such a list")
	}
	return t, nil
}

func (t *traceSource) inflates() bool { return t.factor > 0 }

// seedUsed is the seed where one decides.
func (t *traceSource) seedUsed() *uint64 {
	if !t.inflates() {
		return nil
	}
	return &t.seed
}

// inTime is the trace by its own times.
func (t *traceSource) inTime() workload.Trace { return t.first(t.trace.Arrivals) }

// plan is what is to be deployed on a cluster with this much room.
func (t *traceSource) plan(room driver.Room) (workload.Plan, error) {
	if !t.inflates() {
		return t.inTime().Plan(), nil
	}
	pods, err := openb.Inflate(t.trace.Pods, t.factor, room.Allocatable.GPU*cluster.DeviceMilli, t.seed)
	if err != nil {
		return workload.Plan{}, exit.New(exit.Usage, err, "`kwokcluster up --nodes-file openb_node_list_gpu_node.csv` makes a cluster with the trace's GPUs")
	}
	return t.first(openb.InOrder(pods)).Plan(), nil
}

// first is the part of the trace that --limit leaves.
func (t *traceSource) first(all workload.Trace) workload.Trace {
	pods := 0
	for i, a := range all {
		if pods += a.Deployment.Replicas; t.limit > 0 && pods > t.limit {
			return all[:i]
		}
	}
	return all
}

// pace has the driver keep the times of a trace. Its pods come without Deployments, in order.
func (s planSource) pace(c *ucli.Context, config *driver.Config) {
	if s.trace == nil {
		return
	}
	config.Bare = true
	if !c.IsSet("interval") {
		config.Interval = 0
	}
	if !s.trace.inflates() {
		config.Speed = s.trace.speed
	}
}
