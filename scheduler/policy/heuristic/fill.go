package heuristic

import (
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/fill"
	"gnnsched/scheduler/policy/linear"
)

var gpuFill = Heuristic{
	Name:  "gpu-fill",
	About: "where the fewest GPUs will stay idle once typical pods have filled the nodes; pods without GPUs on other nodes, as linear",
	New: func(s policy.Setting) policy.Policy {
		return fill.New("gpu-fill", s.Typical, linear.Tuned("linear"))
	},
	GPU: true, TypicalPods: true, NotImitable: needsGPUs,
}
