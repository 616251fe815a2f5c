package migrun

import (
	"gnnsched/internal/choice"
	"gnnsched/internal/cluster/mig"
	"gnnsched/scheduler/policy/partition"
)

// Mix is a workload: how often pods request each profile.
type Mix struct {
	Name, About string
	Weights     partition.Mix // need not add up to 1
}

// Mixes are the mixes by which MIG schedulers were compared in publications.
//
// The first four have the names and shapes of Zambianco et al., "An Online Fragmentation-Aware GPU Scheduler for Multi-Tenant MIG-based
// Clouds", 2025. Their probabilities are ours. The last has the pods of one GPU or a part of it in the list default of the openb trace,
// each with the smallest profile that has its part of the compute slices, as Siavashi and Momtazpour (2025) turn the GPU shares of
// Alibaba's trace into profiles.
var Mixes = []Mix{
	{"uniform", "all profiles equally often", mixOf([]float64{1, 1, 1, 1, 1, 1})},
	{"skew-small", "mostly small profiles", mixOf([]float64{30, 25, 20, 10, 10, 5})},
	{"skew-big", "mostly large profiles", mixOf([]float64{5, 10, 10, 20, 25, 30})},
	{"bimodal", "small and large profiles", mixOf([]float64{30, 15, 5, 5, 15, 30})},
	{"openb", "the GPU shares of the openb trace", mixOf([]float64{32, 0, 280, 389, 971, 5317})},
}

// mixOf returns the mix with the weights of the profiles, the smallest first.
func mixOf(weights []float64) (m partition.Mix) {
	for i, p := range mig.Profiles() {
		m[p] = weights[i]
	}
	return m
}

// FindMix returns a mix by its name.
func FindMix(name string) (Mix, error) {
	return choice.Find("mix", name, Mixes, func(x Mix) string { return x.Name })
}

// Shares returns the weights, scaled to add up to 1.
func (m Mix) Shares() partition.Mix {
	sum := 0.0
	for _, w := range m.Weights {
		sum += w
	}
	out := m.Weights
	for p := range out {
		out[p] /= sum
	}
	return out
}

// compute returns the mean number of compute slices of a pod.
func (m Mix) compute() (mean float64) {
	for p, share := range m.Shares() {
		mean += share * float64(mig.Profile(p).Compute())
	}
	return mean
}
