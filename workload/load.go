package workload

import (
	"fmt"

	"gnnsched/internal/cluster"
)

// Load is how much of a cluster is asked for: fractions of what its nodes offer, so 0.2 is
// 20%.
type Load struct {
	CPU    float64 `json:"cpu"`
	Memory float64 `json:"memory"`
	Pods   float64 `json:"pods"`
}

// LoadOf is used as fractions of capacity.
func LoadOf(used, capacity cluster.Resources) Load {
	return Load{
		CPU:    cluster.Fraction(used.MilliCPU, capacity.MilliCPU),
		Memory: cluster.Fraction(used.Memory, capacity.Memory),
		Pods:   cluster.Fraction(used.Pods, capacity.Pods),
	}
}

// Reached tells whether l is at or over the target in any resource.
func (l Load) Reached(target Load) bool {
	return l.CPU >= target.CPU || l.Memory >= target.Memory || l.Pods >= target.Pods
}

// String is the load for a person: "cpu 12% mem 8% pods 11%".
func (l Load) String() string {
	return fmt.Sprintf("cpu %.0f%% mem %.0f%% pods %.0f%%", 100*l.CPU, 100*l.Memory, 100*l.Pods)
}
