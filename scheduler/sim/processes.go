package sim

import (
	"math"
	"math/rand/v2"
)

// Names of processes.
const (
	poisson = "poisson"
	bursts  = "bursts"
	diurnal = "diurnal"
	atOnce  = "at-once"
)

// poissonProcess brings one deployment at a time, at random.
type poissonProcess struct{}

func (poissonProcess) name() string { return poisson }

func (poissonProcess) times(rng *rand.Rand, _ Arrivals, d furtherDeployments) []float64 {
	return d.apart(d.together(func(int, int) bool { return true }), exponential(rng))
}

// exponential returns a function that draws gaps of a given mean from an exponential distribution.
func exponential(rng *rand.Rand) func(mean float64) float64 {
	return func(mean float64) float64 { return rng.ExpFloat64() * mean }
}

// burstProcess brings several deployments together, the bursts at random.
type burstProcess struct{}

func (burstProcess) name() string { return bursts }

func (burstProcess) times(rng *rand.Rand, a Arrivals, d furtherDeployments) []float64 {
	least := orElse(a.Size, 0.1) * float64(d.fill)
	return d.apart(d.together(func(_, pods int) bool { return float64(pods) >= least }), exponential(rng))
}

// diurnalProcess is a Poisson process whose rate rises and falls as a sine.
type diurnalProcess struct{}

func (diurnalProcess) name() string { return diurnal }

func (diurnalProcess) times(rng *rand.Rand, a Arrivals, d furtherDeployments) []float64 {
	out := poissonProcess{}.times(rng, a, d)
	period, amplitude := orElse(a.Period, 1)*float64(d.fill), orElse(a.Amplitude, 0.5)
	for i, t := range out {
		out[i] = warp(t, period, amplitude)
	}
	return out
}

// warp turns a time of a process with a constant rate into one of a diurnal process: the t' at
// which ∫₀ᵗ' 1 + A·sin(2πs/P) ds = t (inversion; Çinlar 1975, Introduction to Stochastic Processes).
func warp(t, period, amplitude float64) float64 {
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

// atOnceProcess brings all pods of a further fill together. The fills are equally far apart.
type atOnceProcess struct{}

func (atOnceProcess) name() string { return atOnce }

func (atOnceProcess) times(_ *rand.Rand, _ Arrivals, d furtherDeployments) []float64 {
	group := d.together(func(i, _ int) bool { return d.isBegin(i) })
	return d.apart(group, func(mean float64) float64 { return mean })
}
