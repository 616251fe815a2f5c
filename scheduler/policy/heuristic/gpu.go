package heuristic

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/internal/cluster"
	"gnnsched/internal/fragmentation"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/linear"
	"gnnsched/scheduler/policy/neural"
)

var fgd = Heuristic{
	Name:  "fgd",
	About: "fragmentation gradient descent: fragments the GPUs least for the workload's typical pods",
	New:   func(s policy.Setting) policy.Policy { return NewFGD(s.Typical) },
	GPU:   true, TypicalPods: true,
}

// FGD is fragmentation gradient descent (Weng et al., USENIX ATC 2023). A placement scores
//
//	⌊100 · sigmoid((F(before) - F(after)) / 1000)⌋
//
// where F is the node's fragmentation for the typical pods of the workload, as package
// fragmentation defines it. A share of a device goes to the device with the highest score, the
// first of tied ones. The published figures require that the first of tied nodes is taken.
type FGD struct {
	typical *fragmentation.Typical
	cached  cachedScores
}

// NewFGD returns the policy for a workload's typical pods.
func NewFGD(typical *fragmentation.Typical) *FGD { return &FGD{typical: typical} }

// Name implements policy.Policy.
func (*FGD) Name() string { return "fgd" }

// Score implements policy.Policy.
func (f *FGD) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	f.cached.score(s, pod.Requests, candidates, scores, func(n *cluster.Node, r cluster.Resources) int64 {
		score, _ := f.best(n, r)
		return score
	})
	return nil
}

// Devices implements policy.DeviceChooser.
func (f *FGD) Devices(n *cluster.Node, pod *cluster.Pod) cluster.DeviceSet {
	_, on := f.best(n, pod.Requests)
	return on
}

// best returns the score of the node and the devices that give it.
func (f *FGD) best(n *cluster.Node, r cluster.Resources) (score int64, on cluster.DeviceSet) {
	before := f.typical.Fragmentation(n)
	if r.GPUMilli == 0 {
		on = n.ChooseDevices(r)
		return descent(before, f.typical.After(n, r, on)), on
	}
	score = -1
	for rest := n.DistinctDevices(r.GPUMilli); rest != 0; rest &= rest - 1 {
		device := rest.First()
		if x := descent(before, f.typical.After(n, r, device)); x > score {
			score, on = x, device
		}
	}
	return score, on
}

// descent returns the score of a change of a node's fragmentation.
func descent(before, after float64) int64 {
	return int64(maxNodeScore / (1 + math.Exp((after-before)/cluster.DeviceMilli)))
}

var gpuClustering = Heuristic{
	Name:  "gpu-clustering",
	About: "pods that request the same number of GPUs together",
	New:   fromNodeScore("gpu-clustering", clustering),
	GPU:   true,
}

// clustering keeps similar pods together: pods that request the same number of GPUs, or all pods
// that request a share of one. A pod without GPUs scores 0 everywhere. Any other pod scores by the
// pods with GPUs that the node runs:
//
//	75 to 100  only similar ones
//	50 to 75   similar ones and others
//	25 to 50   none
//	0 to 25    only others
//
// Within a band the score rises with the allocation of the node's devices after placement.
func clustering(n *cluster.Node, r cluster.Resources) int64 {
	if r.TotalGPUMilli() == 0 {
		return 0
	}
	similar, others := false, false
	for _, g := range n.Groups {
		switch {
		case g.Each.TotalGPUMilli() == 0:
		case g.Each.GPU == r.GPU:
			similar = true
		default:
			others = true
		}
	}
	band := int64(0)
	switch {
	case similar && !others:
		band = 75
	case similar:
		band = 50
	case !others:
		band = 25
	}
	total := cluster.DeviceMilli * int64(len(n.GPUs))
	return band + int64(25*cluster.Fraction(total-n.IdleGPUMilli()+r.TotalGPUMilli(), total))
}

