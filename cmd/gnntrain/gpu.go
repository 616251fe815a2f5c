//go:build torch

package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	ucli "github.com/urfave/cli/v2"
	"sigs.k8s.io/yaml"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/learn"
	"gnnsched/scheduler/learn/run"
	"gnnsched/scheduler/learn/value"
	"gnnsched/scheduler/policy/neural"
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

// candidate is a network that a run wrote.
type candidate struct {
	path string
	*checkpoint.Checkpoint
	job   map[string]any // the run's configuration without its seed
	score float64        // by which networks are chosen; less is better
}

func readCandidate(path string) (c candidate, err error) {
	c.path = path
	if c.Checkpoint, err = neural.Load(path); err != nil {
		return c, err
	}
	score, ok := c.Manifest.Training[run.HeldOutScore]
	if !ok {
		return c, exit.New(exit.Usage, fmt.Errorf("%s: its manifest has no %s", path, run.HeldOutScore),
			"train it again with this version's gnntrain")
	}
	if err := json.Unmarshal(c.Manifest.Config, &c.job); err != nil {
		return c, exit.New(exit.Usage, fmt.Errorf("%s: the configuration in its manifest: %w", path, err), "train it again with gnntrain")
	}
	delete(c.job, "seed")
	c.score = score
	return c, nil
}

// judge sets the score anew, by episodes that follow those that chose the run's network.
func (c *candidate) judge(episodes int) error {
	if c.Manifest.Architecture.Stars() {
		return exit.New(exit.Usage, fmt.Errorf("%s is on the %s graph", c.path, c.Manifest.Architecture.Graph), "leave --episodes out")
	}
	job, err := learn.ReadJob(c.path, c.Manifest.Config, "")
	if err != nil {
		return exit.New(exit.Usage, fmt.Errorf("the configuration in its manifest: %w", err), "train it again with gnntrain")
	}
	held, err := run.NewHeldOut(job.Evaluation(), episodes)
	if err != nil {
		return err
	}
	held.After(job.EvaluateSeeds)
	net, err := infer.New(c.Checkpoint)
	if err != nil {
		return err
	}
	s, err := held.Evaluate(neural.New(c.path, net, nil), false)
	c.score = s.Total(job.Unscheduled)
	return err
}

func pick(c *ucli.Context) error {
	if c.NArg() == 0 {
		return exit.Usagef("name the networks to choose from: gnntrain pick --out best.safetensors FILE FILE...")
	}
	var all []candidate
	for _, path := range c.Args().Slice() {
		next, err := readCandidate(path)
		if err != nil {
			return err
		}
		if len(all) > 0 && !reflect.DeepEqual(next.job, all[0].job) {
			return exit.New(exit.Usage, fmt.Errorf("%s and %s differ in more than the seed", all[0].path, path),
				"name networks of one configuration")
		}
		all = append(all, next)
	}
	if n := c.Int("episodes"); n < 0 {
		return exit.Usagef("--episodes is %d, want 1 or more", n)
	} else if n > 0 {
		for i := range all {
			if err := all[i].judge(n); err != nil {
				return err
			}
		}
	}
	best := slices.MinFunc(all, func(a, b candidate) int { return cmp.Compare(a.score, b.score) })
	for _, a := range all {
		mark := ' '
		if a.path == best.path {
			mark = '*'
		}
		fmt.Fprintf(c.App.Writer, "%c seed %d: held-out score %.4f, %s\n", mark, a.Manifest.Seed, a.score, a.path)
	}
	typical, err := checkpoint.LoadTypical(best.path)
	if err != nil {
		return err
	}
	if err := best.Save(c.String("out")); err != nil || typical == nil {
		return err
	}
	return typical.Save(c.String("out"))
}
