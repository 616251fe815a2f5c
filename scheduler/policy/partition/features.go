package partition

import "gnnsched/internal/cluster/mig"

// feature is a number that a learned cost of a GPU's state is a weighted sum of.
type feature struct {
	Name, About string
	// of returns the feature for the pods of a profile. The cost under a mix is the mean over its pods.
	of func(used mig.Slices, p mig.Profile) float64
}

// Features are the features of learned costs. With a weight on the first alone, the policy is FGD.
var Features = []feature{
	{"wasted", "free memory slices that pods of the profile cannot use", wasted},
	{"unserved", "compute slices of a pod, if none fits", func(s mig.Slices, p mig.Profile) float64 {
		if p.Fits(s) {
			return 0
		}
		return float64(p.Compute())
	}},
	{"lost", "compute slices that pods of the profile could have on the idle GPU, and cannot have any more", func(s mig.Slices, p mig.Profile) float64 {
		return float64((room(0, p) - room(s, p)) * p.Compute())
	}},
	{"scarce", "1 divided by one more than the pods of the profile that fit", func(s mig.Slices, p mig.Profile) float64 {
		return 1 / float64(1+room(s, p))
	}},
	{"starts", "part of the profile's starts that are not free", func(s mig.Slices, p mig.Profile) float64 {
		free := 0
		for range p.Free(s) {
			free++
		}
		return 1 - float64(free)/float64(len(p.Starts()))
	}},
	{"computing", "used memory slices that have a compute slice of their own, which the last one has not", func(s mig.Slices, _ mig.Profile) float64 {
		return float64((s & (1<<mig.Compute - 1)).Len())
	}},
	{"used", "1 unless the GPU is idle", func(s mig.Slices, _ mig.Profile) float64 { return float64(min(s.Len(), 1)) }},
	{"halves", "halves of the GPU that are in use", func(s mig.Slices, _ mig.Profile) float64 {
		const half = mig.Memory / 2
		return float64(min((s>>half).Len(), 1) + min((s&(1<<half-1)).Len(), 1))
	}},
}

// room returns how many partitions of a profile fit at the same time.
func room(used mig.Slices, p mig.Profile) int {
	return (mig.Memory - used.Len() - int(wasted(used, p))) / p.Memory()
}

// Weighted returns the values that are a weighted sum of the Features.
func Weighted(weights []float64) *Values {
	var v Values
	for _, p := range mig.Profiles() {
		for s := range states {
			for k, f := range Features {
				v[p][s] += weights[k] * f.of(mig.Slices(s), p)
			}
		}
	}
	return &v
}
