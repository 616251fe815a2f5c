package stock

import (
	"fmt"
	"math"
	"slices"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/policy/preference"
)

// maxNodeScore is the highest score of kube-scheduler's plugins.
const maxNodeScore = 100

// Policy plays a profile. The scores are integers as in kube-scheduler, so ties are common. A Policy has
// no state, and several goroutines may use it at once.
type Policy struct {
	name     string
	profile  Profile
	fit      [3]int64 // weights of Resources in NodeResourcesFit; 0 for none
	balanced []int    // indices in Resources
}

// New returns the policy of a profile under a name for tables.
func New(name string, p Profile) (*Policy, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	out := &Policy{name: name, profile: p}
	for _, x := range p.Fit {
		out.fit[x.Resource.index()] = x.Weight
	}
	for _, r := range p.Balanced {
		out.balanced = append(out.balanced, r.index())
	}
	return out, nil
}

// Name implements policy.Policy.
func (p *Policy) Name() string { return p.name }

// PreferenceWeights implements policy.Upstream.
func (p *Policy) PreferenceWeights() preference.Weights {
	w := preference.Weights{Spread: p.profile.Weights.Spread, Taints: p.profile.Weights.Taints}
	if p.profile.NoDefaultSpread {
		w.Spread = 0
	}
	return w
}

// Score implements policy.Policy: the weighted sum of NodeResourcesFit and
// NodeResourcesBalancedAllocation. The simulator adds the scores of preferences.
func (p *Policy) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	w := p.profile.Weights
	for i, v := range candidates {
		n, sum := s.Nodes[v], int64(0)
		if w.Fit > 0 {
			sum = w.Fit * p.fitScore(n, pod.Requests)
		}
		if w.Balanced > 0 {
			sum += w.Balanced * p.balancedAllocation(n, pod.Requests)
		}
		scores[i] = float32(sum)
	}
	return nil
}

// fitScore returns the score of NodeResourcesFit: the weighted mean of a score over the resources that the
// node offers, after placement. The strategies that count by amount round it down;
// RequestedToCapacityRatio rounds it, and leaves out resources that score 0.
func (p *Policy) fitScore(n *cluster.Node, r cluster.Resources) int64 {
	used := n.Counted().Plus(r.Counted())
	var sum, weights int64
	for i, x := range [...]amount{{used.MilliCPU, n.Allocatable.MilliCPU}, {used.Memory, n.Allocatable.Memory},
		{used.GPU, n.Allocatable.GPU}} {
		weight := p.fit[i]
		if weight == 0 || x.offered == 0 || i == gpuIndex && r.GPU == 0 {
			continue
		}
		score := p.score(x)
		if score == 0 && p.profile.Strategy == RequestedToCapacityRatio {
			continue
		}
		sum, weights = sum+weight*score, weights+weight
	}
	switch {
	case weights == 0:
		return 0
	case p.profile.Strategy == RequestedToCapacityRatio:
		return int64(math.Round(float64(sum) / float64(weights)))
	}
	return sum / weights
}

// gpuIndex is the position of GPU in Resources. A pod that requests no GPU is not scored by GPUs.
const gpuIndex = 2

// amount holds the used and the offered quantity of a resource, in thousandths of a core, bytes or devices.
type amount struct{ used, offered int64 }

// score returns the strategy's score of one resource.
func (p *Policy) score(x amount) int64 {
	switch p.profile.Strategy {
	case LeastAllocated:
		return max(x.offered-x.used, 0) * maxNodeScore / x.offered
	case MostAllocated:
		return min(x.used, x.offered) * maxNodeScore / x.offered
	}
	return shapeAt(p.profile.Shape, min(x.used, x.offered)*100/x.offered)
}

// shapeAt returns a shape's score at a utilization in percent, linear between its points and scaled to
// maxNodeScore. Like kube-scheduler it computes in integers, rounded towards zero.
func shapeAt(shape []Point, utilization int64) int64 {
	const scale = maxNodeScore / MaxShapeScore
	for i, p := range shape {
		if utilization > p.Utilization {
			continue
		}
		if i == 0 {
			return p.Score * scale
		}
		from := shape[i-1]
		return from.Score*scale + (p.Score-from.Score)*scale*(utilization-from.Utilization)/(p.Utilization-from.Utilization)
	}
	return shape[len(shape)-1].Score * scale
}

// balancedAllocation returns how much the placement brings the fractions of the node's resources closer
// together: 75 for no change, up to 100 for an improvement. Pods that request none of the resources score
// 0.
func (p *Policy) balancedAllocation(n *cluster.Node, r cluster.Resources) int64 {
	request, some := amounts(r), false
	for _, i := range p.balanced {
		some = some || request[i] != 0
	}
	if !some {
		return 0
	}
	with, without := p.balance(n, n.Requested.Plus(r), r), p.balance(n, n.Requested, r)
	return maxNodeScore/2 + (maxNodeScore/2+with-without)/2
}

func amounts(r cluster.Resources) [3]int64 { return [...]int64{r.MilliCPU, r.Memory, r.GPU} }

// balance returns ⌊100 · (1 - std)⌋ of the fractions of the resources that are in use of the node, for a pod
// that requests r. Of two values std is half of their distance.
func (p *Policy) balance(n *cluster.Node, used, r cluster.Resources) int64 {
	of, offered := amounts(used), amounts(n.Allocatable)
	var buffer [3]float64
	fractions, total := buffer[:0], 0.0
	for _, i := range p.balanced {
		if offered[i] == 0 || i == gpuIndex && r.GPU == 0 {
			continue
		}
		f := min(float64(of[i])/float64(offered[i]), 1)
		fractions, total = append(fractions, f), total+f
	}
	std := 0.0
	switch len(fractions) {
	case 0, 1:
	case 2:
		std = math.Abs((fractions[0] - fractions[1]) / 2)
	default:
		mean, sum := total/float64(len(fractions)), 0.0
		for _, f := range fractions {
			sum += (f - mean) * (f - mean)
		}
		std = math.Sqrt(sum / float64(len(fractions)))
	}
	return int64((1 - std) * maxNodeScore)
}

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
