//go:build torch

package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/learn/value"
	"gnnsched/scheduler/policy/neural"
	"gnnsched/workload/trace/openb"
)

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
	config map[string]any // the run's, without its seed
	score  float64        // by which networks are chosen; less is better
}

func readCandidate(path string) (c candidate, err error) {
	c.path = path
	if c.Checkpoint, err = neural.Load(path); err != nil {
		return c, err
	}
	score, ok := c.Manifest.Training[value.HeldOutScore]
	if !ok {
		return c, exit.New(exit.Usage, fmt.Errorf("%s: its manifest has no %s", path, value.HeldOutScore),
			"train it again with this version's gnntrain")
	}
	if err := json.Unmarshal(c.Manifest.Config, &c.config); err != nil {
		return c, exit.New(exit.Usage, fmt.Errorf("%s: the configuration in its manifest: %w", path, err), "train it again with gnntrain")
	}
	delete(c.config, "seed")
	c.score = score
	return c, nil
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
		if len(all) > 0 && !reflect.DeepEqual(next.config, all[0].config) {
			return exit.New(exit.Usage, fmt.Errorf("%s and %s differ in more than the seed", all[0].path, path),
				"name networks of one configuration")
		}
		all = append(all, next)
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
