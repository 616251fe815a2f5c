//go:build torch

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	ucli "github.com/urfave/cli/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/internal/tensorboard"
	"gnnsched/scheduler/learn/value"
	"gnnsched/workload/trace/openb"
)

func gpuCommand() *ucli.Command {
	d := value.Defaults()
	return &ucli.Command{
		Name: "gpu", Usage: "train a network for GPU clusters on workloads drawn from a trace",
		Description: "The network learns how many GPUs will be idle on each node once no more pod fits. FGD plays\n" +
			"the first episodes. Every episode has a new workload, drawn from the pods of the files. The\n" +
			"files are those of the openb trace; docs/gpu.md tells where to get them.\n\n" +
			"Examples:\n" +
			"   gnntrain gpu --data openb/csv                      # learns from all pod lists there; writes gpu-gnn.safetensors\n" +
			"   gnntrain gpu --data openb/csv --head actor-critic  # writes gpu-acgnn.safetensors\n" +
			"   gnntrain gpu --nodes nodes.csv --pods pods.csv --iterations 20 --out my.safetensors",
		Flags: []ucli.Flag{
			&ucli.StringFlag{Name: "data", Usage: "`DIR`ectory of the trace: openb_node_list_gpu_node.csv and all openb_pod_list_*.csv"},
			&ucli.StringFlag{Name: "nodes", Usage: "CSV `FILE` of the nodes, instead of the one in --data"},
			&ucli.StringSliceFlag{Name: "pods", Usage: "CSV `FILE` of pods, instead of those in --data; may be repeated"},
			&ucli.StringFlag{Name: "config", Usage: "YAML `FILE` with the hyperparameters; flags take precedence"},
			&ucli.BoolFlag{Name: "print-config", Usage: "print the configuration and exit"},
			&ucli.StringFlag{Name: "encoder", Value: string(d.Encoder), Usage: "`NAME`: gnn, mlp (no messages from devices) or linear"},
			&ucli.StringFlag{Name: "head", Value: string(d.Head), Usage: "`NAME`: dqn (greedy on the value) or actor-critic"},
			&ucli.IntFlag{Name: "iterations", Value: d.Iterations, Usage: "`NUMBER` of iterations: each plays episodes, then learns"},
			&ucli.Uint64Flag{Name: "seed", Value: d.Seed, Usage: "`SEED` of everything random"},
			&ucli.StringFlag{Name: "out", Usage: "`FILE` to write the best network to; default: gpu-gnn.safetensors for gnn, gpu-dqn for mlp, gpu-linear for linear, and gpu-acgnn or gpu-acdqn for an actor-critic"},
			&ucli.StringFlag{Name: "events", Usage: "`DIR`ectory for TensorBoard's event files and " + tensorboard.ScalarsFile + "; default: logs/ with the name of --out"},
		},
		Action: trainGPU,
	}
}

// The tags of the scalars of a run on GPU clusters.
const (
	tagValueLoss  = "losses/value_loss"
	tagActorLoss  = "losses/policy_loss"
	tagAllocation = "charts/gpu_allocation"
	tagGain       = "eval/gain_over_fgd"
	tagWorstGain  = "eval/worst_gain_over_fgd"
)

func trainGPU(c *ucli.Context) (err error) {
	if c.NArg() > 0 {
		return exit.Usagef("unexpected argument %q", c.Args().First())
	}
	cfg, err := gpuConfig(c)
	if err != nil {
		return err
	}
	if c.Bool("print-config") {
		y, err := yaml.Marshal(cfg)
		if err == nil {
			_, err = c.App.Writer.Write(y)
		}
		return err
	}
	t := value.Trainer{Config: cfg}
	if t.Nodes, t.Family, err = gpuFamily(c); err != nil {
		return err
	}
	out := c.String("out")
	if out == "" {
		out = gpuVariant(cfg) + ".safetensors"
	}
	if err := cli.Writable(out); err != nil {
		return err
	}
	events := c.String("events")
	if events == "" {
		base := filepath.Base(out)
		events = filepath.Join("logs", strings.TrimSuffix(base, filepath.Ext(base)))
	}
	figures, err := tensorboard.Open(events, clock.RealClock{})
	if err != nil {
		return exit.New(exit.Usage, err, "choose a place that you can write to with --events")
	}
	defer func() { err = errors.Join(err, figures.Close()) }()
	figures.Rewind(-1)
	return learnGPU(c, t, out, figures)
}

// gpuVariant returns the name of the configuration's network.
func gpuVariant(c value.Config) string {
	name := map[checkpoint.Encoder]string{checkpoint.GNN: "gnn", checkpoint.MLP: "dqn", checkpoint.Linear: "linear"}[c.Encoder]
	if c.Head == checkpoint.ActorCritic {
		name = "ac" + name
	}
	return "gpu-" + name
}

