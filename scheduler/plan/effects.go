package plan

import (
	"slices"

	values "gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/scheduler/moves"
	"gnnsched/scheduler/objective"
)

// Effect is a figure of the cluster before and after the moves.
type Effect struct {
	What   string  `json:"what"`
	Before float64 `json:"before"`
	After  float64 `json:"after"`
}

// effects returns what steps bring beside their goal.
func (v *view) effects(steps []moves.Step) (out []Effect) {
	after, pods := make([]*values.Node, len(v.nodes)), slices.Clone(v.on)
	for i, n := range v.nodes {
		c := *n
		c.Groups, c.GPUs = slices.Clone(n.Groups), slices.Clone(n.GPUs)
		after[i] = &c
	}
	for _, s := range steps {
		asks, _ := kube.Pod(v.pods[s.Pod])
		home := v.home[s.Pod]
		after[home.Row].Remove(asks.Requests, home.Devices)
		after[s.Row].AddOn(asks.Requests, s.Devices)
		pods[home.Row]--
		pods[s.Row]++
	}
	figure := func(what string, of func(nodes []*values.Node, pods []int) float64) {
		out = append(out, Effect{what, of(v.nodes, v.on), of(after, pods)})
	}
	figure("power in W", func(nodes []*values.Node, _ []int) (sum float64) {
		for _, n := range nodes {
			sum += objective.Watts(n)
		}
		return sum
	})
	figure("power in W if empty nodes are off", func(nodes []*values.Node, pods []int) (sum float64) {
		for row, n := range nodes {
			if pods[row] > 0 || v.Kept(int32(row)) != "" {
				sum += objective.Watts(n)
			}
		}
		return sum
	})
	if slices.ContainsFunc(v.nodes, (*values.Node).HasDevices) && v.typical != nil {
		figure("idle GPUs that typical pods cannot use", func(nodes []*values.Node, _ []int) (sum float64) {
			for _, n := range nodes {
				if n.HasDevices() {
					sum += v.typical.Fragmentation(n) / values.DeviceMilli
				}
			}
			return sum
		})
	}
	return out
}
