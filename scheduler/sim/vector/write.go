package vector

import "gnnsched/internal/cluster"

// write writes the results and the observation of environment i.
func (v *Vector) write(i int) error {
	w, a, at := v.worlds[i], v.arrays, v.offsets[i]
	r := &a.Results
	r.Reward[i], r.Terminated[i], r.Unscheduled[i], r.Decisions[i], r.Seed[i] = w.reward, 0, -1, w.decisions, w.seed
	r.Objective[i], r.Waited[i] = w.env.Cost(), int64(w.env.Waited())
	if w.ended {
		r.Terminated[i] = 1
	}
	if w.over && w.outcome != nil {
		r.Objective[i], r.Unscheduled[i] = w.outcome.Cost, int64(w.outcome.Unscheduled)
	}
	first, rows := at.Candidates, len(w.mask)
	if a.Slots > 0 {
		first, rows = i*a.Slots, a.Slots
	}
	mask := a.Mask[first : first+rows]
	clear(mask[copy(mask, w.mask):])
	if a.CandidateNode != nil {
		w.writeNodes(a.CandidateNode[first:first+rows], int64(at.Nodes))
	}
	if a.PodX != nil {
		v.writeFeatures(i, first, rows)
	}
	if a.graph() {
		v.writeGraph(i)
	}
	if a.NodeRaw != nil {
		w.writeRaw(a.NodeRaw[at.Nodes*RawNode:], a.PodRaw[i*RawPod:(i+1)*RawPod])
	}
	return nil
}

// writeNodes writes the row of each candidate's node, and the environment's first node for rows that are no candidates.
func (w *world) writeNodes(to []int64, first int64) {
	for k := range to {
		to[k] = first
	}
	if w.over {
		return
	}
	for k, row := range w.env.Candidates() {
		to[k] = first + int64(row)
	}
}

// writeFeatures writes the features of environment i: the encoder writes them there unless it has encoded the decision before.
func (v *Vector) writeFeatures(i, first, rows int) {
	w, a := v.worlds[i], v.arrays
	pod, cl := cut(a.PodX, i, i+1, v.widths.Pod), cut(a.ClusterX, i, i+1, v.widths.Cluster)
	candidates := cut(a.CandidateX, first, first+rows, v.widths.Candidate)
	switch g := w.graph; {
	case w.over:
		clear(pod)
		clear(cl)
		clear(candidates)
	case w.encoded == w.decision:
		copy(pod, g.PodX)
		copy(cl, g.ClusterX)
		clear(candidates[copy(candidates, g.CandidateX):])
	default:
		podX, clusterX, candidateX := g.PodX, g.ClusterX, g.CandidateX
		g.PodX, g.ClusterX, g.CandidateX = pod, cl, candidates
		w.encoder.Encode(w.env.Snapshot(), w.env.Pending(), w.env.Candidates())
		g.PodX, g.ClusterX, g.CandidateX = podX, clusterX, candidateX
	}
}

// writeGraph writes the nodes, groups and paths of environment i.
func (v *Vector) writeGraph(i int) {
	w, a, at, end := v.worlds[i], v.arrays, v.offsets[i], v.offsets[i+1]
	if w.over {
		if a.NodeX != nil {
			clear(cut(a.NodeX, at.Nodes, end.Nodes, v.widths.Node))
			a.NodeZone[at.Nodes] = int64(at.Zones)
		}
		return
	}
	g := w.graph
	if a.NodeX != nil {
		copy(a.NodeX[at.Nodes*v.widths.Node:], g.NodeX)
		for k, z := range g.Zone {
			a.NodeZone[at.Nodes+k] = int64(at.Zones) + int64(z)
		}
	}
	if a.GroupX != nil {
		next := at.Groups
		for k := range g.Groups {
			copy(a.GroupX[next*v.widths.Group:], g.Groups[k].X)
			copy(a.GroupWeight[next:], g.Groups[k].Weight)
			for range g.Groups[k].Weight {
				a.GroupNode[next] = int64(at.Nodes + k)
				next++
			}
		}
	}
	if a.PathX != nil {
		v.writePaths(i)
	}
}

func (v *Vector) writePaths(i int) {
	g, a, at := v.worlds[i].graph, v.arrays, v.offsets[i]
	first := at.Candidates
	if a.Slots > 0 {
		first = i * a.Slots
	}
	copy(a.PathX[at.Paths*v.widths.Path:], g.PathX)
	next := at.Paths
	for c := range g.Candidates {
		for k, row := range g.Peers {
			a.PathCandidate[next], a.PathNode[next], a.PathWeight[next] = int64(first+c), int64(at.Nodes)+int64(row), g.PeerWeight[k]
			next++
		}
	}
}

// writeRaw writes the integers behind the features.
func (w *world) writeRaw(nodes, pod []int64) {
	if w.over {
		clear(nodes[:RawNode])
		clear(pod)
		return
	}
	for k, n := range w.env.Snapshot().Nodes {
		amounts(nodes[k*RawNode:], n.Allocatable)
		amounts(nodes[k*RawNode+RawPod:], n.Requested)
	}
	amounts(pod, w.env.Pending().Requests)
}

func amounts(out []int64, r cluster.Resources) {
	out[0], out[1], out[2], out[3], out[4] = r.MilliCPU, r.Memory, r.GPU, r.GPUMilli, r.Pods
}
