package learn

import (
	"fmt"
	"slices"
	"strings"

	"gnnsched/scheduler/policy"
)

// TeacherByName returns the policy that is to be imitated: a heuristic by its name, or the
// linear policy of a file whose name ends in .json. One whose choice follows from more than the
// state of the cluster is refused: a resumed run would not go on where it was.
func TeacherByName(name string) (policy.Policy, error) {
	if strings.HasSuffix(name, ".json") {
		l, err := policy.LoadLinear(name)
		if err != nil {
			return nil, fmt.Errorf("teacher: %w", err)
		}
		return l, nil
	}
	if slices.Contains(policy.GPUHeuristicNames(), name) {
		return nil, fmt.Errorf("teacher: %s goes by what a GPU cluster's pods usually ask for, which these networks do not see; networks for GPU clusters are trained with gnntrain gpu, and begin with fgd", name)
	}
	h, err := policy.FindHeuristic(name)
	if err != nil {
		return nil, fmt.Errorf("teacher: %w; or the .json file of a linear policy", err)
	}
	p := h.New(policy.Setting{})
	switch p.(type) {
	case *policy.Random, *policy.RoundRobin:
		return nil, fmt.Errorf("teacher: %s cannot be imitated: it chooses by a state of its own, which a network does not see and --resume does not restore; choose another with --teacher", name)
	}
	return p, nil
}
