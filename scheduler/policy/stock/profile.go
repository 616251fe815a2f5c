package stock

import (
	"fmt"
	"slices"

	"gnnsched/scheduler/policy/preference"
)

// Strategy is a scoring strategy of NodeResourcesFit.
type Strategy string

// The strategies, by upstream's names.
const (
	LeastAllocated           Strategy = "LeastAllocated"
	MostAllocated            Strategy = "MostAllocated"
	RequestedToCapacityRatio Strategy = "RequestedToCapacityRatio"
)

// Strategies are the valid values, upstream's default first.
var Strategies = []Strategy{LeastAllocated, MostAllocated, RequestedToCapacityRatio}

// Resource is a resource that the plugins score, by its name in Kubernetes.
type Resource string

// The resources that the simulator's pods request.
const (
	CPU    Resource = "cpu"
	Memory Resource = "memory"
	GPU    Resource = "nvidia.com/gpu" // whole devices
)

// Resources are the valid values.
var Resources = []Resource{CPU, Memory, GPU}

// index returns the position of a resource in Resources, or -1.
func (r Resource) index() int { return slices.Index(Resources, r) }

// Weighted is a resource with its weight in NodeResourcesFit.
type Weighted struct {
	Resource Resource
	Weight   int64 // 1 to 100
}

// MaxShapeScore is the highest score of a Point. A node with it scores 100.
const MaxShapeScore = 10

// Point is a point of the shape of RequestedToCapacityRatio: the score of a utilization.
type Point struct {
	Utilization int64 // requested / allocatable in percent, 0 to 100
	Score       int64 // 0 to MaxShapeScore
}

// Weights are the weights of upstream's score plugins. A plugin with weight 0 does not score.
type Weights struct {
	Fit      int64 // NodeResourcesFit
	Balanced int64 // NodeResourcesBalancedAllocation
	Spread   int64 // PodTopologySpread
	Taints   int64 // TaintToleration

	// The simulator does not play these: no pod there prefers nodes or pods, or has an image.
	NodeAffinity  int64
	PodAffinity   int64 // InterPodAffinity
	ImageLocality int64
}

// Profile is a configuration of upstream's score plugins.
type Profile struct {
	Weights  Weights
	Strategy Strategy   // of NodeResourcesFit
	Fit      []Weighted // resources of NodeResourcesFit
	Shape    []Point    // of RequestedToCapacityRatio, with ascending utilization; nil for other strategies
	Balanced []Resource // resources of NodeResourcesBalancedAllocation
	// NoDefaultSpread leaves out the default constraints of PodTopologySpread, so that pods are spread only
	// where their manifests say so. No pod of the simulator says so.
	NoDefaultSpread bool
}

// Default returns upstream's default profile.
func Default() Profile {
	p := preference.Upstream
	return Profile{
		Weights:  Weights{Fit: 1, Balanced: 1, Spread: p.Spread, Taints: p.Taints, NodeAffinity: 2, PodAffinity: 2, ImageLocality: 1},
		Strategy: LeastAllocated,
		Fit:      []Weighted{{CPU, 1}, {Memory, 1}},
		Balanced: []Resource{CPU, Memory},
	}
}

// maxWeight bounds the weights of plugins. Upstream only wants no overflow; below this bound the sums of
// scores are exact as float32.
const maxWeight = 10_000

// Validate returns the first error of the profile, by the rules of upstream's validation.
func (p Profile) Validate() error {
	for _, w := range [...]int64{p.Weights.Fit, p.Weights.Balanced, p.Weights.Spread, p.Weights.Taints, p.Weights.NodeAffinity,
		p.Weights.PodAffinity, p.Weights.ImageLocality} {
		if w < 0 || w > maxWeight {
			return fmt.Errorf("a plugin's weight is %d, want 0 to %d", w, maxWeight)
		}
	}
	if !slices.Contains(Strategies, p.Strategy) {
		return fmt.Errorf("strategy %q of NodeResourcesFit is none of %v", p.Strategy, Strategies)
	}
	if err := p.validateResources(); err != nil {
		return err
	}
	if (p.Strategy == RequestedToCapacityRatio) != (len(p.Shape) > 0) {
		return fmt.Errorf("strategy %s with %d points of a shape: %s needs one or more, the others none", p.Strategy, len(p.Shape),
			RequestedToCapacityRatio)
	}
	for i, x := range p.Shape {
		if x.Utilization < 0 || x.Utilization > 100 || x.Score < 0 || x.Score > MaxShapeScore || i > 0 &&
			x.Utilization <= p.Shape[i-1].Utilization {
			return fmt.Errorf("point %d of the shape, %d%% with score %d: want ascending utilizations from 0 to 100, and scores from 0 to %d", i+1,
				x.Utilization, x.Score, MaxShapeScore)
		}
	}
	return nil
}

func (p Profile) validateResources() error {
	if len(p.Fit) == 0 || len(p.Balanced) == 0 {
		return fmt.Errorf("a plugin has no resource to score by")
	}
	seen := map[Resource]bool{}
	for _, x := range p.Fit {
		if x.Resource.index() < 0 || seen[x.Resource] || x.Weight < 1 || x.Weight > 100 {
			return fmt.Errorf("resource %q with weight %d of NodeResourcesFit: want each of %v at most once, with weight 1 to 100", x.Resource,
				x.Weight, Resources)
		}
		seen[x.Resource] = true
	}
	clear(seen)
	for _, x := range p.Balanced {
		if x.index() < 0 || seen[x] {
			return fmt.Errorf("resource %q of NodeResourcesBalancedAllocation: want each of %v at most once", x, Resources)
		}
		seen[x] = true
	}
	return nil
}
