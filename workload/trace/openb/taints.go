package openb

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"gnnsched/internal/cluster"
)

// Taints taints nodes with GPUs and lets pods tolerate it, as administrators do to keep other pods off these
// nodes. The zero value changes nothing.
type Taints struct {
	Pools      float64 // fraction of the GPU models whose nodes are tainted
	Tolerating float64 // fraction of the pods with GPUs that tolerate the taint
	CPU        bool    // whether the pods without GPUs tolerate it too
}

// gpuTaint is the usual taint of nodes with GPUs.
var gpuTaint = cluster.Taint{Key: "nvidia.com/gpu", Value: "present", Effect: cluster.NoSchedule}

// Validate reports the first value out of range.
func (t Taints) Validate() error {
	if !(t.Pools >= 0 && t.Pools <= 1) || !(t.Tolerating >= 0 && t.Tolerating <= 1) {
		return fmt.Errorf("taints: pools %v and tolerating %v must be 0 to 1", t.Pools, t.Tolerating)
	}
	return nil
}

// Apply returns new lists with taints and tolerations; the given ones do not change. The random numbers draw the models and the pods. Equal
// arguments and random numbers give equal lists.
func (t Taints) Apply(rng *rand.Rand, nodes []Node, pods []Pod) ([]Node, []Pod, error) {
	if err := t.Validate(); err != nil {
		return nil, nil, err
	}
	if t.Pools == 0 {
		return nodes, pods, nil
	}
	var models []string
	for _, n := range nodes {
		if n.GPUs > 0 && !slices.Contains(models, n.Model) {
			models = append(models, n.Model)
		}
	}
	slices.Sort(models)
	rng.Shuffle(len(models), func(i, j int) { models[i], models[j] = models[j], models[i] })
	models = models[:int(t.Pools*float64(len(models))+0.5)]
	nodes, pods = slices.Clone(nodes), slices.Clone(pods)
	for i := range nodes {
		if n := &nodes[i]; n.GPUs > 0 && slices.Contains(models, n.Model) {
			n.Taints = append(slices.Clip(n.Taints), gpuTaint)
		}
	}
	toleration := cluster.Toleration{Key: gpuTaint.Key, Exists: true}
	for i := range pods {
		if p := &pods[i]; p.GPUs > 0 && rng.Float64() < t.Tolerating || p.GPUs == 0 && t.CPU {
			p.Tolerations = append(slices.Clip(p.Tolerations), toleration)
		}
	}
	return nodes, pods, nil
}
