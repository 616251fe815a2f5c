package heuristic

import (
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/partition"
)

// partitionFamily places MIG partitions. Pods that request none are placed as by gpu-best-fit.
var partitionFamily = family{"mig:", "RULE", "for MIG partitions: the node, the GPU and the start by a rule",
	func(name string) (Heuristic, error) {
		build, mix, err := partition.Find(name)
		if err != nil {
			return Heuristic{}, err
		}
		name = "mig:" + name
		return Heuristic{
			Name:  name,
			About: "for MIG partitions: the node, the GPU and the start by a rule",
			New: func(s policy.Setting) policy.Policy {
				return build(name, partition.MixOf(s.Typical), gpuBestFit.New(s))
			},
			GPU: true, TypicalPods: mix, NotImitable: needsGPUs,
		}, nil
	}}