var gpuPacking = Heuristic{
	Name:  "gpu-packing",
	About: "devices in use before idle devices, and idle nodes last",
	New:   fromNodeScore("gpu-packing", packing),
	GPU:   true,
}

// packing prefers devices in use, then idle devices of nodes in use, then idle nodes. A pod without
// GPUs scores 0 everywhere. Any other pod scores
//
//	on devices in use   100 - a tenth of the percentage that they have left, at least 50
//	on k idle devices   50 - k, at least 33, if other devices of the node are in use
//	on an idle node     33 - the number of its devices
func packing(n *cluster.Node, r cluster.Resources) int64 {
	on := n.ChooseDevices(r)
	if on == 0 {
		return 0
	}
	var idle int64 // number of idle devices that the pod would use
	var free int64 // room on the devices in use that the pod would use
	for i, used := range n.GPUs {
		switch {
		case !on.Has(i):
		case used == 0:
			idle++
		default:
			free += cluster.DeviceMilli - used
		}
	}
	switch devices := int64(len(n.GPUs)); {
	case n.IdleDevices() == devices:
		return max(33-devices, 0)
	case idle > 0:
		return max(50-idle, 33)
	}
	return max(maxNodeScore-free/100, 50)
}

var gpuBestFit = Heuristic{
	Name:  "gpu-best-fit",
	About: "the node with the least CPU and GPU left",
	New:   fromNodeScore("gpu-best-fit", leastGPULeft),
	GPU:   true,
}

// leastGPULeft prefers the node with the least CPU and GPU left after placement:
//
//	⌊100 · (1 - ½·CPU left / 128 cores - ½·GPU left / 8 devices)⌋
func leastGPULeft(n *cluster.Node, r cluster.Resources) int64 {
	cpu, gpu := left(n)
	return int64(maxNodeScore * (1 - (cpu-float64(r.MilliCPU))/(2*largestMilliCPU) - (gpu-float64(r.TotalGPUMilli()))/(2*largestGPUMilli)))
}

var gpuDotProduct = Heuristic{
	Name:  "gpu-dot-product",
	About: "the node whose free CPU and GPU are least aligned with the pod's requests",
	New:   fromNodeScore("gpu-dot-product", gpuMisalignment),
	GPU:   true,
}

// gpuMisalignment prefers the node whose resources left before placement have the smallest dot
// product with the pod's requests:
//
//	⌊100 · (1 - ½·(CPU left · pod's CPU / (128 cores)² + GPU left · pod's GPU / (8 devices)²))⌋
func gpuMisalignment(n *cluster.Node, r cluster.Resources) int64 {
	cpu, gpu := left(n)
	along := cpu*float64(r.MilliCPU)/(largestMilliCPU*largestMilliCPU) + gpu*float64(r.TotalGPUMilli())/(largestGPUMilli*largestGPUMilli)
	return int64(maxNodeScore * (1 - along/2))
}

var pwr = Heuristic{
	Name:  "pwr",
	About: "the node whose CPUs and GPUs draw least more",
	New:   func(policy.Setting) policy.Policy { return &leastPower{} },
	GPU:   true,
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
		GPU: true, TypicalPods: true,
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
	name, weight, err := weighted(powerNetworkPrefix, parameter, "a number of devices for a kilowatt, 0 or more")
	if err != nil {
		return Heuristic{}, err
	}
	net, err := shippedOn(checkpoint.GPUGraph, name)
	if err != nil {
		return Heuristic{}, fmt.Errorf("%s%s: %w", powerNetworkPrefix, parameter, err)
	}
	full := powerNetworkPrefix + parameter
	return Heuristic{
		Name: full, About: "the shipped network " + name + " with a price on the power that a placement adds",
		New: func(s policy.Setting) policy.Policy {
			return neural.New(full, net, s.Typical).(*neural.GPUPolicy).SavePower(weight)
		},
		GPU: true, TypicalPods: true, Network: name,
	}, nil
}

