package run

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/internal/cluster"
	"gnnsched/internal/fragmentation"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/linear"
	"gnnsched/scheduler/policy/neural"
)

// TeacherByName returns the policy to imitate, for a workload with the given typical pods: a heuristic by its name, the linear policy
// of a .json file, the network of a .safetensors file, or a pair of shipped networks for mixed clusters, DEVICES+NODES. A heuristic that
// cannot be imitated is an error: a network cannot see what it decides by, or a resumed run cannot repeat its choices.
func TeacherByName(name string, typical *fragmentation.Typical) (policy.Policy, error) {
	if isPair(name) {
		return newPair(name, typical)
	}
	if IsNetwork(name) || strings.HasSuffix(name, ".json") {
		p, err := byFile(name)
		if err != nil {
			return nil, fmt.Errorf("teacher: %w", err)
		}
		return p, nil
	}
	h, err := heuristic.Find(name)
	if err != nil {
		return nil, fmt.Errorf("teacher: %w; the .json file of a linear policy, the .safetensors file of a network, "+
			"or two shipped networks such as gpu-gnn+rule", err)
	}
	if h.NotImitable != "" {
		return nil, fmt.Errorf("teacher: %s cannot be imitated: %s; choose another with --teacher", name, h.NotImitable)
	}
	return h.New(policy.Setting{Typical: typical}), nil
}

// linearByName returns the linear policy of a .json file, or one that the program carries.
func linearByName(name string) (*linear.Policy, error) {
	if strings.HasSuffix(name, ".json") {
		return linear.Load(name)
	}
	if !slices.Contains(linear.TunedNames(), name) {
		return nil, fmt.Errorf("no linear policy is called %q; there are %s, and .json files", name, strings.Join(linear.TunedNames(), ", "))
	}
	return linear.Tuned(name), nil
}

// FollowRule makes the network of a run start as its residual, if it has one.
func (s Settings) FollowRule(c *checkpoint.Checkpoint) error {
	if s.Residual == "" {
		return nil
	}
	if err := followRule(c, s.Residual); err != nil {
		return fmt.Errorf("residual: %w", err)
	}
	return nil
}

func followRule(c *checkpoint.Checkpoint, name string) error {
	if IsNetwork(name) {
		other, err := checkpoint.Load(name)
		if err != nil {
			return err
		}
		return c.FollowRuleOf(other)
	}
	l, err := linearByName(name)
	if err != nil {
		return err
	}
	return c.FollowRule(l.ByName())
}

// IsNetwork reports whether the name of a teacher is that of a network's file.
func IsNetwork(name string) bool { return strings.HasSuffix(name, ".safetensors") }

// byFile returns the network or the linear policy in a file.
func byFile(name string) (policy.Policy, error) {
	if IsNetwork(name) {
		return networkByName(name)
	}
	return linear.Load(name)
}

// networkByName returns the network in a file, as a policy.
func networkByName(file string) (policy.Policy, error) {
	c, err := checkpoint.Load(file)
	if err != nil {
		return nil, err
	}
	net, err := infer.New(c, checkpoint.ClusterGraph, checkpoint.MixedGraph)
	if err != nil {
		return nil, err
	}
	return neural.New(file, net, nil), nil
}

// pair is a teacher for mixed clusters, that of the shipped network mixed (scheduler/learn/runs/mixed.yaml): two shipped networks, of
// which one scores nodes with GPUs and the other any nodes. Neither can do it alone. It scores as follows:
//
//  1. A pod that requests GPUs goes by the devices' network.
//  2. For any other pod, the devices' network says what the placement takes from the GPUs: CPU that GPU pods will need. It takes nothing
//     on a node without GPUs.
//  3. Among the candidates where it takes at most pairTolerance more than on the best one, the nodes' network decides. It sees these and
//     the nodes without GPUs, for only they are to be even. If all of these candidates have GPUs, the devices' network decides.
//
// The scores of the two networks have different units, and the network that learns them needs one. So a pair's scores are relative
// to the best candidate, and differences that are far larger than those between good candidates are compressed.
type pair struct {
	name    string
	nodes   neural.Policy
	devices neural.Policy

	spared []int32 // candidates among which the nodes' network decides
	at     []int32 // their indices
	scores []float32
	view   cluster.Snapshot // what the nodes' network sees
	rows   []int32          // of the spared candidates in the view
}

// pairTolerance is in GPU devices. From 0.3 on it makes no difference.
const pairTolerance = 0.3

// isPair reports whether a teacher's name is that of a pair: DEVICES+NODES, two shipped networks.
func isPair(name string) bool {
	devices, nodes, both := strings.Cut(name, "+")
	shipped := checkpoint.ShippedNames()
	return both && slices.Contains(shipped, devices) && slices.Contains(shipped, nodes)
}

