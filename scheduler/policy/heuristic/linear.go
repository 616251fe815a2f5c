package heuristic

import (
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/linear"
)

// The linear policies whose weights the program carries.
var (
	linearBalance = tuned("linear", "balance")
	linearEnergy  = byUsage(tuned("linear-energy", "little energy and little throttled work, by measured usage"))
	linearPack    = tuned("linear-pack", "packing")
	linearUsage   = byUsage(tuned("linear-usage", "evenly used nodes, by measured usage"))
	linearZones   = tuned("linear-zones", "packing with even zones")
)

// tuned returns the linear policy of a name, whose weights were tuned for a purpose.
func tuned(name, purpose string) Heuristic {
	about := "a weighted sum of hand-made features, tuned by the cross-entropy method for " + purpose
	if linear.Tuned(name).Tuning == nil {
		about += " (the command was not recorded)"
	}
	return Heuristic{
		Name: name, About: about,
		New: func(policy.Setting) policy.Policy { return linear.Tuned(name) },
	}
}

// byUsage marks a policy as one that looks at measured usage.
func byUsage(h Heuristic) Heuristic {
	h.Usage = true
	return h
}

// linearFamily is the linear policies with the weights in a file, such as "linear:mine.json".
var linearFamily = family{prefix: linearPrefix, parameter: "FILE",
	about: "a weighted sum of features, with weights from a file of gnnsched tune", make: linearFrom}

const linearPrefix = "linear:"

func linearFrom(file string) (Heuristic, error) {
	loaded, err := linear.Load(file)
	if err != nil {
		return Heuristic{}, err
	}
	p, err := linear.New(FromWeights(file), loaded.Weights())
	if err != nil {
		return Heuristic{}, err
	}
	return Heuristic{Name: p.Name(), About: "a weighted sum of hand-made features, with the weights of a file", New: fixed(p)}, nil
}

// FromWeights returns the name for Find of the linear policy with the weights in a file.
func FromWeights(file string) string { return linearPrefix + file }
