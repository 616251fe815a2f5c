package moves

import (
	"fmt"
	"slices"
	"strings"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fragmentation"
	"gnnsched/scheduler/objective"
)

// Fragmentation returns a tracker of a mix, plus the share of the GPUs that is idle and of no use to typical pods (package fragmentation).
func Fragmentation(mix objective.Mix, typical *fragmentation.Typical, nodes []*cluster.Node) objective.Tracker {
	t := &fragments{Tracker: mix.Track(nodes), typical: typical, nodes: nodes, of: make([]float64, len(nodes))}
	for i, n := range nodes {
		t.all += float64(n.Allocatable.TotalGPUMilli())
		t.update(i)
	}
	return t
}

// Objective is a cost that moves lower: a mix of terms, and with GPUs the one of Fragmentation.
type Objective struct {
	objective.Mix
	GPUs bool
}

// gpus names Fragmentation in an objective.
const gpus = "gpu-fragmentation"

// ParseObjective reads a mix, of which gpu-fragmentation may be a part.
func ParseObjective(text string) (o Objective, err error) {
	terms := slices.DeleteFunc(strings.Split(text, ","), func(part string) bool { return part == gpus })
	if o.GPUs = len(terms) < strings.Count(text, ",")+1; len(terms) > 0 {
		o.Mix, err = objective.Parse(strings.Join(terms, ","))
	}
	for _, w := range o.Mix {
		if objective.Measured(w.Term) {
			return o, fmt.Errorf("%s is measured after a move, not before it", w.Term.Name())
		}
	}
	return o, err
}

// Name returns the text that ParseObjective reads.
func (o Objective) Name() string {
	if o.GPUs {
		return strings.TrimPrefix(o.Mix.Name()+","+gpus, ",")
	}
	return o.Mix.Name()
}

// Track returns a tracker of the cost.
func (o Objective) Track(typical *fragmentation.Typical, nodes []*cluster.Node) objective.Tracker {
	if o.GPUs {
		return Fragmentation(o.Mix, typical, nodes)
	}
	return o.Mix.Track(nodes)
}

// fragments keeps the fragmentation of each node, in thousandths of a device.
type fragments struct {
	objective.Tracker
	typical  *fragmentation.Typical
	nodes    []*cluster.Node
	of       []float64
	sum, all float64
}

// Update implements objective.Tracker.
func (t *fragments) Update(i int) {
	t.Tracker.Update(i)
	t.update(i)
}

func (t *fragments) update(i int) {
	if t.nodes[i].HasDevices() {
		f := t.typical.Fragmentation(t.nodes[i])
		t.sum += f - t.of[i]
		t.of[i] = f
	}
}

// Cost implements objective.Tracker.
func (t *fragments) Cost() float64 { return t.Tracker.Cost() + t.sum/max(t.all, 1) }