// newPair returns the pair of a name for the typical pods of a workload.
func newPair(name string, typical *fragmentation.Typical) (*pair, error) {
	ofDevices, ofNodes, _ := strings.Cut(name, "+")
	devices, err := checkpoint.Shipped(ofDevices)
	if err != nil {
		return nil, fmt.Errorf("teacher: %w", err)
	}
	nodes, err := checkpoint.Shipped(ofNodes)
	if err != nil {
		return nil, fmt.Errorf("teacher: %w", err)
	}
	gpu, err := infer.New(devices, checkpoint.GPUGraph)
	if err != nil {
		return nil, fmt.Errorf("teacher %s: %w", name, err)
	}
	if a := nodes.Manifest.Architecture; a.Graph != checkpoint.ClusterGraph || a.ReadsPeers() {
		return nil, fmt.Errorf("teacher %s: %s reads devices or traffic, which a pair does not show it; "+
			"name another after the +, such as rule", name, ofNodes)
	}
	net, err := infer.New(nodes)
	if err != nil {
		return nil, fmt.Errorf("teacher %s: %w", name, err)
	}
	return &pair{name: name, nodes: neural.New(ofNodes, net, nil), devices: neural.New(ofDevices, gpu, typical)}, nil
}

// Name implements policy.Policy.
func (p *pair) Name() string { return p.name }

// Devices implements policy.DeviceChooser.
func (p *pair) Devices(n *cluster.Node, pod *cluster.Pod) cluster.DeviceSet {
	return p.devices.Devices(n, pod)
}

// Score implements policy.Policy.
func (p *pair) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	if err := p.devices.Score(s, pod, candidates, scores); err != nil || len(candidates) == 0 {
		return err
	}
	byDevices := pod.Requests.TotalGPUMilli() > 0
	if !byDevices {
		for i := range scores { // a placement cannot add GPUs: a gain is an error of the network
			scores[i] = min(scores[i], 0)
		}
		p.spare(candidates, scores)
		byDevices = !slices.ContainsFunc(p.spared, func(row int32) bool { return s.Nodes[row].Allocatable.GPU == 0 })
	}
	if byDevices {
		best := slices.Max(scores)
		for i, x := range scores {
			scores[i] = -float32(math.Log1p(float64(best-x)/deviceStep)) / 2
		}
		return nil
	}
	p.look(s)
	if err := p.nodes.Score(&p.view, pod, p.rows, p.scores); err != nil {
		return err
	}
	least := slices.Max(scores)
	for i, x := range scores {
		scores[i] = -(farthest + 0.5 + min(least-x, 1)) / 2
	}
	best, deviation := slices.Max(p.scores), max(spreadOf(p.scores), 1e-4)
	for i, at := range p.at {
		scores[at] = -min((best-p.scores[i])/deviation, farthest) / 2
	}
	return nil
}

const (
	// deviceStep is the number of devices up to which a difference counts almost in proportion; from there on, by its logarithm.
	deviceStep = 0.05
	// farthest is the number of standard deviations at which a candidate is as bad as one can be among those where nothing is taken.
	farthest = 3
)

// spreadOf returns the standard deviation of scores.
func spreadOf(scores []float32) float32 {
	var sum, squares float64
	for _, x := range scores {
		sum, squares = sum+float64(x), squares+float64(x)*float64(x)
	}
	n := float64(len(scores))
	return float32(math.Sqrt(max(squares/n-sum*sum/n/n, 0)))
}

// spare chooses the candidates for the nodes' network. A score is the devices that a placement takes from the GPUs, with a minus.
func (p *pair) spare(candidates []int32, scores []float32) {
	p.spared, p.at = p.spared[:0], p.at[:0]
	least := slices.Max(scores)
	for i, x := range scores {
		if x >= least-pairTolerance {
			p.spared, p.at = append(p.spared, candidates[i]), append(p.at, int32(i))
		}
	}
	p.scores = slices.Grow(p.scores[:0], len(p.spared))[:len(p.spared)]
}

// look makes the view of the nodes' network: the nodes without GPUs and the spared candidates, in their order.
func (p *pair) look(s *cluster.Snapshot) {
	p.view = cluster.Snapshot{Nodes: p.view.Nodes[:0], Now: s.Now}
	place := map[int32]int32{}
	for i, n := range s.Nodes {
		if row := int32(i); n.Allocatable.GPU == 0 || slices.Contains(p.spared, row) {
			place[row] = int32(len(p.view.Nodes))
			p.view.Nodes = append(p.view.Nodes, n)
		}
	}
	p.rows = p.rows[:0]
	for _, row := range p.spared {
		p.rows = append(p.rows, place[row])
	}
}
