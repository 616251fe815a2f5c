package learn

import (
	"fmt"
	"strings"

	"gnnsched/scheduler/policy"
)

// TeacherByName returns the policy that is to be imitated: a heuristic by its name, or the
// linear policy of a file whose name ends in .json. One that draws at random draws from seed.
func TeacherByName(name string, seed uint64) (policy.Policy, error) {
	if strings.HasSuffix(name, ".json") {
		l, err := policy.LoadLinear(name)
		if err != nil {
			return nil, fmt.Errorf("teacher: %w", err)
		}
		return l, nil
	}
	h, err := policy.FindHeuristic(name)
	if err != nil {
		return nil, fmt.Errorf("teacher: %w; or the .json file of a linear policy", err)
	}
	return h.New(seed), nil
}
