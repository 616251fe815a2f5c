package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"time"

	ucli "github.com/urfave/cli/v2"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"
	"k8s.io/apimachinery/pkg/watch"

	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/internal/logging"
	"gnnsched/scheduler/decision/record"
	"gnnsched/scheduler/eval/testbed"
	"gnnsched/scheduler/eval/testbed/inprocess"
	"gnnsched/scheduler/plugin"
	"gnnsched/scheduler/server"
)

// recordings are the ways to record, with the file that each writes. The first one is not to record. Pods of the last one
// get no node: its blocks cost what creating the pods costs, which is not the scheduler's.
var recordings = []struct{ name, file string }{
	{"off", ""}, {"ring", ""}, {"ring and JSON lines", "d.jsonl"}, {"ring and Parquet", "d.parquet"}, {"nobody", ""},
}

// tidy is the number of rounds after which pods and garbage are cleared away.
const tidy = 4

// gcPercent is GOGC as kwokcluster has it.
const gcPercent = 300

func recordingCommand() *ucli.Command {
	return &ucli.Command{
		Name:  "recording",
		Usage: "compare the CPU time of a pod without and with recorded decisions",
		Description: "Four schedulers with the same learned profile run on one simulated cluster in this process. One does not record, one records in\n" +
			"memory, one also in a file of JSON lines, one also in a Parquet file. They take turns, in random order, with small blocks of\n" +
			"pods, and the figures are differences between the blocks of a round, with standard errors. CPU time is that of the whole process, API server\n" +
			"included, less what creating the pods takes, which blocks of pods that nobody schedules tell. Blocks are small because\n" +
			"the speed of a machine that others share changes within seconds. The garbage is collected between the rounds, and what its collection costs\n" +
			"is added by the bytes that a block allocates: a collection in one block and not in another would hide the difference.\n\n" +
			"Examples:\n" +
			"   go run ./scheduler/schedbench recording                  # about ten minutes\n" +
			"   go run ./scheduler/schedbench recording --rounds 40      # a first impression\n" +
			"   go run ./scheduler/schedbench recording --gate 0.97      # exit code 99 if a way to record takes more than 3 % of the throughput",
		Flags: []ucli.Flag{
			&ucli.IntFlag{Name: "nodes", Value: 100, Usage: "number of `NODES` of the cluster"},
			&ucli.IntFlag{Name: "pods", Value: 20, Usage: "number of `PODS` of a block"},
			&ucli.IntFlag{Name: "rounds", Value: 600, Usage: "number of `ROUNDS`, each with a block of every way"},
			&ucli.StringFlag{Name: "variant", Value: "gnn", Usage: "`PROFILE` that decides: gnn, dqn, acgnn or acdqn"},
			&ucli.Float64Flag{Name: "gate", Usage: "end with exit code 99 if a way's throughput by CPU time is under `RATIO`"},
		},
		Action: cli.FlagsOnly(func(c *ucli.Context) error {
			r := &recordingCost{
				nodes: c.Int("nodes"), pods: c.Int("pods"), rounds: c.Int("rounds"), variant: c.String("variant"), gate: c.Float64("gate"),
				out: c.App.Writer, progress: c.App.ErrWriter,
			}
			if r.nodes < 2 || r.pods < 2 || r.rounds < 2 {
				return exit.Usagef("--nodes, --pods and --rounds must be 2 or more")
			}
			return r.run(c.Context)
		}),
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
	watch               watch.Interface
}

func (r *recordingCost) run(ctx context.Context) (err error) {
	logging.DropKlog()
	debug.SetGCPercent(gcPercent)
	if r.dir, err = os.MkdirTemp("", "schedbench-*"); err != nil {
		return err
	}
	defer os.RemoveAll(r.dir)
	fmt.Fprintf(r.out, "%s, %d nodes, %d pods a block, %d rounds; %d CPUs, load %s\n",
		r.variant, r.nodes, r.pods, r.rounds, runtime.NumCPU(), load())
	var all [][]block // by way
	var cleaned []collection
	c := testbed.Config{Name: "bench", Launcher: inprocess.Launcher{}, Nodes: testbed.Nodes{Pools: pools(r.nodes)}}
	err = testbed.Run(ctx, c, func(ctx context.Context, b *testbed.Bed) (err error) {
		debug.SetGCPercent(-1) // garbage is collected between the rounds
		defer debug.SetGCPercent(gcPercent)
		for way := range recordings[:len(recordings)-1] {
			stop, err := r.start(ctx, b, way)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, stop()) }()
		}
		all, cleaned, err = r.turns(ctx, func(way int) (block, error) { return r.block(ctx, b, way) },
			func() (collection, error) { return r.clean(ctx, b) })
		return err
	})
	if err != nil {
		return err
	}
	return r.sumUp(all, cleaned)
}

// scheduler is the name of a way's scheduler.
func (r *recordingCost) scheduler(way int) string { return fmt.Sprintf("%s-%d", r.variant, way) }

