package contender

import (
	"gnnsched/internal/exit"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/policy"
)

// running is the prefix of policies that count typical pods by the time for which they run.
const running = "running"

// ofRunning returns the contender running:POLICY. Where lifetimes are not known, it is the policy itself.
func ofRunning(x eval.Contender) (eval.Contender, error) {
	if x.Play != nil || x.PlayAll != nil {
		return x, exit.Usagef("--policies: %s:%s: %s is no policy", running, x.Name, x.Name)
	}
	of := x.New
	x.Name = running + ":" + x.Name
	x.New = func(s policy.Setting) policy.Policy {
		if s.Running != nil {
			s.Typical = s.Running
		}
		return of(s)
	}
	return x, nil
}
