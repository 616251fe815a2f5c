package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"time"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/exit"
	"gnnsched/internal/logging"
	"gnnsched/scheduler/decision/record"
	"gnnsched/scheduler/eval/testbed"
	"gnnsched/scheduler/eval/testbed/inprocess"
	"gnnsched/scheduler/plugin"
	"gnnsched/scheduler/server"
)

// recordings are the ways to record, with the file that each writes. The first one is not to record.
var recordings = []struct{ name, file string }{{"off", ""}, {"ring", ""}, {"ring and JSON lines", "d.jsonl"}, {"ring and Parquet", "d.parquet"}}

func recordingCommand() *ucli.Command {
	return &ucli.Command{
		Name:  "recording",
		Usage: "compare the pods a second and the CPU time a pod without and with recorded decisions",
		Description: "One learned profile binds a backlog on a simulated cluster in this process, again and again, with the ways to record in turns: not at\n" +
			"all, in memory, in memory and a file of JSON lines, in memory and a Parquet file. The figures are ratios to the run without\n" +
			"recording of the same round. CPU time is that of the whole process, API server included.\n\n" +
			"Examples:\n" +
			"   go run ./scheduler/schedbench recording                  # about ten minutes\n" +
			"   go run ./scheduler/schedbench recording --rounds 4       # a first impression\n" +
			"   go run ./scheduler/schedbench recording --gate 0.97      # exit code 99 if a way to record takes more than 3 % of the throughput",
		Flags: []ucli.Flag{
			&ucli.IntFlag{Name: "nodes", Value: 100, Usage: "number of `NODES` of the cluster"},
			&ucli.IntFlag{Name: "pods", Value: 300, Usage: "number of `PODS` of a run"},
			&ucli.IntFlag{Name: "rounds", Value: 20, Usage: "number of `ROUNDS`, each with a run of every way"},
			&ucli.StringFlag{Name: "variant", Value: "gnn", Usage: "`PROFILE` that decides: gnn, dqn, acgnn or acdqn"},
			&ucli.Float64Flag{Name: "gate", Usage: "end with exit code 99 if a way's throughput by CPU time is under `RATIO`"},
		},
		Action: func(c *ucli.Context) error {
			r := &recordingCost{nodes: c.Int("nodes"), pods: c.Int("pods"), rounds: c.Int("rounds"), variant: c.String("variant"), gate: c.Float64("gate"), out: c.App.Writer, progress: c.App.ErrWriter}
			if c.NArg() > 0 {
				return exit.Usagef("unexpected argument %q", c.Args().First())
			}
			if r.nodes < 2 || r.pods < 2 || r.rounds < 1 {
				return exit.Usagef("--nodes and --pods must be 2 or more, --rounds 1 or more")
			}
			return r.run(c.Context)
		},
	}
}

// recordingCost compares the ways to record.
type recordingCost struct {
	nodes, pods, rounds int
	variant             string
	gate                float64
	out, progress       io.Writer
	dir                 string // of the files
	created             int    // pods so far
}

func (r *recordingCost) run(ctx context.Context) (err error) {
	logging.DropKlog()
	debug.SetGCPercent(300)
	if r.dir, err = os.MkdirTemp("", "schedbench-*"); err != nil {
		return err
	}
	defer os.RemoveAll(r.dir)
	fmt.Fprintf(r.out, "%s, %d nodes, %d pods a run, %d rounds; %d CPUs, load %s\n", r.variant, r.nodes, r.pods, r.rounds, runtime.NumCPU(), load())
	var all [][]run // by way
	c := testbed.Config{Name: "bench", Launcher: inprocess.Launcher{}, Nodes: testbed.Nodes{Pools: pools(r.nodes)}}
	err = testbed.Run(ctx, c, func(ctx context.Context, b *testbed.Bed) error {
		if _, err := r.once(ctx, b, 0); err != nil { // the first run after a start is slower
			return err
		}
		all, err = r.turns(func(way int) (run, error) { return r.once(ctx, b, way) })
		return err
	})
	if err != nil {
		return err
	}
	return r.sumUp(all)
}

