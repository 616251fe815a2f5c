package value

import (
	"math/rand/v2"
	"unsafe"

	"gnnsched/gnn/graph"
)

// memory keeps the latest snapshots that take no more than a number of bytes.
type memory struct {
	limit     int
	snapshots []snapshot // the oldest first
	bytes     int
}

// add keeps s. The oldest snapshots go for it. others is the bytes that count besides the memory's own.
func (m *memory) add(s snapshot, others int) {
	m.snapshots = append(m.snapshots, s)
	m.bytes += s.bytes()
	gone := 0
	for m.bytes+others > m.limit && gone < len(m.snapshots)-1 {
		m.bytes -= m.snapshots[gone].bytes()
		gone++
	}
	clear(m.snapshots[:gone]) // the array behind them stays until append makes another
	m.snapshots = m.snapshots[gone:]
}

// draw fills a batch with snapshots drawn at random. The memory must not be empty.
func (m *memory) draw(rng *rand.Rand, batch []*snapshot) {
	for i := range batch {
		batch[i] = &m.snapshots[rng.IntN(len(m.snapshots))]
	}
}

// newest returns the latest snapshots that take no more than a number of bytes.
func (m *memory) newest(limit int) []snapshot {
	from := len(m.snapshots)
	for from > 0 && limit >= m.snapshots[from-1].bytes() {
		from--
		limit -= m.snapshots[from].bytes()
	}
	return m.snapshots[from:]
}

// bytes returns the memory that a snapshot takes.
func (s *snapshot) bytes() int {
	sum := int(unsafe.Sizeof(*s)) + 4*(len(s.Cluster)+len(s.Targets))
	for _, list := range [][]graph.GPUNode{s.Nodes, s.Before, s.After} {
		for _, n := range list {
			sum += int(unsafe.Sizeof(n)) + 4*(len(n.X)+len(n.Free))
		}
	}
	return sum
}
