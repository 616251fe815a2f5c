package feature

import "gnnsched/internal/cluster"

func init() { Register(topology) }

// topology describes which idle devices of a node are near each other, as far as their driver says so. With it in a layout a pod with
// several devices takes the ones nearest to each other (cluster.Node.NearDevices).
var topology = &Set{
	Name:     "topology",
	Doc:      "Idle devices by NUMA node, PCIe root and NVLink domain, and over how many of them a placement is spread.",
	Version:  1,
	GPU:      true,
	Topology: true,
	Node: []NodeBlock{
		{Features: levelFeatures("numa", "NUMA node"), Fill: func(n *Node, out []float32) {
			fillLevel(n, func(t *cluster.Topology) []string { return t.NUMA }, out)
		}},
		{Features: levelFeatures("root", "PCIe root"), Fill: func(n *Node, out []float32) {
			fillLevel(n, func(t *cluster.Topology) []string { return t.Roots }, out)
		}},
		linkedIdle("linked_2", "idle devices of NVLink domains of 2 with all of them idle / 8", 2),
		linkedIdle("linked_4", "the same of 4", 4),
		linkedIdle("linked_8", "the same of 8", 8),
	},
}

// The columns of the features of a level.
const (
	knownAt = iota
	mostAt
	fits2At
	fits4At
	fits8At
	spansAt
	groupColumns
)

// levelFeatures lists the features of a level of the topology. Nothing of a training without topologies shows spans.
func levelFeatures(name, level string) []Feature {
	return []Feature{
		knownAt: {Name: name + "_known", Doc: "1 if the driver publishes the " + level + " of devices, else 0; then the others are 0, too"},
		mostAt:  {Name: name + "_most", Doc: "idle devices of the " + level + " with most of them / 8"},
		fits2At: {Name: name + "_fits_2", Doc: "devices that pods with 2 could have which each lie on one " + level + " / 8"},
		fits4At: {Name: name + "_fits_4", Doc: "the same for pods with 4"},
		fits8At: {Name: name + "_fits_8", Doc: "the same for pods with 8"},
		spansAt: {Name: name + "_spans", Doc: "how often the devices that the placement takes lie on another " + level +
			" than the first / 8; 0 for the node as it is", Rare: true},
	}
}

func fillLevel(n *Node, level func(*cluster.Topology) []string, out []float32) {
	clear(out)
	if n.State.Topology == nil || level(n.State.Topology) == nil {
		return
	}
	values := level(n.State.Topology)
	out[knownAt] = 1
	for _, g := range cluster.Groups(values, n.Unused) {
		idle := g.Len()
		out[mostAt] = max(out[mostAt], float32(idle)/8)
		for i, k := range [...]int{2, 4, 8} {
			out[fits2At+i] += float32(idle-idle%k) / 8
		}
	}
	out[spansAt] = float32(max(len(cluster.Groups(values, n.Taken))-1, 0)) / 8
}

// linkedIdle returns the feature of NVLink domains of k devices.
func linkedIdle(name, doc string, k int) NodeBlock {
	return One(name, doc, func(n *Node) float32 {
		if n.State.Topology == nil {
			return 0
		}
		sum := 0
		for _, g := range cluster.Groups(n.State.Topology.Linked[k], n.Unused) {
			if g.Len() == k {
				sum += k
			}
		}
		return float32(sum) / 8
	})
}
