// Package mig knows the geometry of NVIDIA's MIG: the profiles of partitions, and where on a GPU each may lie.
//
// A GPU has eight memory slices and seven compute slices. A partition takes adjacent memory slices from one of the starts of its profile,
// and compute slices, of which there are always enough: at the starts that are allowed, partitions that do not overlap take seven compute
// slices at most. So the set of used memory slices determines which profiles still fit.
package mig

import (
	"fmt"
	"iter"
	"math/bits"
)

// The slices of a GPU.
const (
	Compute = 7
	Memory  = 8
)

// CounterPrefix begins the names of a device's counters for its memory slices in a ResourceSlice, before the slice's number. Each has the
// value 1.
const CounterPrefix = "memory-slice-"

// Slices is a set of memory slices of one GPU: bit i stands for slice i.
type Slices uint8

// All are the memory slices of a GPU.
const All Slices = 1<<Memory - 1

// Len returns the number of slices in the set.
func (s Slices) Len() int { return bits.OnesCount8(uint8(s)) }

// Profile is a size of partitions. The zero value is none.
type Profile uint8

// The profiles, named by their compute slices. OneWide has twice the memory of One.
const (
	None Profile = iota
	One
	OneWide
	Two
	Three
	Four
	Seven
	// Count is the number of values of Profile, None among them.
	Count = iota
)

// shapes are the sizes of the profiles, and the memory slices at which they may start, as NVIDIA's MIG user guide has them for A100, H100
// and H200.
var shapes = [Count]struct {
	compute, memory int
	starts          []int
}{
	One:     {1, 1, []int{0, 1, 2, 3, 4, 5, 6}},
	OneWide: {1, 2, []int{0, 2, 4, 6}},
	Two:     {2, 2, []int{0, 2, 4}},
	Three:   {3, 4, []int{0, 4}},
	Four:    {4, 4, []int{0}},
	Seven:   {7, 8, []int{0}},
}

// Profiles returns all profiles, the smallest first.
func Profiles() []Profile { return []Profile{One, OneWide, Two, Three, Four, Seven} }

// Compute returns the number of compute slices of a partition.
func (p Profile) Compute() int { return shapes[p].compute }

// Memory returns the number of memory slices of a partition.
func (p Profile) Memory() int { return shapes[p].memory }

// Starts returns the memory slices at which a partition may start, in ascending order. The caller must not change them.
func (p Profile) Starts() []int { return shapes[p].starts }

// counters is the number of counters that a ResourceSlice has for a GPU: one for the compute slices, and one for each memory slice.
const counters = 1 + Memory

// Used returns the share of a GPU that some compute and memory slices take, in thousandths, rounded up. It is the mean over the counters.
func Used(compute, memory int) int64 {
	sum := (1000*compute+Compute-1)/Compute + 1000*memory
	return int64((sum + counters - 1) / counters)
}

// Milli returns the share of a GPU that a partition takes, in thousandths, rounded down: a partition that fits beside others then also fits
// by thousandths. It differs for each profile.
func (p Profile) Milli() int64 {
	return int64((1000*p.Compute()/Compute + 1000*p.Memory()) / counters)
}

// OfMilli returns the profile with the given Milli, and None if there is none.
func OfMilli(milli int64) Profile {
	for _, p := range Profiles() {
		if p.Milli() == milli {
			return p
		}
	}
	return None
}

// Name returns the profile's name on a GPU with the given GB, such as 3g.20gb.
func (p Profile) Name(gigabytes int) string {
	return fmt.Sprintf("%dg.%dgb", p.Compute(), gigabytes*p.Memory()/Memory)
}

// On returns the memory slices of a partition at a start.
func (p Profile) On(start int) Slices { return (1<<p.Memory() - 1) << start }

// Free yields the starts at which a partition overlaps none of the used slices, in ascending order.
func (p Profile) Free(used Slices) iter.Seq[int] {
	return func(yield func(int) bool) {
		for _, s := range p.Starts() {
			if used&p.On(s) == 0 && !yield(s) {
				return
			}
		}
	}
}

// Fits reports whether a partition fits beside the used slices.
func (p Profile) Fits(used Slices) bool {
	for range p.Free(used) {
		return true
	}
	return false
}

// Find returns the profile of a partition that takes the given memory slices and number of compute slices; None if there is no such
// profile, or if the slices begin at none of its starts.
func Find(on Slices, compute int) Profile {
	for _, p := range Profiles() {
		for _, s := range p.Starts() {
			if p.On(s) == on && p.Compute() == compute {
				return p
			}
		}
	}
	return None
}

// Placements returns the number of free placements of all profiles beside the used slices. Siavashi and Momtazpour call it the
// configuration capability of a GPU ("A Multi-Objective Framework for Optimizing GPU-Enabled VM Placement in Cloud Data Centers with
// Multi-Instance GPU Technology", 2025).
func Placements(used Slices) (n int) {
	for _, p := range Profiles() {
		for range p.Free(used) {
			n++
		}
	}
	return n
}

// BestStart returns the start that leaves most placements free, the first of equal ones; -1 if the partition does not fit.
func (p Profile) BestStart(used Slices) int {
	best, most := -1, -1
	for s := range p.Free(used) {
		if n := Placements(used | p.On(s)); n > most {
			best, most = s, n
		}
	}
	return best
}

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
			return float64((p.More(0) - p.More(s)) * p.Compute())
		}},
	{"scarce", "1 divided by one more than the pods of the profile that fit", func(s Slices, p Profile) float64 {
		return 1 / float64(1+p.More(s))
	}},
	{"starts", "part of the profile's starts that are not free", func(s Slices, p Profile) float64 {
		free := 0
		for range p.Free(s) {
			free++
		}
		return 1 - float64(free)/float64(len(p.Starts()))
	}},
	{"computing", "used memory slices that have a compute slice of their own, which the last one has not", func(s Slices, _ Profile) float64 {
		return float64((s & (1<<Compute - 1)).Len())
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

// More returns the number of partitions of the profile that fit beside the used slices at the same time.
func (p Profile) More(used Slices) int {
	return (Memory - used.Len() - Wasted(used, p)) / p.Memory()
}
