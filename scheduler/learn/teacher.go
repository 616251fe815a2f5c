package learn

import (
	"fmt"
	"strings"

	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/linear"
)

// TeacherByName returns the policy that is to be imitated: a heuristic by its name, or the
// linear policy of a file whose name ends in .json. One whose choice follows from more than the
// state of the cluster is refused: a resumed run would not go on where it was.
func TeacherByName(name string) (policy.Policy, error) {
	if strings.HasSuffix(name, ".json") {
		l, err := linear.Load(name)
		if err != nil {
			return nil, fmt.Errorf("teacher: %w", err)
		}
		return l, nil
	}
	h, err := heuristic.Find(name)
	if err != nil {
		return nil, fmt.Errorf("teacher: %w; or the .json file of a linear policy", err)
	}
	if h.NotImitable != "" {
		return nil, fmt.Errorf("teacher: %s cannot be imitated: %s; choose another with --teacher", name, h.NotImitable)
	}
	return h.New(policy.Setting{}), nil
}
