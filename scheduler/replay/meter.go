package replay

import (
	"gnnsched/internal/cluster"
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