// turns makes the runs of all rounds. Each round begins with another way.
func (r *recordingCost) turns(once func(way int) (run, error)) ([][]run, error) {
	all := make([][]run, len(recordings))
	for round := range r.rounds {
		for k := range recordings {
			way := (round + k) % len(recordings)
			got, err := once(way)
			if err != nil {
				return nil, fmt.Errorf("round %d, %s: %w", round+1, recordings[way].name, err)
			}
			all[way] = append(all[way], got)
			fmt.Fprintf(r.progress, "%s  round %d of %d: %s %.0f pods/s, %.2f ms CPU a pod\n", time.Now().Format(time.TimeOnly), round+1, r.rounds, recordings[way].name, got.rate, got.cpu)
		}
	}
	return all, nil
}

// once binds a backlog.
func (r *recordingCost) once(ctx context.Context, b *testbed.Bed, way int) (out run, err error) {
	defer func() { err = errors.Join(err, deletePods(context.WithoutCancel(ctx), b.Client)) }()
	if err := createPods(ctx, b.Client, r.variant, r.created, r.pods); err != nil { // under new names: on a busy machine the API server may still be deleting old ones
		return out, err
	}
	r.created += r.pods
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	bound := newMeter(r.pods)
	if err := countBindings(ctx, b.Client, bound, cancel); err != nil {
		return out, err
	}
	records, done, err := r.recording(way)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, done()) }()
	runtime.GC()
	stop, err := b.StartRecorded(ctx, server.Config{QPS: loopQPS, Profiles: []server.Profile{{SchedulerName: r.variant, Variant: r.variant}}}, records)
	if err != nil {
		return out, err
	}
	defer stop()
	return bound.wait(ctx)
}

// recording returns what a scheduler of a way is given, as `rungnn` does by default. done closes its file.
func (r *recordingCost) recording(way int) (records plugin.Recording, done func() error, err error) {
	if way == 0 {
		return records, func() error { return nil }, nil
	}
	var journal record.Journal
	done = func() error { return nil }
	if file := recordings[way].file; file != "" {
		if journal, err = record.OpenJournal(filepath.Join(r.dir, file), func(err error, _ uint64) { fmt.Fprintf(r.progress, "%v\n", err) }); err != nil {
			return records, nil, err
		}
		done = journal.Close
	}
	return plugin.Recording{Book: record.NewBook(record.DefaultSize, journal), DefaultShare: 0.01}, done, nil
}

// sumUp prints the medians of the ratios to the runs of the same round without recording, with the middle half of the ratios, and
// checks the gate.
func (r *recordingCost) sumUp(all [][]run) error {
	var missed error
	fmt.Fprintf(r.out, "off: %s\n", summary(all[0]))
	for way := 1; way < len(all); way++ {
		var rate, cpu []float64
		for i, x := range all[way] {
			rate, cpu = append(rate, x.rate/all[0][i].rate), append(cpu, x.cpu/all[0][i].cpu)
		}
		fmt.Fprintf(r.out, "%s: CPU time of a pod %s, pods a second %s\n", recordings[way].name, spreadOf(cpu), spreadOf(rate))
		if got := 1 / median(cpu); got < r.gate {
			missed = errors.Join(missed, exit.New(exit.Gate, fmt.Errorf("%s: throughput %.3f is under %.3f", recordings[way].name, got, r.gate), ""))
		}
	}
	fmt.Fprintf(r.out, "load at the end %s\n", load())
	return missed
}

// spreadOf returns the median of ratios with its standard error, as that of a normal distribution with the same middle half.
func spreadOf(ratios []float64) string {
	var off []float64
	m := median(ratios)
	for _, x := range ratios {
		off = append(off, math.Abs(x-m))
	}
	return fmt.Sprintf("%.3f ± %.3f", m, 1.253*1.4826*median(off)/math.Sqrt(float64(len(ratios))))
}
