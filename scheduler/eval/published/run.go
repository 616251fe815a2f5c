package published

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/sim"
	"gnnsched/workload/trace/openb"
)

// Settings of the published runs.
const (
	FirstSeed = 42
	Seeds     = 10
	Factor    = 1.3
)

// Config describes a comparison.
type Config struct {
	Dir        string           // folder of the trace's files
	Workloads  []string         // names from Workloads, each alone or with +VARIANT behind it
	Contenders []eval.Contender // the baseline first
	Seeds      []uint64
	Factor     float64 // the arrivals ask for this multiple of the cluster's GPUs; over 0
	InOrder    bool    // nodes in the order of the list; see sim.OpenB

	// Loads are the amounts of arrivals, over the cluster's GPUs, of RunCurve. They ascend to Factor.
	// For RunSteady they are the offered loads, and Factor is not used.
	Loads []float64
	// WarmUp and Days are the times of RunSteady in days: the warm-up, and the time after it. Days is over 0.
	WarmUp, Days float64
}

// Workloads returns the names of the pod lists in a folder, as openb.PodLists does. It returns an error if the folder has no list of nodes.
func Workloads(dir string) ([]string, error) {
	if _, err := os.Stat(filepath.Join(dir, openb.NodesFile)); err != nil {
		return nil, fmt.Errorf("%s holds no %s: %w", dir, openb.NodesFile, err)
	}
	return openb.PodLists(dir)
}

// Run plays every workload with every contender and seed. progress may be nil.
func Run(ctx context.Context, c Config, progress eval.Progress) (Report, error) {
	out := Report{factor: c.Factor}
	err := c.each(ctx, progress, func(r *eval.Comparison, bounds func(factor float64) ([]float64, error)) error {
		b, err := bounds(c.Factor)
		out.comparisons, out.bounds = append(out.comparisons, r), append(out.bounds, b)
		return err
	})
	return out, err
}

// each plays every workload and calls done with its results and with what computes the upper bound of each
// seed's arrivals.
func (c Config) each(
	ctx context.Context, progress eval.Progress, done func(*eval.Comparison, func(float64) ([]float64, error)) error,
) error {
	return c.workloads(func(i int, nodes []openb.Node, pods []openb.Pod) error {
		if c.Factor <= 0 {
			return errors.New("the factor must be over 0; the published runs use 1.3")
		}
		until := fmt.Sprintf("until they have asked for %.0f%% of the GPUs", 100*c.Factor)
		s := scenario(c.Workloads[i], until, sim.OpenB{Nodes: nodes, Pods: pods, Factor: c.Factor, InOrder: c.InOrder, Loads: c.Loads})
		r, err := eval.Compare(ctx, s, c.Contenders, c.Seeds, progress.Part(i, len(c.Workloads), s.Name))
		if err != nil {
			return err
		}
		return done(r, func(factor float64) ([]float64, error) { return boundsOf(nodes, pods, factor, c.Seeds) })
	})
}

// workloads reads the nodes and the pods of each workload and calls play with them.
func (c Config) workloads(play func(i int, nodes []openb.Node, pods []openb.Pod) error) error {
	known, err := Workloads(c.Dir)
	if err != nil {
		return err
	}
	machines, err := openb.LoadNodes(filepath.Join(c.Dir, openb.NodesFile))
	if err != nil {
		return err
	}
	for _, w := range c.Workloads {
		if err := CheckWorkload(w, known); err != nil {
			return fmt.Errorf("%s: %w", c.Dir, err)
		}
	}
	for i, w := range c.Workloads {
		nodes, pods, err := read(c.Dir, w, machines)
		if err != nil {
			return err
		}
		if err := play(i, nodes, pods); err != nil {
			return err
		}
	}
	return nil
}

// boundsOf returns the upper bound of each seed's arrivals.
func boundsOf(nodes []openb.Node, pods []openb.Pod, factor float64, seeds []uint64) (out []float64, err error) {
	for _, seed := range seeds {
		arrivals, err := openb.Inflate(pods, factor, openb.GPUMilli(nodes), seed)
		if err != nil {
			return nil, err
		}
		out = append(out, bound(nodes, arrivals))
	}
	return out, nil
}

// scenario returns the scenario of a workload. what describes its pods.
func scenario(workload, what string, o sim.OpenB) eval.Scenario {
	about := "pods of the openb trace"
	if _, v, _ := split(workload); v != nil {
		about += ", " + v.about + ","
	}
	return eval.Scenario{Name: workload, About: about + " " + what, Config: sim.Config{OpenB: &o}}
}