// gpuConfig returns the configuration of the file and the flags.
func gpuConfig(c *ucli.Context) (value.Config, error) {
	cfg := value.Defaults()
	if path := c.String("config"); path != "" {
		b, err := os.ReadFile(path)
		if err != nil {
			return cfg, exit.New(exit.Usage, err, "gnntrain gpu --print-config prints such a file")
		}
		if cfg, err = value.Read(path, b); err != nil {
			return cfg, exit.New(exit.Usage, err, "gnntrain gpu --print-config prints such a file")
		}
	}
	for name, set := range map[string]func(){
		"encoder":    func() { cfg.Encoder = checkpoint.Encoder(c.String("encoder")) },
		"head":       func() { cfg.Head = checkpoint.Head(c.String("head")) },
		"iterations": func() { cfg.Iterations = c.Int("iterations") },
		"seed":       func() { cfg.Seed = c.Uint64("seed") },
	} {
		if c.IsSet(name) {
			set()
		}
	}
	if err := cfg.Validate(); err != nil {
		return cfg, exit.New(exit.Usage, err, "see gnntrain gpu --help")
	}
	return cfg, nil
}

// gpuFamily reads the nodes and the workloads that the flags name.
func gpuFamily(c *ucli.Context) (nodes []openb.Node, family []value.Workload, err error) {
	const hint = "name the trace's directory with --data, or files with --nodes and --pods; docs/gpu.md tells where to get the trace"
	nodesFile, podFiles := c.String("nodes"), c.StringSlice("pods")
	if dir := c.String("data"); dir != "" {
		if nodesFile == "" {
			nodesFile = filepath.Join(dir, openb.NodesFile)
		}
		if len(podFiles) == 0 {
			names, err := openb.PodLists(dir)
			if err != nil {
				return nil, nil, exit.New(exit.Usage, err, hint)
			}
			for _, name := range names {
				podFiles = append(podFiles, openb.PodsFile(dir, name))
			}
		}
	}
	if nodesFile == "" || len(podFiles) == 0 {
		return nil, nil, exit.New(exit.Usage, errors.New("there is no trace to learn on"), hint)
	}
	if nodes, err = openb.LoadNodes(nodesFile); err != nil {
		return nil, nil, exit.New(exit.Usage, err, hint)
	}
	for _, f := range podFiles {
		pods, err := openb.LoadPods(f)
		if err != nil {
			return nil, nil, exit.New(exit.Usage, err, hint)
		}
		family = append(family, value.Workload{Name: openb.ListName(f), Pods: pods})
	}
	return nodes, family, nil
}

// learnGPU runs a trainer, reports its progress, and writes its best network.
func learnGPU(c *ucli.Context, t value.Trainer, out string, figures *tensorboard.Run) error {
	var bar *progressbar.ProgressBar
	if cli.IsTerminal(os.Stderr) {
		bar = progressbar.NewOptions(t.Config.Iterations, progressbar.OptionSetWriter(os.Stderr), progressbar.OptionShowCount(),
			progressbar.OptionSetPredictTime(true), progressbar.OptionFullWidth())
	}
	var last value.Progress
	t.Progress = func(p value.Progress) {
		last = p
		figures.Scalar(tagValueLoss, p.Iteration, p.ValueLoss)
		figures.Scalar(tagAllocation, p.Iteration, p.Allocation)
		if t.Config.Head == checkpoint.ActorCritic {
			figures.Scalar(tagActorLoss, p.Iteration, p.ActorLoss)
		}
		if bar != nil {
			bar.Describe(fmt.Sprintf("allocation %.2f%%  loss %.4f", 100*p.Allocation, p.ValueLoss))
			_ = bar.Set(p.Iteration)
		}
	}
	t.Evaluated = func(i int, s value.Score) {
		figures.Scalar(tagGain, i, s.Gain)
		figures.Scalar(tagWorstGain, i, s.Worst)
		if bar != nil {
			_ = bar.Clear()
		}
		left := last.Elapsed / time.Duration(i) * time.Duration(t.Config.Iterations-i)
		fmt.Fprintf(os.Stderr, "iteration %d of %d: held-out %s; loss %.4f, %s left\n", i, t.Config.Iterations, gpuFigures(s), last.ValueLoss, left.Round(time.Second))
	}
	t.Improved = func(k *checkpoint.Checkpoint) error {
		k.Manifest.Commit = commit
		return k.Save(out)
	}
	_, score, err := t.Train(c.Context)
	if bar != nil {
		_ = bar.Finish()
		fmt.Fprintln(os.Stderr)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	if score == (value.Score{}) {
		return exit.New(exit.Interrupted, errors.New("interrupted before the first evaluation: there is no network yet"), "")
	}
	fmt.Fprintf(c.App.Writer, "wrote %s: held-out %s, after %s\n", out, gpuFigures(score), last.Elapsed.Round(time.Second))
	if err != nil {
		return exit.New(exit.Interrupted, errors.New("interrupted"), "the best network so far is kept")
	}
	return nil
}

// gpuFigures returns a score in words.
func gpuFigures(s value.Score) string {
	return fmt.Sprintf("GPU allocation %.2f%%, %+.2f points against FGD, %+.2f at worst", 100*s.Allocation, 100*s.Gain, 100*s.Worst)
}
