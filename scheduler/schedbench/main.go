package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/internal/logging"
	"gnnsched/scheduler/policy/preference"
	"gnnsched/scheduler/server"
)

func main() { os.Exit(cli.Run(app(), os.Args)) }

func app() *ucli.App {
	return &ucli.App{
		Name:  "schedbench",
		Usage: "compare the pods a second of a learned profile and the default profile",
		Description: "Examples:\n" +
			"   go run ./scheduler/schedbench                                  # everything, about ten minutes\n" +
			"   go run ./scheduler/schedbench --only loop --pairs 1            # a first impression\n" +
			"   go run ./scheduler/schedbench --only cluster --percentages 100 # score every node\n" +
			"   go run ./scheduler/schedbench --profile-dir /tmp/pprof         # write CPU profiles",
		HideHelpCommand: true,
		Commands:        []*ucli.Command{upstreamCommand()},
		Flags: []ucli.Flag{
			&ucli.StringFlag{Name: "only", Usage: "measure `WHAT`: cluster or loop (default: both)"},
			&ucli.IntFlag{Name: "nodes", Value: 1000, Usage: "number of `NODES` of the cluster"},
			&ucli.IntSliceFlag{
				Name: "loop-nodes", Value: ucli.NewIntSlice(1000, 5000),
				Usage: "numbers of `NODES` for the loop alone, one measurement for each",
			},
			&ucli.IntFlag{Name: "pods", Value: 5000, Usage: "number of `PODS` of a run with upstream's adaptive share of nodes"},
			&ucli.IntFlag{
				Name: "pods-fixed", Value: 2000,
				Usage: "number of `PODS` of a run with a fixed share, which takes longer for each pod",
			},
			&ucli.IntFlag{Name: "pairs", Value: 3, Usage: "number of `PAIRS` of runs for a result"},
			&ucli.IntSliceFlag{
				Name: "percentages", Value: ucli.NewIntSlice(0, 100),
				Usage: "values of percentageOfNodesToScore, one measurement for each; `0` is upstream's adaptive share",
			},
			&ucli.IntFlag{Name: "parallelism", Value: 16, Usage: "number of `GOROUTINES` for filters and scores"},
			&ucli.StringFlag{Name: "variant", Value: "gnn", Usage: "learned `VARIANT`: gnn, dqn, acgnn or acdqn"},
			&ucli.StringFlag{
				Name:  "checkpoint",
				Usage: "checkpoint `FILE` of the variant (default: the shipped one, or random weights of its size, which take the same time)",
			},
			&ucli.StringFlag{
				Name:  "preferences",
				Usage: "`HOW` the preferences of manifests count in the learned profile: first, declared, blend or off (default: as in the scheduler)",
			},
			&ucli.StringFlag{Name: "profile-dir", Usage: "write a CPU profile of each run to `DIR`"},
			&ucli.Float64Flag{Name: "gate", Usage: "end with exit code 99 if the ratio of a result is under `RATIO`"},
		},
		Action: func(c *ucli.Context) error {
			o, cleanup, err := parse(c)
			if err != nil {
				return err
			}
			defer cleanup()
			return o.run(c.Context)
		},
	}
}

// options are the values of the flags.
type options struct {
	cluster, loop bool
	nodes         int
	loopNodes     []int
	pods, fixed   int // pods with the adaptive share of nodes, and with a fixed one
	pairs         int
	percentages   []int
	parallelism   int
	variant       string
	checkpoint    string // file
	preferences   preference.Mode
	profileDir    string // empty for no CPU profiles
	gate          float64

	out, progress io.Writer
}

