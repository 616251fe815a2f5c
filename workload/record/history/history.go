// Package history makes a record of the past of a cluster, from the series of kube-state-metrics and the kubelets that a
// Prometheus server has kept.
//
// Series are read in chunks of time, so that the memory and each query are bounded. Pods are known to the second, as
// kube-state-metrics gives their times; nodes are looked at between chunks. The record says what it lacks.
package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"gnnsched/internal/promapi"
	"gnnsched/workload/record"
)

// unknown is what no series of kube-state-metrics tells.
const unknown = "affinity, topology spread, node selectors, host ports, volume claims, preemption policies, disruption budgets, priorities but those of system classes"

// Asker answers queries. A *promapi.Client is one.
type Asker interface {
	Query(ctx context.Context, query string, at time.Time) (model.Vector, error)
	Range(ctx context.Context, query string, from, to time.Time, step time.Duration) (model.Matrix, error)
}

// Sink takes the rows. A *record.Writer is one.
type Sink interface {
	Pod(record.Pod)
	Node(record.Node)
	Sample(record.Sample)
	Run(record.Run)
	Flush() (record.Flushed, error)
}

// Config says what to read.
type Config struct {
	Ask      Asker
	Out      Sink
	From, To time.Time
	Chunk    time.Duration // of time that one query covers
	Usage    time.Duration // between two measurements; 0 for none
	Program  string        // version of the program, for the record
	Progress func(done float64, pods int)
	// Patience limits the time of one try of a query; 0 for five minutes.
	Patience time.Duration
	// Pause waits before a query is asked again.
	Pause func(context.Context, time.Duration) error
}

// Result is what was read.
type Result struct {
	Nodes, Pods int
	Missing     string // what the record lacks
}

// reader is the state of a history that is read.
type reader struct {
	Config
	pods   map[string]*pod         // that had not gone at the end of the last chunk, by UID
	nodes  map[string]*record.Node // that were there then
	seen   map[string]bool         // series and kinds of labels that were there
	out    Result
	run    *record.Run // that goes on; nil in a gap
	runs   int
	window string // the chunk's length, as PromQL has it
}

// Read reads the history and flushes it to the sink.
func Read(ctx context.Context, c Config) (Result, error) {
	r := &reader{Config: c, pods: map[string]*pod{}, nodes: map[string]*record.Node{}, seen: map[string]bool{}}
	if err := r.readNodes(ctx, c.From); err != nil {
		return r.out, err
	}
	for from := c.From; from.Before(c.To); {
		to := from.Add(c.Chunk)
		if to.After(c.To) {
			to = c.To
		}
		if err := r.chunk(ctx, from, to); err != nil {
			return r.out, fmt.Errorf("%s to %s: %w", text(from), text(to), err)
		}
		c.Progress(float64(to.Sub(c.From))/float64(c.To.Sub(c.From)), r.out.Pods)
		from = to
	}
	r.out.Missing = r.missing()
	if r.run != nil {
		r.run.Missing = r.out.Missing
		r.Out.Run(*r.run)
	}
	_, err := r.Out.Flush()
	return r.out, errors.Join(err, r.needed())
}

func text(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// chunk reads one chunk of time. Times in which nobody asked kube-state-metrics become gaps between two runs.
func (r *reader) chunk(ctx context.Context, from, to time.Time) error {
	r.window = fmt.Sprintf("%dms", to.Sub(from).Milliseconds())
	found, err := r.readPods(ctx, from, to)
	if err != nil {
		return err
	}
	if err := r.readNodes(ctx, to); err != nil {
		return err
	}
	if r.Usage > 0 {
		if err := r.readUsage(ctx, from, to); err != nil {
			return err
		}
	}
	switch {
	case !found && r.run != nil:
		r.run.Missing = r.missing()
		r.Out.Run(*r.run)
		r.run = nil
	case found && r.run == nil:
		r.runs++
		r.run = &record.Run{ID: fmt.Sprint(r.runs), Source: "prometheus", From: from.UnixMilli(), Program: r.Program}
		fallthrough
	case found:
		r.run.To = to.UnixMilli()
	}
	_, err = r.Out.Flush()
	return err
}

// needed returns an error if a series is missing without which there is no record.
func (r *reader) needed() error {
	for _, series := range []string{podInfo, requests, allocatable} {
		if !r.seen[series] {
			return fmt.Errorf("Prometheus has no series %s from %s to %s", series, text(r.From), text(r.To))
		}
	}
	return nil
}

// missing lists what the record lacks.
func (r *reader) missing() string {
	out := []string{unknown, fmt.Sprintf("nodes' changes between times that are %v apart", r.Chunk)}
	for _, m := range []struct{ series, text string }{
		{podLabels, "labels of pods (kube-state-metrics needs --metric-labels-allowlist=pods=[*])"},
		{nodeLabels, "labels of nodes (kube-state-metrics needs --metric-labels-allowlist=nodes=[*])"},
		{tolerations, "tolerations (the series kube_pod_tolerations)"},
		{created, "arrivals (the series kube_pod_created)"},
		{scheduled, "bindings (the series kube_pod_status_scheduled_time)"},
		{cpuUsage, "usage"},
	} {
		if !r.seen[m.series] {
			out = append(out, m.text)
		}
	}
	return strings.Join(out, ", ")
}

// tries is how often a query is asked that fails.
const tries = 4

// patience is longer than the two minutes after which Prometheus itself gives a query up.
const patience = 5 * time.Minute

// again asks until there is an answer, Prometheus refuses the query, or it has failed often.
func (r *reader) again(ctx context.Context, series string, ask func(context.Context) error) error {
	for n := 1; ; n++ {
		try, cancel := context.WithTimeout(ctx, cmp.Or(r.Patience, patience))
		err := ask(try)
		cancel()
		if refused := (promapi.Refused{}); err == nil || n == tries || ctx.Err() != nil || errors.As(err, &refused) {
			if err != nil {
				err = fmt.Errorf("%s: %w", series, err)
			}
			return err
		}
		if err := r.Pause(ctx, time.Second<<(n-1)); err != nil {
			return err
		}
	}
}

// query asks for a vector. It notes that the series is there.
func (r *reader) query(ctx context.Context, series, query string, at time.Time) (out model.Vector, err error) {
	err = r.again(ctx, series, func(ctx context.Context) error {
		out, err = r.Ask.Query(ctx, query, at)
		return err
	})
	if len(out) > 0 {
		r.seen[series] = true
	}
	return out, err
}

// last asks for the last values of a series within the chunk, one for each of the labels.
func (r *reader) last(ctx context.Context, series, by string, at time.Time) (model.Vector, error) {
	return r.query(ctx, series, fmt.Sprintf("max by (%s) (last_over_time(%s[%s]))", by, series, r.window), at)
}
