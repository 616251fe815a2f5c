package linear

import (
	"gnnsched/internal/cluster"
)

// zoneView holds the use of each zone, and what one more pod in it would change.
type zoneView struct {
	rows          map[string]int      // row of each zone, by name
	used, offered []cluster.Resources // by row
	gain          []float64           // by row: how much the pod would lower objective.Zones, times nodes
}

// newZoneView returns the view of the available nodes that have a zone, for a pod that requests r.
func newZoneView(s *cluster.Snapshot, r cluster.Resources) *zoneView {
	z := &zoneView{rows: map[string]int{}}
	nodes := 0.0
	for _, n := range s.Nodes {
		if !n.Available() {
			continue
		}
		nodes++
		if n.Zone == "" {
			continue
		}
		row, known := z.rows[n.Zone]
		if !known {
			row = len(z.rows)
			z.rows[n.Zone] = row
			z.used, z.offered = append(z.used, cluster.Resources{}), append(z.offered, cluster.Resources{})
		}
		z.used[row], z.offered[row] = z.used[row].Plus(n.Counted()), z.offered[row].Plus(n.Allocatable)
	}
	z.computeGains(r, nodes)
	return z
}

// computeGains computes the gain of each zone.
func (z *zoneView) computeGains(r cluster.Resources, nodes float64) {
	var cpu, mem cluster.Sums
	for i, offered := range z.offered {
		cpu.Add(cluster.Fraction(z.used[i].MilliCPU, offered.MilliCPU))
		mem.Add(cluster.Fraction(z.used[i].Memory, offered.Memory))
	}
	for i, offered := range z.offered {
		c := cpu.Moved(cluster.Fraction(z.used[i].MilliCPU, offered.MilliCPU), cluster.Fraction(r.MilliCPU, offered.MilliCPU))
		m := mem.Moved(cluster.Fraction(z.used[i].Memory, offered.Memory), cluster.Fraction(r.Memory, offered.Memory))
		z.gain = append(z.gain, nodes*(cpu.Std()+mem.Std()-c.Std()-m.Std())/2)
	}
}

// gainOf returns the gain of the zone of a name; 0 for a nil view and for nodes without a zone.
func (z *zoneView) gainOf(name string) float64 {
	if z == nil {
		return 0
	}
	if row, known := z.rows[name]; known {
		return z.gain[row]
	}
	return 0
}
