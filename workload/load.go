package workload

import (
	"fmt"

	"gnnsched/internal/cluster"
)

// Load is the requested share of a cluster's allocatable resources, as fractions: 0.2 is 20%.
type Load struct {
	CPU    float64 `json:"cpu"`
	Memory float64 `json:"memory"`
	Pods   float64 `json:"pods"`
}

// LoadOf returns used divided by capacity.
func LoadOf(used, capacity cluster.Resources) Load {
	return Load{
		CPU:    cluster.Fraction(used.MilliCPU, capacity.MilliCPU),
		Memory: cluster.Fraction(used.Memory, capacity.Memory),
		Pods:   cluster.Fraction(used.Pods, capacity.Pods),
	}
}

// reached reports whether any resource of l is at or over the target.
func (l Load) reached(target Load) bool {
	return l.CPU >= target.CPU || l.Memory >= target.Memory || l.Pods >= target.Pods
}

// String formats the load as "cpu 12% mem 8% pods 11%".
func (l Load) String() string {
	return fmt.Sprintf("cpu %.0f%% mem %.0f%% pods %.0f%%", 100*l.CPU, 100*l.Memory, 100*l.Pods)
}
