package sim

import (
	"math"
	"math/rand/v2"
)

// Arrivals is how pods come once the cluster carries its load. Its unit of time is the mean
// time between two pods, so that the rate is one pod a unit for every process.
type Arrivals struct {
	Process Process `json:"process"` // steady where empty
	// Size is how many pods a burst has at least, as a fraction of the pods of the fill;
	// 0 stands for 0.1. Bursts only.
	Size float64 `json:"size,omitempty"`
	// Period is how long a day is, measured by the time in which as many pods arrive as the
	// fill had; 0 stands for 1. Amplitude is how far the rate goes up and down, as a fraction
	// of its mean; 0 stands for 0.5. Diurnal only.
	Period    float64 `json:"period,omitempty"`
	Amplitude float64 `json:"amplitude,omitempty"`
}

// Process is a kind of arrivals.
type Process string

// The processes.
const (
	Steady  Process = "steady"  // one pod after the other, a unit of time apart
	Poisson Process = "poisson" // deployments at random, their pods at once
	Bursts  Process = "bursts"  // several deployments at once, the bursts at random
	Diurnal Process = "diurnal" // like poisson, with a rate that goes up and down as a sine
	AtOnce  Process = "at-once" // all the pods of a further fill at once
)

func (a Arrivals) validate(bad func(string, ...any)) {
	switch a.Process {
	case "", Steady, Poisson, Bursts, Diurnal, AtOnce:
	default:
		bad("arrivals.process: %q is not %s, %s, %s, %s or %s", a.Process, Steady, Poisson, Bursts, Diurnal, AtOnce)
	}
	if a.Process != Bursts && a.Size != 0 {
		bad("arrivals.size: is for the process %s only", Bursts)
	}
	if a.Process != Diurnal && (a.Period != 0 || a.Amplitude != 0) {
		bad("arrivals: period and amplitude are for the process %s only", Diurnal)
	}
	if !(a.Size >= 0 && a.Size <= 1) {
		bad("arrivals.size: %v is no fraction from 0 to 1", a.Size)
	}
	if !(a.Period >= 0) || math.IsInf(a.Period, 0) {
		bad("arrivals.period: %v must be a finite number, 0 or more", a.Period)
	}
	if !(a.Amplitude >= 0 && a.Amplitude <= 1) {
		bad("arrivals.amplitude: %v is no fraction from 0 to 1", a.Amplitude)
	}
}

func (a Arrivals) steady() bool { return a.Process == "" || a.Process == Steady }

// times are when deployments of so many pods arrive, in order, from time 0 on. fills are the
// rows at which a further fill begins; fill is how many pods the first one had.
func (a Arrivals) times(rng *rand.Rand, replicas []int, fills []int, fill int) []float64 {
	group, groups, pods := a.groups(replicas, fills, fill)
	mean := float64(pods) / float64(max(groups, 1))
	out := make([]float64, len(replicas))
	var t float64
	for i := range replicas {
		if i == 0 || group[i] != group[i-1] {
			if a.Process == AtOnce {
				t += mean
			} else {
				t += rng.ExpFloat64() * mean
			}
		}
		out[i] = a.warp(t, fill)
	}
	return out
}

// groups says which deployments come together: the group of each, ascending.
func (a Arrivals) groups(replicas []int, fills []int, fill int) (group []int, groups, pods int) {
	group = make([]int, len(replicas))
	inGroup := 0
	least := orElse(a.Size, 0.1) * float64(fill)
	for i, n := range replicas {
		next := true // poisson and diurnal
		switch a.Process {
		case Bursts:
			next = float64(inGroup) >= least
		case AtOnce:
			next = len(fills) > 0 && fills[0] == i
		}
		if next && i > 0 {
			groups++
			inGroup = 0
		}
		for len(fills) > 0 && fills[0] <= i {
			fills = fills[1:]
		}
		group[i] = groups
		inGroup += n
		pods += n
	}
	return group, groups + 1, pods
}

// warp turns the time of a process of even rate into that of a diurnal one: the t' at which
// ∫₀ᵗ' 1 + A·sin(2πs/P) ds = t (inversion; Çinlar 1975, Introduction to Stochastic Processes).
func (a Arrivals) warp(t float64, fill int) float64 {
	if a.Process != Diurnal {
		return t
	}
	period, amplitude := orElse(a.Period, 1)*float64(fill), orElse(a.Amplitude, 0.5)
	swing := amplitude * period / (2 * math.Pi)
	low, high := t-2*swing, t // the integral is s + swing·(1 - cos) ≥ s
	for range 60 {
		mid := (low + high) / 2
		if mid+swing*(1-math.Cos(2*math.Pi*mid/period)) < t {
			low = mid
		} else {
			high = mid
		}
	}
	return high
}

// orElse is x, or what 0 stands for.
func orElse(x, otherwise float64) float64 {
	if x == 0 {
		return otherwise
	}
	return x
}
