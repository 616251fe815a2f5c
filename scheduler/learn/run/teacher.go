package run

import (
	"fmt"
	"strings"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/internal/fragmentation"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/linear"
	"gnnsched/scheduler/policy/neural"
)

// TeacherByName returns the policy to imitate, for a workload with the given typical pods: a heuristic by its name, the linear policy
// of a .json file, or the network of a .safetensors file. A heuristic that cannot be imitated is an error: a network cannot see what it
// decides by, or a resumed run cannot repeat its choices.
func TeacherByName(name string, typical *fragmentation.Typical) (policy.Policy, error) {
	if IsNetwork(name) || strings.HasSuffix(name, ".json") {
		p, err := byFile(name)
		if err != nil {
			return nil, fmt.Errorf("teacher: %w", err)
		}
		return p, nil
	}
	h, err := heuristic.Find(name)
	if err != nil {
		return nil, fmt.Errorf("teacher: %w; the .json file of a linear policy, or the .safetensors file of a network", err)
	}
	if h.NotImitable != "" {
		return nil, fmt.Errorf("teacher: %s cannot be imitated: %s; choose another with --teacher", name, h.NotImitable)
	}
	return h.New(policy.Setting{Typical: typical}), nil
}

// IsNetwork reports whether the name of a teacher is that of a network's file.
func IsNetwork(name string) bool { return strings.HasSuffix(name, ".safetensors") }

// byFile returns the network or the linear policy in a file.
func byFile(name string) (policy.Policy, error) {
	if IsNetwork(name) {
		return networkByName(name)
	}
	return linear.Load(name)
}

// networkByName returns the network in a file, as a policy.
func networkByName(file string) (policy.Policy, error) {
	c, err := checkpoint.Load(file)
	if err != nil {
		return nil, err
	}
	net, err := infer.New(c, checkpoint.ClusterGraph)
	if err != nil {
		return nil, err
	}
	return neural.New(file, net, nil), nil
}
