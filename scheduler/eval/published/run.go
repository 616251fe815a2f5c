package published

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/sim"
	"gnnsched/workload/trace/openb"
)

// What the published runs used.
const (
	FirstSeed = 42
	Seeds     = 10
	Factor    = 1.3
)

// How the trace's files are called.
const (
	NodesFile  = "openb_node_list_gpu_node.csv"
	podsPrefix = "openb_pod_list_"
	podsSuffix = ".csv"
)

// Config says what to compare.
type Config struct {
	Dir        string           // folder with the trace's files
	Workloads  []string         // as of Workloads
	Contenders []eval.Contender // the baseline first
	Seeds      []uint64
	Factor     float64 // how much of the cluster's GPUs the arrivals ask for; over 0
	InOrder    bool    // as of sim.OpenB
}

// Workloads are the names of the pod lists in a folder: default for openb_pod_list_default.csv.
func Workloads(dir string) ([]string, error) {
	if _, err := os.Stat(filepath.Join(dir, NodesFile)); err != nil {
		return nil, fmt.Errorf("%s holds no %s: %w", dir, NodesFile, err)
	}
	files, err := filepath.Glob(filepath.Join(dir, podsPrefix+"*"+podsSuffix))
	if err != nil {
		return nil, err
	}
	var out []string
	for _, f := range files {
		out = append(out, strings.TrimSuffix(strings.TrimPrefix(filepath.Base(f), podsPrefix), podsSuffix))
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s holds no %s*%s", dir, podsPrefix, podsSuffix)
	}
	return out, nil
}

// PodsFile is the pod list of a workload in a folder.
func PodsFile(dir, workload string) string {
	return filepath.Join(dir, podsPrefix+workload+podsSuffix)
}

// Run plays every workload with every contender and seed. progress, which may be nil, is told
// the workload and how many of its episodes are done.
func Run(ctx context.Context, c Config, progress func(workload string, done, total int)) (Report, error) {
	out := Report{Factor: c.Factor}
	known, err := Workloads(c.Dir)
	if err != nil {
		return out, err
	}
	nodes, err := openb.LoadNodes(filepath.Join(c.Dir, NodesFile))
	if err != nil {
		return out, err
	}
	for _, w := range c.Workloads {
		if !slices.Contains(known, w) {
			return out, fmt.Errorf("no workload is called %q; %s has %s", w, c.Dir, strings.Join(known, ", "))
		}
	}
	for _, w := range c.Workloads {
		pods, err := openb.LoadPods(PodsFile(c.Dir, w))
		if err != nil {
			return out, err
		}
		s, err := scenario(w, sim.OpenB{Nodes: nodes, Pods: pods, Factor: c.Factor, InOrder: c.InOrder})
		if err != nil {
			return out, err
		}
		r, err := eval.Compare(ctx, s, c.Contenders, c.Seeds, func(done, total int) {
			if progress != nil {
				progress(w, done, total)
			}
		})
		if err != nil {
			return out, err
		}
		bounds, err := boundsOf(nodes, pods, c)
		if err != nil {
			return out, err
		}
		out.Comparisons, out.Bounds = append(out.Comparisons, r), append(out.Bounds, bounds)
	}
	return out, nil
}

// boundsOf are the bounds of the episodes' arrivals, by seed.
func boundsOf(nodes []openb.Node, pods []openb.Pod, c Config) (out []float64, err error) {
	for _, seed := range c.Seeds {
		arrivals, err := openb.Inflate(pods, c.Factor, openb.GPUMilli(nodes), seed)
		if err != nil {
			return nil, err
		}
		out = append(out, Bound(nodes, arrivals))
	}
	return out, nil
}

func scenario(workload string, o sim.OpenB) (eval.Scenario, error) {
	if o.Factor <= 0 {
		return eval.Scenario{}, errors.New("the factor must be over 0; as published it is 1.3")
	}
	pack, err := objective.Parse("pack") // there has to be one; no policy here looks at it
	if err != nil {
		return eval.Scenario{}, err
	}
	return eval.Scenario{
		Name: workload, About: fmt.Sprintf("pods of the openb trace until they have asked for %.0f%% of the GPUs", 100*o.Factor),
		Config: sim.Config{OpenB: &o, Objective: pack},
	}, nil
}
