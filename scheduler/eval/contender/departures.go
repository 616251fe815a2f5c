package contender

import (
	"slices"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/choice"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/neural"
)

// The prefixes of policies for clusters that pods leave.
const (
	running = "running" // counts typical pods by the time for which they run
	leaving = "leaving" // and has a reserve that keeps twice as much
	byLoad  = "by-load" // leaving below an offered load of all GPUs, else running
)

// departures makes the contender PREFIX:POLICY of a policy.
var departures = map[string]func(eval.Contender) (eval.Contender, error){running: ofRunning, leaving: ofLeaving, byLoad: ofLoad}

// departing returns the contender PREFIX:NAME of a heuristic or a shipped network.
func departing(prefix, name string) (eval.Contender, error) {
	if shipped := checkpoint.ShippedFor(checkpoint.GPUGraph); prefix != running && !slices.Contains(shipped, name) {
		return eval.Contender{}, exit.Usagef("--policies: %s:%s: %w", prefix, name, choice.Unknown("network for GPU clusters", name, shipped))
	}
	x, err := Named(name)
	if err != nil {
		return x, err
	}
	return departures[prefix](x)
}

// ofRunning returns the contender running:POLICY. Where lifetimes are not known, it is the policy itself.
func ofRunning(x eval.Contender) (eval.Contender, error) {
	if x.Play != nil {
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

// ofLeaving returns the contender leaving:NETWORK: running:NETWORK with a reserve that keeps twice as much.
func ofLeaving(x eval.Contender) (eval.Contender, error) {
	return keepingLonger(leaving, x, func(policy.Setting) bool { return true })
}

// ofLoad returns the contender by-load:NETWORK: running:NETWORK where pods request at least as many GPUs on average as there are, and
// leaving:NETWORK elsewhere. In an overload some pod waits for every device, so a larger reserve for rare pods only moves the waiting to
// others.
func ofLoad(x eval.Contender) (eval.Contender, error) {
	return keepingLonger(byLoad, x, func(s policy.Setting) bool { return s.Load < 1 })
}

// keepingLonger returns the contender PREFIX:NETWORK: running:NETWORK with a reserve that keeps twice as much in some settings. A policy
// without a reserve is an error.
func keepingLonger(prefix string, x eval.Contender, longer func(policy.Setting) bool) (eval.Contender, error) {
	name := x.Name
	x, err := ofRunning(x)
	if err != nil {
		return x, err
	}
	of := x.New
	x.Name = prefix + ":" + name
	if _, ok := of(policy.Setting{}).(*neural.GPUPolicy); !ok {
		return x, exit.Usagef("--policies: %s: this policy has no reserve", x.Name)
	}
	x.New = func(s policy.Setting) policy.Policy {
		p := of(s).(*neural.GPUPolicy)
		if longer(s) {
			p.KeepLonger()
		}
		return p
	}
	return x, nil
}