// weighted divides a parameter NAME:WEIGHT. want says what the weight is.
func weighted(prefix, parameter, want string) (name string, weight float64, err error) {
	name, text, _ := strings.Cut(parameter, ":")
	if weight, err = strconv.ParseFloat(text, 64); err != nil || !(weight >= 0) || math.IsInf(weight, 1) {
		err = fmt.Errorf("%s%s: the weight is not %s", prefix, parameter, want)
	}
	return name, weight, err
}

// shippedOn returns the shipped network of a name, which reads a graph.
func shippedOn(g checkpoint.Graph, name string) (*infer.Network, error) {
	c, err := checkpoint.Shipped(name)
	if err != nil {
		return nil, err
	}
	return infer.New(c, g)
}

var gpuFill = Heuristic{
	Name:  "gpu-fill",
	About: "where the fewest GPUs will stay idle once typical pods have filled the nodes; pods without GPUs on other nodes, as linear",
	New: func(s policy.Setting) policy.Policy {
		return &fill{gpu: neural.NewFill("gpu-fill", s.Typical), ordinary: linear.Tuned("linear")}
	},
	GPU: true, TypicalPods: true,
}

// fill scores by how many more devices stay idle after a placement, once typical pods have filled the node. Pods without devices go to
// nodes without devices if any has room, and another policy chooses among these.
type fill struct {
	gpu      *neural.GPUPolicy
	ordinary *linear.Policy // for pods without devices
	rows     []int32        // of the candidates without devices
	scores   []float32      // of these
	scored   []float32      // of all candidates of the last Score
}

// idlePrice is what an idle device on the chosen node costs, in devices, times the square of the idle share of all. It keeps empty nodes
// for pods with many devices while most devices are idle.
const idlePrice = 0.025

// above is by how much a node without devices is better for an ordinary pod than any with devices.
const above = 100

// Name implements policy.Policy.
func (p *fill) Name() string { return p.gpu.Name() }

// Score implements policy.Policy.
func (p *fill) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	if err := p.gpu.Score(s, pod, candidates, scores); err != nil {
		return err
	}
	idle := p.gpu.IdleShare()
	price := float32(idlePrice * idle * idle)
	p.rows = p.rows[:0]
	for i, v := range candidates {
		if n := s.Nodes[v]; n.Allocatable.GPU > 0 || len(n.GPUs) > 0 {
			left := float32(n.IdleGPUMilli()-pod.Requests.TotalGPUMilli()) / cluster.DeviceMilli
			scores[i] -= price * left
		} else if pod.Requests.TotalGPUMilli() == 0 {
			p.rows = append(p.rows, v)
		}
	}
	if len(p.rows) > 0 {
		if err := p.scoreOrdinary(s, pod, candidates, scores); err != nil {
			return err
		}
	}
	p.scored = append(p.scored[:0], scores...)
	return nil
}

// scoreOrdinary lets another policy choose among the nodes without devices.
func (p *fill) scoreOrdinary(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	p.scores = slices.Grow(p.scores[:0], len(p.rows))[:len(p.rows)]
	if err := p.ordinary.Score(s, pod, p.rows, p.scores); err != nil {
		return err
	}
	at, low := 0, slices.Min(p.scores)-above
	for i, v := range candidates {
		if at < len(p.rows) && p.rows[at] == v {
			scores[i] = p.scores[at]
			at++
		} else {
			scores[i] += low
		}
	}
	return nil
}

// Reading implements policy.Reader.
func (p *fill) Reading(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, i int) *policy.Reading {
	if at := slices.Index(p.rows, candidates[i]); at >= 0 {
		return p.ordinary.Reading(s, pod, p.rows, at)
	}
	r := p.gpu.Reading(s, pod, candidates, i)
	if r != nil {
		r.Features[0] = p.scored[i] + r.Features[1]
	}
	return r
}

// Devices implements policy.DeviceChooser.
func (p *fill) Devices(n *cluster.Node, pod *cluster.Pod) cluster.DeviceSet {
	return p.gpu.Devices(n, pod)
}