// start starts the scheduler of a way, with the recording that `rungnn` has by default. stop ends it and closes its file.
func (r *recordingCost) start(ctx context.Context, b *testbed.Bed, way int) (stop func() error, err error) {
	var records plugin.Recording
	done := func() error { return nil }
	if way > 0 {
		var journal record.Journal
		if file := recordings[way].file; file != "" {
			if journal, err = record.OpenJournal(filepath.Join(r.dir, file), func(err error, _ uint64) { fmt.Fprintf(r.progress, "%v\n", err) }); err != nil {
				return nil, err
			}
			done = journal.Close
		}
		// The share is relative to all time, including the others' blocks.
		records = plugin.Recording{Book: record.NewBook(record.DefaultSize, journal), DefaultShare: 0.01 / float64(len(recordings))}
	}
	p := server.Profile{SchedulerName: r.scheduler(way), Args: plugin.Args{Variant: r.variant}}
	end, err := b.StartRecorded(ctx, server.Config{QPS: loopQPS, Profiles: []server.Profile{p}}, records)
	if err != nil {
		return nil, errors.Join(err, done())
	}
	return func() error { end(); return done() }, nil
}

// turns makes the blocks of all rounds, each round in another order. After every few rounds it deletes their objects. The first rounds do
// not count, because a scheduler's first pods take longer.
func (r *recordingCost) turns(
	ctx context.Context, once func(way int) (block, error), clean func() (collection, error),
) (all [][]block, cleaned []collection, err error) {
	all = make([][]block, len(recordings))
	order := rand.New(rand.NewPCG(1, 1))
	for round := -tidy; round < r.rounds; round++ {
		if round%tidy == 0 {
			c, err := clean()
			if err != nil {
				return nil, nil, err
			}
			cleaned = append(cleaned, c)
		}
		for _, way := range order.Perm(len(recordings)) {
			if ctx.Err() != nil {
				return nil, nil, context.Cause(ctx)
			}
			got, err := once(way)
			if err != nil {
				return nil, nil, fmt.Errorf("round %d, %s: %w", round+1, recordings[way].name, err)
			}
			if round >= 0 {
				all[way] = append(all[way], got)
			}
		}
		if n := round + 1; n > 0 && (n%50 == 0 || n == r.rounds) {
			fmt.Fprintf(r.progress, "%s  round %d of %d: without recording %.2f ms CPU a pod\n", time.Now().Format(time.TimeOnly),
				n, r.rounds, mean(all[0], cpuOf)/1e3)
		}
	}
	return all, cleaned, nil
}

// sumUp prints the cost of a pod with each way, and checks the gate.
func (r *recordingCost) sumUp(all [][]block, cleaned []collection) error {
	perKB := collecting(cleaned)
	cpu := func(b block) float64 { return b.cpu + b.allocated*perKB }
	create := mean(all[len(all)-1], cpu)
	off := mean(all[0], cpu) - create
	fmt.Fprintf(r.out, "a pod without recording: %.0f µs of CPU time, and %.0f µs to create it, which do not count; %.0f KB allocated, collected at %.2f µs a KB\n",
		off, create, mean(all[0], kilobytesOf)-mean(all[len(all)-1], kilobytesOf), perKB)
	var missed error
	for way := 1; way < len(all)-1; way++ {
		more, err := difference(all[way], all[0], cpu)
		kilobytes, _ := difference(all[way], all[0], kilobytesOf)
		wall, wallErr := difference(all[way], all[0], wallOf)
		percent := 100 / mean(all[0], wallOf)
		fmt.Fprintf(r.out, "%s: %.0f ± %.0f µs more CPU time a pod, %.1f ± %.1f %%; %.1f KB more; %.1f ± %.1f %% more time on the clock, creation included\n",
			recordings[way].name, more, err, 100*more/off, 100*err/off, kilobytes, percent*wall, percent*wallErr)
		if got := off / (off + more); got < r.gate {
			missed = errors.Join(missed, exit.New(exit.Gate, fmt.Errorf("%s: throughput %.3f is under %.3f", recordings[way].name, got, r.gate), ""))
		}
	}
	fmt.Fprintf(r.out, "load at the end %s\n", load())
	return missed
}

// collecting returns the CPU time of garbage collection per allocated KB, in microseconds: a collection comes when gcPercent of the live
// memory has been allocated.
func collecting(cleaned []collection) float64 {
	var cpu, live float64
	for _, c := range cleaned {
		cpu, live = cpu+c.cpu, live+c.live
	}
	return cpu / (live * gcPercent / 100)
}

// difference returns the mean of the differences of a figure between the blocks of the same round, and its standard error.
func difference(of, from []block, figure func(block) float64) (mean, err float64) {
	more := column(of, figure)
	floats.Sub(more, column(from, figure))
	mean, deviation := stat.MeanStdDev(more, nil)
	return mean, stat.StdErr(deviation, float64(len(more)))
}

func column(blocks []block, figure func(block) float64) (out []float64) {
	for _, b := range blocks {
		out = append(out, figure(b))
	}
	return out
}

func mean(blocks []block, figure func(block) float64) float64 {
	return stat.Mean(column(blocks, figure), nil)
}

func cpuOf(b block) float64       { return b.cpu }
func wallOf(b block) float64      { return b.wall }
func kilobytesOf(b block) float64 { return b.allocated }
