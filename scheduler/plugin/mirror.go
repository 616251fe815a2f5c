package plugin

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
)

// mirror keeps plain values of the scheduler's snapshot, and converts again only the nodes
// whose generation changed. Generations are unique in a process, so one and the same
// generation is one and the same state of one node.
type mirror struct {
	snapshot   cluster.Snapshot
	infos      []fwk.NodeInfo // what each row was converted from
	generation []int64        // and when; 0 for not yet

	// row is the row of each node by name. It is replaced, never changed: Score reads the
	// one of its own cycle.
	row map[string]int32
}

// sync brings the mirror up to date with the nodes of the snapshot.
func (m *mirror) sync(infos []fwk.NodeInfo) {
	if len(infos) != len(m.infos) {
		m.rearrange(infos)
	}
	for i, info := range infos {
		g := info.GetGeneration()
		if g == m.generation[i] && info == m.infos[i] {
			continue // by far the most: between two pods, one node changes
		}
		if n := m.snapshot.Nodes[i]; n != nil && n.Name != info.Node().Name {
			m.rearrange(infos)
			m.sync(infos)
			return
		}
		if g != m.generation[i] {
			m.snapshot.Nodes[i] = convertNode(info)
		}
		m.infos[i], m.generation[i] = info, g
	}
}

// rearrange gives every node its row and keeps what is known of the nodes that stay.
func (m *mirror) rearrange(infos []fwk.NodeInfo) {
	old := *m
	*m = mirror{
		snapshot: cluster.Snapshot{Nodes: make([]*cluster.Node, len(infos))},
		infos:    slices.Clone(infos), generation: make([]int64, len(infos)), row: make(map[string]int32, len(infos)),
	}
	for i, info := range infos {
		name := info.Node().Name
		m.row[name] = int32(i)
		if r, known := old.row[name]; known {
			m.snapshot.Nodes[i], m.generation[i] = old.snapshot.Nodes[r], old.generation[r]
		}
	}
}

// rows appends the row of each of nodes, which are in the snapshot, to out. Filters leave most
// of them in the snapshot's order, so the next row is tried before the index.
func (m *mirror) rows(nodes []fwk.NodeInfo, out []int32) []int32 {
	next := int32(0)
	for _, n := range nodes {
		if int(next) >= len(m.infos) || m.infos[next] != n {
			next = m.row[n.Node().Name]
		}
		out = append(out, next)
		next++
	}
	return out
}

// convertNode converts one node and the pods on it.
func convertNode(info fwk.NodeInfo) *cluster.Node {
	n := kube.NodeWith(info.Node(), amounts(info.GetAllocatable()))
	running := make([]kube.RunningPod, 0, len(info.GetPods()))
	for _, p := range info.GetPods() {
		running = append(running, runningPod(p))
	}
	kube.Place(n, running)
	n.Generation = info.GetGeneration()
	return n
}

// runningPod converts a pod that runs on a node. A pod with a contradictory GPU request was bound by
// another scheduler, or its owner changed it later; the resources that it requests count.
func runningPod(p fwk.PodInfo) kube.RunningPod {
	running, _ := kube.RunningWith(p.GetPod(), amounts(p.CalculateResource().Resource))
	return running
}

// amounts returns figures that kube-scheduler keeps for each node and pod.
func amounts(r fwk.Resource) kube.Amounts {
	scalar := r.GetScalarResources()
	return kube.Amounts{
		MilliCPU: r.GetMilliCPU(), Memory: r.GetMemory(), Pods: int64(r.GetAllowedPodNumber()),
		GPU: scalar[kube.GPUResource], GPUCount: scalar[kube.GPUCountResource], GPUMilli: scalar[kube.GPUMilliResource],
	}
}

// convertPod converts the pod of a scheduling cycle. It ignores a contradictory GPU request, because
// GPUShares rejects the pod.
func convertPod(pod *v1.Pod) cluster.Pod {
	out, _ := kube.Pod(pod)
	return out
}
