package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/policy"
)

// policyNames are what --policies takes, the default baseline first.
func policyNames() []string {
	return append(policy.HeuristicNames(), checkpoint.ShippedNames()...)
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
		if err := checkCheckpoint(path); err != nil {
			return nil, err
		}
		ckpt, err := checkpoint.Load(path)
		if err != nil {
			return nil, exit.New(exit.Checkpoint, err, "")
		}
		x, err := learned(name, ckpt)
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

// checkpointArgument reads NAME=FILE, or FILE, which is then called after its base name.
func checkpointArgument(text string) (name, path string) {
	if name, path, given := strings.Cut(text, "="); given {
		return name, path
	}
	return strings.TrimSuffix(filepath.Base(text), filepath.Ext(text)), text
}

func namedPolicy(name string) (eval.Contender, error) {
	if h, err := policy.FindHeuristic(name); err == nil {
		return eval.Contender{Name: h.Name, New: h.New, RandomTies: h.RandomTies}, nil
	}
	if !slices.Contains(checkpoint.ShippedNames(), name) {
		return eval.Contender{}, exit.New(exit.Usage, fmt.Errorf("--policies: no policy is called %q; there are %s", name, strings.Join(policyNames(), ", ")),
			"a network of your own comes with --checkpoint")
	}
	c, err := checkpoint.Shipped(name)
	if err != nil {
		return eval.Contender{}, exit.New(exit.Checkpoint, err, "train one with gnntrain and give it with --checkpoint")
	}
	return learned(name, c)
}

func learned(name string, c *checkpoint.Checkpoint) (eval.Contender, error) {
	net, err := infer.New(c)
	if err != nil {
		return eval.Contender{}, exit.New(exit.Checkpoint, err, "")
	}
	return eval.Contender{Name: name, New: func(uint64) policy.Policy { return policy.NewLearned(name, net) }}, nil
}
