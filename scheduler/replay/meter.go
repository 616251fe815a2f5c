package replay

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"sigs.k8s.io/yaml"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/memcluster"
	"gnnsched/workload/record"
)

// state holds the metrics while nothing changes.
type state [metrics]float64

// stateOf computes the metrics of nodes. used holds the number of pods on each that do not belong to it, and prices its cost per hour.
func stateOf(nodes []*cluster.Node, used map[string]int, prices map[string]float64) (out state) {
	var load cluster.Sums
	for _, v := range nodes {
		out[Watts] += cluster.Watts(v)
		if used[v.Name] > 0 {
			out[Nodes]++
			out[Price] += prices[v.Name]
		}
		out[Machines]++
		out[Bill] += prices[v.Name]
		out[Idle] += float64(v.Allocatable.MilliCPU-v.Counted().MilliCPU) / 1000
		if v.Allocatable.MilliCPU > 0 {
			load.Add(cluster.Fraction(v.Counted().MilliCPU, v.Allocatable.MilliCPU))
		}
	}
	out[Imbalance] = load.Std()
	return out
}

// meter sums up the metrics in blocks of equal length.
type meter struct {
	source *Source
	blocks []Block
}

func newMeter(s *Source, blocks int) *meter { return &meter{s, make([]Block, blocks)} }

// starts returns the begin of a block. Block number `blocks` begins at the end of the window.
func (m *meter) starts(block int) int64 {
	return m.source.From + int64(float64(m.source.To-m.source.From)*float64(block)/float64(len(m.blocks)))
}

// blockAt returns the block of a time in the window.
func (m *meter) blockAt(t int64) int {
	i := int(float64(t-m.source.From) / float64(m.source.To-m.source.From) * float64(len(m.blocks)))
	i = min(max(i, 0), len(m.blocks)-1)
	for i > 0 && m.starts(i) > t {
		i--
	}
	for i+1 < len(m.blocks) && m.starts(i+1) <= t {
		i++
	}
	return i
}

// add counts a time in which the state was s.
func (m *meter) add(x span, s state) {
	for i := m.blockAt(x.from); x.from < x.to && i < len(m.blocks); i++ {
		part := span{x.from, min(x.to, m.starts(i+1))}
		seconds := float64(m.source.Watched(part.from, part.to)) / 1000
		b := &m.blocks[i]
		b.Seconds += seconds
		for k := range s {
			b.Sums[k] += s[k] * seconds
		}
		x.from = part.to
	}
}

// waited counts the wait of a pod that began to wait at a time.
func (m *meter) waited(from int64, seconds float64) {
	b := &m.blocks[m.blockAt(from)]
	b.Pods, b.Waited = b.Pods+1, b.Waited+seconds
}

// Prices holds hourly prices of nodes, in any currency.
type Prices struct {
	// Label is the label of nodes whose value Nodes prices; by default node.kubernetes.io/instance-type.
	Label string             `json:"label,omitempty"`
	Nodes map[string]float64 `json:"nodes,omitempty"` // by the label's value
	// Other prices nodes that are not in Nodes, by their capacity.
	Other Amounts `json:"other,omitempty"`
}

// Amounts are hourly prices of the parts of a node's capacity.
type Amounts struct {
	Core float64 `json:"core,omitempty"`
	GiB  float64 `json:"gib,omitempty"` // of memory
	GPU  float64 `json:"gpu,omitempty"`
}

// ParsePrices reads prices from YAML. Unknown fields are errors.
func ParsePrices(text []byte) (*Prices, error) {
	p := &Prices{}
	if err := yaml.UnmarshalStrict(text, p); err != nil {
		return nil, err
	}
	for name, x := range p.Nodes {
		if !price(x) {
			return nil, fmt.Errorf("nodes: %s: the price is %v, must be 0 or more", name, x)
		}
	}
	if o := p.Other; !price(o.Core) || !price(o.GiB) || !price(o.GPU) {
		return nil, errors.New("other: a price is below 0")
	}
	if len(p.Nodes) == 0 && p.Other == (Amounts{}) {
		return nil, errors.New("there are no prices: give nodes, other, or both")
	}
	p.Label = cmp.Or(p.Label, "node.kubernetes.io/instance-type")
	return p, nil
}

func price(x float64) bool { return x >= 0 && !math.IsInf(x, 0) }

// Of returns the hourly price of a node; known is false if it has no price.
func (p *Prices) Of(n *record.Node) (perHour float64, known bool) {
	if p == nil {
		return 0, true
	}
	if x, ok := p.Nodes[record.Labels(n.Labels)[p.Label]]; ok {
		return x, true
	}
	if p.Other == (Amounts{}) {
		return 0, false
	}
	return p.Other.Core*float64(n.MilliCPU)/1000 + p.Other.GiB*float64(n.Memory)/(1<<30) + p.Other.GPU*float64(n.GPU), true
}

// Watcher receives the events of a course while it is played. Times are seconds since the beginning of the window.
type Watcher interface {
	// Frame gets the nodes at a time, which it must not keep, and the number of waiting pods.
	Frame(at float64, nodes []*cluster.Node, waiting int)
	// Placed is called for a pod that gets a node in the window.
	Placed(p Placement)
	// Waited is called at the end with each pod of Course.Waits, and whether it got a node in the end.
	Waited(pod *record.Pod, seconds float64, placed bool)
}

// Placement is a pod that gets a node.
type Placement struct {
	At     float64
	Pod    *record.Pod
	Node   string
	Waited float64            // so far, in seconds
	By     *memcluster.Choice // nil: it really got the node
}

// film shows the state since the last event to the watcher, for all frames that are due before now, or at the end of the window.
func (p *course) film(now int64) error {
	n := p.config.Frames
	if p.config.Watch == nil || n < 2 {
		return nil
	}
	var nodes []*cluster.Node
	for length := p.source.To - p.source.From; p.frames < n; p.frames++ {
		due := length * int64(p.frames) / int64(n-1)
		if at := p.source.From + due; at >= now && at < p.source.To || now < p.source.To && at >= p.source.To {
			return nil
		}
		if nodes == nil {
			var err error
			if nodes, err = p.Nodes(); err != nil {
				return err
			}
		}
		p.config.Watch.Frame(float64(due)/1000, nodes, len(p.since))
	}
	return nil
}

// watchPlacement calls the watcher for a pod that gets a node, while it still counts as waiting.
func (p *course) watchPlacement(row int, node string, by *memcluster.Choice) {
	if p.config.Watch == nil {
		return
	}
	waited := p.waits[row]
	if from, waits := p.since[row]; waits {
		waited += p.source.Watched(from, p.now)
	}
	p.config.Watch.Placed(Placement{
		At: float64(p.now-p.source.From) / 1000, Pod: &p.source.Pods[row], Node: node, Waited: float64(waited) / 1000, By: by,
	})
}
