package fragmentation

import "gnnsched/internal/cluster/mig"

// Partitions returns each profile's share of the workload's requests for MIG partitions, by the index of the profile. A pod's profile
// follows from its requested thousandths of a GPU. The shares add up to 1. All profiles have equal shares if no pod requests a partition,
// or t is nil.
func (t *Typical) Partitions() (shares [mig.Count]float64) {
	sum := 0.0
	for _, s := range t.Shapes() {
		if p := mig.OfMilli(s.Milli); p != mig.None && s.Devices == 1 {
			shares[p] += s.Frequency
			sum += s.Frequency
		}
	}
	for _, p := range mig.Profiles() {
		if sum == 0 {
			shares[p] = 1 / float64(len(mig.Profiles()))
		} else {
			shares[p] /= sum
		}
	}
	return shares
}
