package cem

import (
	"math"

	"gnnsched/scheduler/policy/preference"
	"gnnsched/scheduler/policy/stock"
)

// half is the weight of NodeResourcesFit and of NodeResourcesBalancedAllocation before the search. Their sum stays
// the same: only the ratio of weights counts. The weights of plugins that are not tuned are
// upstream's times half.
const half = 10

// shapeSteps is the distance between the points of a shape, in percent of utilization.
const shapeSteps = 25

// stockSpace says which parameters of a profile are tuned. A vector of zeros is upstream's default, but
// for the strategy.
type stockSpace struct {
	strategy stock.Strategy
	gpus     bool // some node has GPUs
	spreads  bool // upstream's default topology spread is played
	taints   bool // some node has a taint PreferNoSchedule
	free     bool // preferences may weigh less against requests than by default
	declared bool // the scenario leaves out the default topology spread, and so does the profile
}

// size returns the number of parameters.
func (s stockSpace) size() int {
	n := 2
	for _, more := range []bool{s.gpus, s.gpus, s.spreads, s.taints} {
		if more {
			n++
		}
	}
	if s.strategy == stock.RequestedToCapacityRatio {
		n += 100/shapeSteps + 1
	}
	return n
}

// profile returns the profile of a vector. Values beyond the ends of a range count as the ends.
func (s stockSpace) profile(vector []float64) stock.Profile {
	next := func() float64 {
		x := vector[0]
		vector = vector[1:]
		return x
	}
	p := stock.Default()
	p.Strategy, p.NoDefaultSpread = s.strategy, s.declared
	w := &p.Weights
	for _, x := range []*int64{&w.Spread, &w.Taints, &w.NodeAffinity, &w.PodAffinity, &w.ImageLocality} {
		*x *= half
	}
	w.Fit = between(half+half*next(), 1, 2*half)
	w.Balanced = 2*half - w.Fit
	cpu := between(half+half*next(), 1, 2*half-1)
	p.Fit = []stock.Weighted{{Resource: stock.CPU, Weight: cpu}, {Resource: stock.Memory, Weight: 2*half - cpu}}
	if s.gpus {
		if gpu := between(2*half*next(), 0, 100); gpu > 0 {
			p.Fit = append(p.Fit, stock.Weighted{Resource: stock.GPU, Weight: gpu})
		}
		if next() > 0 {
			p.Balanced = append(p.Balanced, stock.GPU)
		}
	}
	if s.spreads {
		if w.Spread = s.preference(w.Spread, next()); w.Spread == 0 {
			// Without the default constraints nothing is spread in the simulator, as with weight 0. With the
			// weight, what manifests declare still counts.
			p.NoDefaultSpread, w.Spread = true, half*preference.Upstream.Spread
		}
	}
	if s.taints {
		w.Taints = s.preference(w.Taints, next())
	}
	if s.strategy == stock.RequestedToCapacityRatio {
		for u := int64(0); u <= 100; u += shapeSteps {
			least := stock.MaxShapeScore * float64(100-u) / 100
			p.Shape = append(p.Shape, stock.Point{Utilization: u, Score: between(least+stock.MaxShapeScore*next(), 0, stock.MaxShapeScore)})
		}
	}
	return reduced(p)
}

// preference returns the weight of a preference plugin, given the one that has upstream's ratio to the
// resource plugins: it falls to 0 at -1, which only a free space allows, and doubles with every half.
func (s stockSpace) preference(weight int64, x float64) int64 {
	switch {
	case x >= 0:
		return between(float64(weight)*math.Exp2(2*x), weight, 20*weight)
	case s.free:
		return between(float64(weight)*(1+x), 0, weight)
	}
	return weight
}

// between rounds x to an integer from low to high.
func between(x float64, low, high int64) int64 {
	return int64(math.Round(min(max(x, float64(low)), float64(high))))
}

// reduced divides the plugins' weights, and the resources' weights, by what divides them all.
func reduced(p stock.Profile) stock.Profile {
	w := &p.Weights
	divide([]*int64{&w.Fit, &w.Balanced, &w.Spread, &w.Taints, &w.NodeAffinity, &w.PodAffinity, &w.ImageLocality})
	var resources []*int64
	for i := range p.Fit {
		resources = append(resources, &p.Fit[i].Weight)
	}
	divide(resources)
	return p
}

func divide(all []*int64) {
	var by int64
	for _, x := range all {
		for a := *x; a != 0; {
			by, a = a, by%a
		}
	}
	for _, x := range all {
		*x /= max(by, 1)
	}
}
