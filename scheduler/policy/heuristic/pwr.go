package heuristic

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/internal/cluster"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/neural"
)

var pwr = Heuristic{
	Name:  "pwr",
	About: "the node whose CPUs and GPUs draw least more",
	New:   func(policy.Setting) policy.Policy { return &leastPower{} },
	GPU:   true, NotImitable: needsGPUs,
}

// leastPower is PWR (Lettich et al., CCGrid 2025): it prefers the node that draws least more, by the model of
// package power. Scores are the whole watts, scaled so that the best candidate has 100 and the worst 0. A
// share of a device goes to the first of the devices that draw least more. The first of tied nodes is taken.
type leastPower struct{ cached cachedScores }

// Name implements policy.Policy.
func (*leastPower) Name() string { return pwr.Name }

// Score implements policy.Policy.
func (p *leastPower) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	p.cached.score(s, pod.Requests, candidates, scores, func(n *cluster.Node, r cluster.Resources) int64 {
		watts, _ := least(n, r)
		return -int64(watts)
	})
	normalize(scores)
	return nil
}

// Devices implements policy.DeviceChooser.
func (*leastPower) Devices(n *cluster.Node, pod *cluster.Pod) cluster.DeviceSet {
	_, on := least(n, pod.Requests)
	return on
}

// least returns the least that a pod that requests r adds to the draw of n, and the devices for it.
func least(n *cluster.Node, r cluster.Resources) (watts float64, on cluster.DeviceSet) {
	before := cluster.Watts(n)
	if r.GPUMilli == 0 {
		on = n.ChooseDevices(r)
		return cluster.WattsAfter(n, r, on) - before, on
	}
	watts = math.MaxInt32 // no device has room
	for rest := n.DistinctDevices(r.GPUMilli); rest != 0; rest &= rest - 1 {
		device := rest.First()
		if x := cluster.WattsAfter(n, r, device) - before; x < watts {
			watts, on = x, device
		}
	}
	return watts, on
}

// normalize scales scores to whole numbers from 0 to 100; all are 100 if they are equal.
func normalize(scores []float32) {
	if len(scores) == 0 {
		return
	}
	low, high := scores[0], scores[0]
	for _, v := range scores {
		low, high = min(low, v), max(high, v)
	}
	for i, v := range scores {
		if scores[i] = maxNodeScore; high > low {
			scores[i] = float32(int64(float64(v-low) * maxNodeScore / float64(high-low)))
		}
	}
}

// pwrFGDFamily is the mixes of PWR and FGD, such as "pwr+fgd:0.1".
var pwrFGDFamily = family{prefix: pwrFGDPrefix, parameter: "WEIGHT",
	about: "a weighted mean of the scores of pwr and fgd, with the weight of pwr from 0 to 1", make: pwrFGDFor}

const pwrFGDPrefix = "pwr+fgd:"

func pwrFGDFor(parameter string) (Heuristic, error) {
	weight, err := strconv.ParseFloat(parameter, 64)
	if err != nil || !(weight >= 0 && weight <= 1) {
		return Heuristic{}, fmt.Errorf("%s%s: the weight of the power is no number from 0 to 1", pwrFGDPrefix, parameter)
	}
	name := pwrFGDPrefix + parameter
	return Heuristic{
		Name: name, About: "a weighted mean of the scores of pwr and fgd",
		New: func(s policy.Setting) policy.Policy {
			return &pwrFGD{name: name, weight: float32(weight), fgd: NewFGD(s.Typical)}
		},
		GPU: true, TypicalPods: true, NotImitable: needsGPUs,
	}, nil
}

// pwrFGD scores weight · PWR + (1 - weight) · FGD (Lettich et al., CCGrid 2025). FGD chooses the devices.
type pwrFGD struct {
	name   string
	weight float32
	power  leastPower
	fgd    *FGD
	scores []float32
}

// Name implements policy.Policy.
func (p *pwrFGD) Name() string { return p.name }

// Score implements policy.Policy.
func (p *pwrFGD) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	if err := p.fgd.Score(s, pod, candidates, scores); err != nil {
		return err
	}
	p.scores = append(p.scores[:0], scores...)
	if err := p.power.Score(s, pod, candidates, p.scores); err != nil {
		return err
	}
	for i, v := range p.scores {
		scores[i] = p.weight*v + (1-p.weight)*scores[i]
	}
	return nil
}

// Devices implements policy.DeviceChooser.
func (p *pwrFGD) Devices(n *cluster.Node, pod *cluster.Pod) cluster.DeviceSet {
	return p.fgd.Devices(n, pod)
}

// powerNetworkFamily is the shipped networks for GPU clusters with a price on power, such as
// "power+gpu-gnn:2".
var powerNetworkFamily = family{prefix: powerNetworkPrefix, parameter: "NETWORK:WEIGHT",
	about: "a shipped network with a price on the power that a placement adds, such as power+gpu-gnn:0.1", make: powerNetworkFor}

const powerNetworkPrefix = "power+"

func powerNetworkFor(parameter string) (Heuristic, error) {
	name, text, _ := strings.Cut(parameter, ":")
	weight, err := strconv.ParseFloat(text, 64)
	if err != nil || !(weight >= 0) || math.IsInf(weight, 1) {
		return Heuristic{}, fmt.Errorf("%s%s: the weight of the power is no number of devices for a kilowatt, 0 or more", powerNetworkPrefix,
			parameter)
	}
	c, err := checkpoint.Shipped(name)
	if err != nil {
		return Heuristic{}, fmt.Errorf("%s%s: %w", powerNetworkPrefix, parameter, err)
	}
	net, err := infer.New(c, checkpoint.GPUGraph)
	if err != nil {
		return Heuristic{}, fmt.Errorf("%s%s: %w", powerNetworkPrefix, parameter, err)
	}
	full := powerNetworkPrefix + parameter
	return Heuristic{
		Name: full, About: "the shipped network " + name + " with a price on the power that a placement adds",
		New: func(s policy.Setting) policy.Policy {
			return neural.New(full, net, s.Typical).(*neural.GPUPolicy).SavePower(weight)
		},
		GPU: true, TypicalPods: true, Network: name, NotImitable: needsGPUs,
	}, nil
}