func parse(c *ucli.Context) (o options, cleanup func(), err error) {
	o = options{
		cluster: c.String("only") != "loop", loop: c.String("only") != "cluster",
		nodes: c.Int("nodes"), loopNodes: c.IntSlice("loop-nodes"), pods: c.Int("pods"), fixed: c.Int("pods-fixed"), pairs: c.Int("pairs"),
		percentages: c.IntSlice("percentages"), parallelism: c.Int("parallelism"),
		variant: c.String("variant"), checkpoint: c.String("checkpoint"), preferences: preference.Mode(c.String("preferences")),
		profileDir: c.String("profile-dir"), gate: c.Float64("gate"),
		out: c.App.Writer, progress: c.App.ErrWriter,
	}
	switch only := c.String("only"); {
	case only != "" && only != "cluster" && only != "loop":
		return o, nil, exit.Usagef("--only %q: want cluster or loop", only)
	case !slices.Contains(server.Variants, o.variant):
		return o, nil, exit.Usagef("--variant %q: want one of %v", o.variant, server.Variants)
	case c.NArg() > 0:
		return o, nil, exit.Usagef("unexpected argument %q", c.Args().First())
	case o.nodes < 2 || o.pods < 2 || o.fixed < 2 || o.pairs < 1 || o.parallelism < 1:
		return o, nil, exit.Usagef("--nodes, --pods and --pods-fixed must be 2 or more, --pairs and --parallelism 1 or more")
	}
	if err := o.preferences.Validate(); o.preferences != "" && err != nil {
		return o, nil, exit.Usagef("--preferences: %v", err)
	}
	for _, p := range o.percentages {
		if p < 0 || p > 100 {
			return o, nil, exit.Usagef("--percentages %d: want 0 (adaptive) to 100", p)
		}
	}
	for _, n := range o.loopNodes {
		if n < 2 {
			return o, nil, exit.Usagef("--loop-nodes %d: want 2 or more", n)
		}
	}
	if o.profileDir, err = makeProfileDir(o.profileDir); err != nil {
		return o, nil, err
	}
	cleanup, err = o.findCheckpoint()
	return o, cleanup, err
}

// findCheckpoint checks the file of --checkpoint. Without the flag it writes the shipped checkpoint of
// the variant, or random weights of its size, to a temporary file.
func (o *options) findCheckpoint() (cleanup func(), err error) {
	if o.checkpoint != "" {
		if _, err := checkpoint.Load(o.checkpoint); err != nil {
			return nil, exit.New(exit.Checkpoint, err, "give a checkpoint that gnntrain wrote")
		}
		return func() {}, nil
	}
	c, err := checkpoint.Shipped(o.variant)
	if err != nil {
		a := checkpoint.Architecture{Encoder: checkpoint.GNN, Head: checkpoint.DQN, Hidden: 32}
		if strings.HasSuffix(o.variant, "dqn") {
			a.Encoder = checkpoint.MLP
		}
		c = checkpoint.Random(a, rand.New(rand.NewPCG(1, 2)))
		fmt.Fprintf(o.progress, "no checkpoint is shipped for %s: using random weights, hidden size %d\n", o.variant, a.Hidden)
	}
	dir, err := os.MkdirTemp("", "gnnsched-bench-")
	if err != nil {
		return nil, err
	}
	o.checkpoint = filepath.Join(dir, o.variant+".safetensors")
	return func() { os.RemoveAll(dir) }, c.Save(o.checkpoint)
}

// run measures everything and prints the results.
func (o *options) run(ctx context.Context) error {
	logging.DropKlog() // a cluster and a scheduler in one process log a lot
	gogc := os.Getenv("GOGC")
	if gogc == "" {
		debug.SetGCPercent(300)
		gogc = "300"
	}
	fmt.Fprintf(o.out, "%s against %s, both in one process, parallelism %d and client QPS %d for both\n",
		o.variant, defaultProfile, o.parallelism, loopQPS)
	fmt.Fprintf(o.out, "machine: %d CPUs, GOGC=%s, load %s\n", runtime.NumCPU(), gogc, load())
	var results []result
	add := func(r result, err error) error {
		if err != nil {
			return err
		}
		r.print(o.out)
		results = append(results, r)
		return nil
	}
	if o.loop {
		for _, s := range o.shares() {
			for _, nodes := range o.loopNodes {
				if err := add(o.measureLoop(ctx, nodes, s)); err != nil {
					return err
				}
			}
		}
	}
	if o.cluster {
		if err := o.measureCluster(ctx, add); err != nil {
			return err
		}
	}
	fmt.Fprintf(o.out, "\nload at the end %s\n", load())
	for _, r := range results {
		fmt.Fprintln(o.out, r.line())
	}
	return o.check(results)
}

// check returns an error if a ratio is under --gate.
func (o *options) check(results []result) error {
	for _, r := range results {
		if r.ratio() < o.gate {
			return exit.New(exit.Gate, fmt.Errorf("%s: ratio %.2f is under %.2f", r.what, r.ratio(), o.gate), "")
		}
	}
	return nil
}

// load returns the load averages of the system, if it has them. Figures of a busy machine are less
// reliable.
func load() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(b))[:min(3, len(strings.Fields(string(b))))], " ")
}
