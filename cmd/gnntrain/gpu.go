//go:build torch

package main

import (
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

func trainGPU(c *ucli.Context) (err error) {
	if c.NArg() > 0 {
		return exit.Usagef("unexpected argument %q", c.Args().First())
	}
	cfg, err := gpuConfig(c)
	if err != nil {
		return err
	}
	t := value.Trainer{Config: cfg}
	if c.Bool("resume") {
		// --encoder and --head are part of the file's default name.
		if t.Resume, err = loadState(c, filesOf(c, gpuVariant(cfg)).state, []string{"config", "iterations", "seed", "start"}); err != nil {
			return err
		}
		if t.Config, err = resumedGPU(c, t.Resume, cfg); err != nil {
			return err
		}
	}
	if c.Bool("print-config") {
		y, err := yaml.Marshal(t.Config)
		if err == nil {
			_, err = c.App.Writer.Write(y)
		}
		return err
	}
	if t.Nodes, t.Family, err = gpuFamily(c, t.Config); err != nil {
		return err
	}
	if start := c.String("start"); start != "" {
		if t.Start, err = checkpoint.Load(start); err != nil {
			return exit.New(exit.Checkpoint, err, "name a network that gnntrain gpu wrote")
		}
		if err := t.CheckStart(); err != nil { // before anything is written
			return exit.New(exit.Usage, fmt.Errorf("--start %s: %w", start, err), "name a network of the same architecture, or choose its encoder, head, hidden and features with flags and --config")
		}
	}
	f := filesOf(c, gpuVariant(t.Config))
	if err := cli.Writable(f.out); err != nil {
		return err
	}
	if err := value.TypicalPods(t.Family).Save(f.out); err != nil || c.Bool("typical-only") {
		return err
	}
	config, err := yaml.Marshal(t.Config)
	if err != nil {
		return err
	}
	figures, err := f.open(c, firstStep(t.Resume), config)
	if err != nil {
		return err
	}
	defer func() { err = figures.end(err) }()
	t.State = f.state
	save := func(k *checkpoint.Checkpoint) error {
		k.Manifest.Commit = commit
		return k.Save(f.out)
	}
	return training{trainer: &t, options: &t.Options, unit: "iteration", steps: t.Config.Iterations, save: save}.run(c, f, figures)
}

// resumedGPU returns the configuration of a stored run. It is an error if a flag names another network.
func resumedGPU(c *ucli.Context, s *run.State, flags value.Config) (value.Config, error) {
	cfg, err := value.Resumed(s)
	if err != nil {
		return cfg, err
	}
	if c.IsSet("encoder") && flags.Encoder != cfg.Encoder || c.IsSet("head") && flags.Head != cfg.Head {
		return cfg, exit.New(exit.Usage, fmt.Errorf("the stored run trains a network with encoder %s and head %s", cfg.Encoder, cfg.Head), "leave --encoder and --head out, or name another --out")
	}
	return cfg, nil
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

// gpuFamily reads the nodes and the workloads that the flags name. A configuration with partitions needs none.
func gpuFamily(c *ucli.Context, cfg value.Config) (nodes []openb.Node, family []value.Workload, err error) {
	if cfg.Partitions != nil {
		if c.String("data") != "" || c.String("nodes") != "" || len(c.StringSlice("pods")) > 0 {
			return nil, nil, exit.Usagef("with partitions no trace is read: leave out --data, --nodes and --pods")
		}
		return nil, []value.Workload{value.PartitionPods()}, nil
	}
	const hint = "name the trace's directory with --data, or files with --nodes and --pods; docs/results/gpu.md tells where to get the trace"
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
