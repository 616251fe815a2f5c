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

// Reached returns the first flag of runsim whose target, if it is over 0, l has reached; "" if there is none.
func (l Load) Reached(target Load) (flag string) {
	for _, x := range []struct {
		flag   string
		at, of float64
	}{{"cpu-load", l.CPU, target.CPU}, {"mem-load", l.Memory, target.Memory}, {"pod-load", l.Pods, target.Pods}} {
		if x.of > 0 && x.at >= x.of {
			return x.flag
		}
	}
	return ""
}

// String formats the load as "cpu 12% mem 8% pods 11%".
func (l Load) String() string {
	return fmt.Sprintf("cpu %.0f%% mem %.0f%% pods %.0f%%", 100*l.CPU, 100*l.Memory, 100*l.Pods)
}
