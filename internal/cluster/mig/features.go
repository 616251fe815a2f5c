package mig

// feature is a number that describes the value of a GPU's state to the pods of one profile. Under a mix of profiles it is the mean over the
// pods.
type feature struct {
	Name, About string
	Of          func(used Slices, p Profile) float64
}

// Features are the features of a GPU's state. A learned cost (package policy/partition) is a weighted sum of them; with a weight on the
// first alone it is FGD's fragmentation.
var Features = []feature{
	{"wasted", "free memory slices that pods of the profile cannot use", func(s Slices, p Profile) float64 { return float64(Wasted(s, p)) }},
	{"unserved", "compute slices of a pod, if none fits", func(s Slices, p Profile) float64 {
		if p.Fits(s) {
			return 0
		}
		return float64(p.Compute())
	}},
	{"lost", "compute slices that pods of the profile could have on the idle GPU, and cannot have any more",
		func(s Slices, p Profile) float64 {
			return float64((p.Room(0) - p.Room(s)) * p.Compute())
		}},
	{"scarce", "1 divided by one more than the pods of the profile that fit", func(s Slices, p Profile) float64 {
		return 1 / float64(1+p.Room(s))
	}},
	{"starts", "part of the profile's starts that are not free", func(s Slices, p Profile) float64 {
		free := 0
		for range p.Free(s) {
			free++
		}
		return 1 - float64(free)/float64(len(p.Starts()))
	}},
	{"computing", "used memory slices that have a compute slice of their own, which the last one has not", func(s Slices, _ Profile) float64 {
		return float64(s.computing())
	}},
	{"used", "1 unless the GPU is idle", func(s Slices, _ Profile) float64 { return float64(min(s.Len(), 1)) }},
	{"halves", "halves of the GPU that are in use", func(s Slices, _ Profile) float64 {
		const half = Memory / 2
		return float64(min((s>>half).Len(), 1) + min((s&(1<<half-1)).Len(), 1))
	}},
}

// Wasted returns the number of free memory slices that partitions of a profile cannot use.
func Wasted(used Slices, p Profile) int {
	free := Memory - used.Len()
	for s := range p.Free(used) { // starts are as far apart as partitions are wide, or further, so the lowest one never blocks two
		if used&p.On(s) == 0 {
			used |= p.On(s)
			free -= p.Memory()
		}
	}
	return free
}

// Room returns the number of partitions of the profile that fit beside the used slices at the same time.
func (p Profile) Room(used Slices) int {
	return (Memory - used.Len() - Wasted(used, p)) / p.Memory()
}

// computing returns the number of slices with a compute slice of their own: all but the last.
func (s Slices) computing() int { return (s & (1<<Compute - 1)).Len() }
