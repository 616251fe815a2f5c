package linear

import (
	"gnnsched/internal/cluster"
	"gnnsched/scheduler/policy/spread"
)

// zoneView is how the zones are used, and what one more pod in each would change of it.
type zoneView struct {
	rows          map[string]int
	used, offered []cluster.Resources // by row
	gain          []float64           // by row: how much the pod lowers objective zones, times nodes
}

// newZoneView looks at the available nodes that are in a zone, for a pod that asks for r.
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
		z.used[row], z.offered[row] = z.used[row].Plus(n.Requested), z.offered[row].Plus(n.Allocatable)
	}
	z.weigh(r, nodes)
	return z
}

func (z *zoneView) weigh(r cluster.Resources, nodes float64) {
	var cpu, mem spread.Sums
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

// of is the gain of a node in the zone of a name; 0 for none. A nil view knows no zones.
func (z *zoneView) of(name string) float64 {
	if z == nil {
		return 0
	}
	if row, known := z.rows[name]; known {
		return z.gain[row]
	}
	return 0
}
