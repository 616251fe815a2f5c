package run

import (
	"fmt"
	"slices"
	"strings"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/fragmentation"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/linear"
)

// TeacherByName returns the policy to imitate, for a workload with the given typical pods: a heuristic by its name, the linear policy
// of a .json file, or a pair of shipped networks for mixed clusters, DEVICES+NODES. A heuristic that cannot be imitated is an error: a
// network cannot see what it decides by, or a resumed run cannot repeat its choices.
func TeacherByName(name string, typical *fragmentation.Typical) (policy.Policy, error) {
	if isPair(name) {
		return newPair(name, typical)
	}
	if strings.HasSuffix(name, ".json") {
		l, err := linearByName(name)
		if err != nil {
			return nil, fmt.Errorf("teacher: %w", err)
		}
		return l, nil
	}
	h, err := heuristic.Find(name)
	if err != nil {
		return nil, fmt.Errorf("teacher: %w; the .json file of a linear policy, or two shipped networks such as gpu-gnn+acdqn", err)
	}
	if h.NotImitable != "" {
		return nil, fmt.Errorf("teacher: %s cannot be imitated: %s; choose another with --teacher", name, h.NotImitable)
	}
	return h.New(policy.Setting{Typical: typical}), nil
}

// linearByName returns the linear policy of a .json file, or one that the program carries.
func linearByName(name string) (*linear.Policy, error) {
	if strings.HasSuffix(name, ".json") {
		return linear.Load(name)
	}
	if !slices.Contains(linear.TunedNames(), name) {
		return nil, fmt.Errorf("no linear policy is called %q; there are %s, and .json files", name, strings.Join(linear.TunedNames(), ", "))
	}
	return linear.Tuned(name), nil
}

// FollowRule makes the network of a run start as its residual, if it has one.
func (s Settings) FollowRule(c *checkpoint.Checkpoint) error {
	if s.Residual == "" {
		return nil
	}
	l, err := linearByName(s.Residual)
	if err == nil {
		err = c.FollowRule(l.ByName())
	}
	if err != nil {
		return fmt.Errorf("residual: %w", err)
	}
	return nil
}
