package run

import (
	"fmt"
	"strings"

	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/linear"
)

// TeacherByName returns the policy to imitate: a heuristic by its name, or the linear policy of a
// .json file. A heuristic that cannot be imitated is an error: a network cannot see what it decides by,
// or a resumed run cannot repeat its choices.
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
