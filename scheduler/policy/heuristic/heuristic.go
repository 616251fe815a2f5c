// Package heuristic holds the policies that follow a fixed rule instead of learned weights: a file
// for each family, and the list of all of them in list.go. Add a heuristic by writing it beside its
// like and naming it in that list.
package heuristic

import "gnnsched/scheduler/policy"

// Heuristic describes a policy that needs no checkpoint file: how users call it, how it is made, and the
// traits that simulator, trainer and plugin must know.
type Heuristic struct {
	Name  string                             // in flags, configuration files and tables; also its Policy's Name
	About string                             // a few words for help texts
	New   func(policy.Setting) policy.Policy // makes a policy for one episode or one scheduler profile

	// GPU marks heuristics for clusters with GPUs.
	GPU bool
	// Usage marks heuristics that score by measured usage, and by requests where nothing is measured.
	Usage bool
	// TypicalPods marks heuristics that need Setting.Typical. A scheduler must count the arriving
	// pods for them.
	TypicalPods bool
	// Kinds marks heuristics that need cluster.Snapshot.Demand. A scheduler must count its pods for them.
	Kinds bool
	// Network names the shipped network that the policy runs; empty for none. A scheduler begins with the
	// typical pods of its training.
	Network string
	// RandomTies marks heuristics that choose at random among tied best nodes, as kube-scheduler
	// does. The others take the first of them.
	RandomTies bool
	// NotImitable says why no network can be trained to imitate the heuristic. It is empty if one
	// can.
	NotImitable string
}

// Reasons for Heuristic.NotImitable.
const (
	// hasState is for policies whose choice depends on more than the cluster's state.
	hasState = "it chooses by a state of its own, which a network does not see and --resume does not restore"
	// needsGPUs is for policies for clusters with GPUs.
	needsGPUs = "it scores GPUs only; gnntrain gpu trains networks for GPU clusters, and begins with fgd"
)

// family is a group of heuristics whose names end in a parameter, such as "greedy:balance".
type family struct {
	prefix    string                                    // of the names
	parameter string                                    // the parameter's placeholder in messages
	about     string                                    // a few words for help texts
	make      func(parameter string) (Heuristic, error) // makes the heuristic of a parameter
}

// fixed returns a constructor of a policy without state, which all episodes may share.
func fixed(p policy.Policy) func(policy.Setting) policy.Policy {
	return func(policy.Setting) policy.Policy { return p }
}
