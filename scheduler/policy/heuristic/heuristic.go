package heuristic

import "gnnsched/scheduler/policy"

// Heuristic describes a policy that needs no network: how users call it, how it is made, and the
// traits that simulator, trainer and plugin must know.
type Heuristic struct {
	Name  string                             // in flags, configuration files and tables; also its Policy's Name
	About string                             // a few words for help texts
	New   func(policy.Setting) policy.Policy // makes a policy for one episode or one scheduler profile

	// GPU marks heuristics for clusters with GPUs.
	GPU bool
	// TypicalPods marks heuristics that need Setting.Typical, so the pods that arrive must be
	// counted.
	TypicalPods bool
	// RandomTies marks heuristics whose tied best nodes are drawn among, as kube-scheduler does.
	// Without it the first of them is taken.
	RandomTies bool
	// NotImitable says why no network can be trained to imitate the heuristic. It is empty if one
	// can.
	NotImitable string
}

// Reasons for Heuristic.NotImitable.
const (
	// hasState is of policies whose choice depends on more than the cluster's state.
	hasState = "it chooses by a state of its own, which a network does not see and --resume does not restore"
	// needsGPUs is of policies for clusters with GPUs.
	needsGPUs = "it goes by GPUs, which networks with a teacher do not see; networks for GPU clusters are trained with gnntrain gpu, and begin with fgd"
)

// family is a kind of heuristics whose names end in a parameter, such as "greedy:balance".
type family struct {
	prefix    string                                    // of the names
	parameter string                                    // its placeholder in messages
	make      func(parameter string) (Heuristic, error) // makes the heuristic of a parameter
}

// fixed returns a constructor of a policy without state, which all episodes may share.
func fixed(p policy.Policy) func(policy.Setting) policy.Policy {
	return func(policy.Setting) policy.Policy { return p }
}
