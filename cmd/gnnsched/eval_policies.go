package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/learn/tabular"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/linear"
	"gnnsched/scheduler/policy/neural"
)

// policyNames are the policies for any cluster, the default baseline first.
func policyNames() []string {
	return append(heuristic.Names(), checkpoint.ShippedFor(checkpoint.ClusterGraph)...)
}

// gpuPolicyNames are those for clusters with GPUs.
func gpuPolicyNames() []string {
	return append(heuristic.GPUNames(), checkpoint.ShippedFor(checkpoint.GPUGraph)...)
}

// chosenPolicies are the policies of the given names, and those of the checkpoint files.
func chosenPolicies(names, files []string) ([]eval.Contender, error) {
	if len(names) == 0 {
		names = policyNames()
	}
	var out []eval.Contender
	for _, n := range names {
		x, err := namedPolicy(n)
		if err != nil {
			return nil, err
		}
		out = append(out, x)
	}
	for _, f := range files {
		name, path := checkpointArgument(f)
		x, err := policyFrom(name, path)
		if err != nil {
			return nil, err
		}
		out = append(out, x)
	}
	seen := map[string]bool{eval.Optimum: true} // of the scenarios, not ours to give
	for _, x := range out {
		if seen[x.Name] {
			return nil, exit.New(exit.Usage, fmt.Errorf("two policies are called %q", x.Name), "give the checkpoint a name: --checkpoint NAME=FILE")
		}
		seen[x.Name] = true
	}
	return out, nil
}

// policyFrom reads a network, or in a file that ends in .json a table or linear weights.
func policyFrom(name, path string) (eval.Contender, error) {
	if filepath.Ext(path) == ".json" {
		return simplePolicy(name, path)
	}
	if err := checkCheckpoint(path); err != nil {
		return eval.Contender{}, err
	}
	ckpt, err := checkpoint.Load(path)
	if err != nil {
		return eval.Contender{}, exit.New(exit.Checkpoint, err, "")
	}
	return learned(name, ckpt)
}

// simplePolicy is a tabular agent or a linear policy. Neither keeps anything between episodes.
func simplePolicy(name, path string) (eval.Contender, error) {
	table, notTable := tabular.Load(path)
	if notTable == nil {
		return eval.Contender{Name: name, New: func(policy.Setting) policy.Policy { return table }, RandomTies: true}, nil
	}
	weighted, notLinear := linear.Load(path)
	if notLinear == nil {
		return eval.Contender{Name: name, New: func(policy.Setting) policy.Policy { return weighted }}, nil
	}
	return eval.Contender{}, exit.New(exit.Checkpoint, fmt.Errorf("it is neither a table nor linear weights: %w", errors.Join(notTable, notLinear)), "")
}

// checkpointArgument reads NAME=FILE, or FILE, which is then called after its base name.
func checkpointArgument(text string) (name, path string) {
	if name, path, given := strings.Cut(text, "="); given {
		return name, path
	}
	return strings.TrimSuffix(filepath.Base(text), filepath.Ext(text)), text
}

func namedPolicy(name string) (eval.Contender, error) {
	h, err := heuristic.Find(name)
	switch {
	case err == nil:
		return eval.Contender{Name: h.Name, New: h.New, RandomTies: h.RandomTies}, nil
	case strings.Contains(name, ":"): // an objective or a file stands behind it
		return eval.Contender{}, exit.New(exit.Usage, fmt.Errorf("--policies: %w", err), "")
	}
	if !slices.Contains(checkpoint.ShippedNames(), name) {
		return eval.Contender{}, exit.New(exit.Usage, fmt.Errorf("--policies: no policy is called %q; there are %s", name, strings.Join(append(policyNames(), gpuPolicyNames()...), ", ")),
			"a network of your own comes with --checkpoint")
	}
	c, err := checkpoint.Shipped(name)
	if err != nil {
		return eval.Contender{}, exit.New(exit.Checkpoint, err, "train one with gnntrain and give it with --checkpoint")
	}
	return learned(name, c)
}

func learned(name string, c *checkpoint.Checkpoint) (eval.Contender, error) {
	if c.Manifest.Architecture.Graph == checkpoint.GPUGraph {
		net, err := infer.NewGPU(c)
		if err != nil {
			return eval.Contender{}, exit.New(exit.Checkpoint, err, "")
		}
		return eval.Contender{Name: name, New: func(s policy.Setting) policy.Policy { return neural.NewGPU(name, net, s.Typical) }}, nil
	}
	net, err := infer.New(c)
	if err != nil {
		return eval.Contender{}, exit.New(exit.Checkpoint, err, "")
	}
	return eval.Contender{Name: name, New: func(policy.Setting) policy.Policy { return neural.New(name, net) }}, nil
}
