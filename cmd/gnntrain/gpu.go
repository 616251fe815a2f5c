//go:build torch

package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	ucli "github.com/urfave/cli/v2"
	"sigs.k8s.io/yaml"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/learn/run"
	"gnnsched/scheduler/learn/value"
	"gnnsched/workload/trace/openb"
)

func trainGPU(c *ucli.Context) error { return trainValues(c, value.Defaults()) }

func trainKinds(c *ucli.Context) error { return trainValues(c, value.KindDefaults()) }

// trainValues trains a network that values the centres of stars. The configuration is that of the flags, else the given one.
func trainValues(c *ucli.Context, cfg value.Config) (err error) {
	if c.NArg() > 0 {
		return exit.Usagef("unexpected argument %q", c.Args().First())
	}
	if cfg, err = valueConfig(c, cfg); err != nil {
		return err
	}
	var resume *run.State
	if c.Bool("resume") {
		if resume, err = loadState(c, filesOf(c, valueVariant(cfg)).state, []string{"config", "seed", "start"}); err != nil {
			return err
		}
		if cfg, err = value.Resumed(resume); err != nil {
			return err
		}
	}
	if c.Bool("print-config") {
		return cli.Written(c)(yaml.Marshal(cfg))
	}
	return trainConfig(c, cfg, resume, filesOf(c, valueVariant(cfg)))
}

// trainConfig trains a network and writes the best one.
func trainConfig(c *ucli.Context, cfg value.Config, resume *run.State, f runFiles) (err error) {
	t := value.Trainer{Config: cfg}
	t.Resume, t.State = resume, f.state
	gpus := cfg.Graph != checkpoint.KindsGraph
	if gpus {
		if t.Nodes, t.Family, err = gpuFamily(c); err != nil {
			return err
		}
	}
	if start := c.String("start"); start != "" {
		if t.Start, err = checkpoint.Load(start); err != nil {
			return exit.New(exit.Checkpoint, err, "name a network that the same command wrote")
		}
		if err := t.CheckStart(); err != nil { // before anything is written
			return exit.New(exit.Usage, fmt.Errorf("--start %s: %w", start, err),
				"name a network of the same architecture, or choose its encoder, head, hidden and features with --config")
		}
	}
	if err := cli.Writable(f.out); err != nil {
		return err
	}
	if gpus {
		if err := value.TypicalPods(t.Family).Save(f.out); err != nil || c.Bool("typical-only") {
			return err
		}
	}
	events, err := f.open(c, firstStep(t.Resume))
	if err != nil {
		return err
	}
	save := func(k *checkpoint.Checkpoint) error {
		k.Manifest.Commit = commit
		return k.Save(f.out)
	}
	x := training{trainer: &t, options: &t.Options, unit: "iteration", steps: t.Config.Iterations, save: save}
	return errors.Join(x.run(c, f, events), events.Close())
}

// valueVariant returns the name of the configuration's network.
func valueVariant(c value.Config) string {
	name := map[checkpoint.Encoder]string{checkpoint.GNN: "gnn", checkpoint.MLP: "dqn", checkpoint.Linear: "linear"}[c.Encoder]
	if c.Head == checkpoint.ActorCritic {
		name = "ac" + name
	}
	return string(cmp.Or(c.Graph, checkpoint.GPUGraph)) + "-" + name
}

// valueConfig returns the configuration of the file and the flags, with other fields as in cfg.
func valueConfig(c *ucli.Context, cfg value.Config) (value.Config, error) {
	hint := "gnntrain " + c.Command.Name + " --print-config prints such a file"
	if path := c.String("config"); path != "" {
		b, err := os.ReadFile(path)
		if err != nil {
			return cfg, exit.New(exit.Usage, err, hint)
		}
		if cfg, err = cfg.Read(path, b); err != nil {
			return cfg, exit.New(exit.Usage, err, hint)
		}
	}
	if c.IsSet("seed") {
		cfg.Seed = c.Uint64("seed")
	}
	if err := cfg.Validate(); err != nil {
		return cfg, exit.New(exit.Usage, err, "see gnntrain "+c.Command.Name+" --help")
	}
	return cfg, nil
}

// gpuFamily reads the nodes and the workloads that the flags name.
func gpuFamily(c *ucli.Context) (nodes []openb.Node, family []value.Workload, err error) {
	nodesFile, podFiles, err := gpuFiles(c)
	if err != nil {
		return nil, nil, err
	}
	if nodes, err = openb.LoadNodes(nodesFile); err != nil {
		return nil, nil, exit.New(exit.Usage, err, noTrace)
	}
	for _, f := range podFiles {
		pods, err := openb.LoadPods(f)
		if err != nil {
			return nil, nil, exit.New(exit.Usage, err, noTrace)
		}
		family = append(family, value.Workload{Name: openb.ListName(f), Pods: pods})
	}
	return nodes, family, nil
}

const noTrace = "name the trace's directory with --data, or files with --nodes and --pods; docs/results/gpu.md tells where to get the trace"

// gpuFiles returns the files that the flags name.
func gpuFiles(c *ucli.Context) (nodes string, pods []string, err error) {
	nodes, pods = c.String("nodes"), c.StringSlice("pods")
	dir := c.String("data")
	if dir != "" {
		if nodes == "" {
			nodes = filepath.Join(dir, openb.NodesFile)
		}
		if len(pods) == 0 {
			names, err := openb.PodLists(dir)
			if err != nil {
				return "", nil, exit.New(exit.Usage, err, noTrace)
			}
			for _, name := range names {
				pods = append(pods, openb.PodsFile(dir, name))
			}
		}
	}
	if nodes == "" || len(pods) == 0 {
		return "", nil, exit.New(exit.Usage, errors.New("there is no trace to learn on"), noTrace)
	}
	return nodes, pods, nil
}
