package contender

import (
	"encoding/binary"

	"gnnsched/scheduler/sim/vector"
)

// encode returns the name, type, shape and length of each array of the observation, and their bytes.
func (r *round) encode() (list [][4]any, bytes [][]byte) {
	a, w, rows, n := r.arrays, r.shape.Widths, r.arrays.Rows, len(r.seeds)
	add := func(name, kind string, data any, shape ...int) {
		b, err := binary.Append(nil, binary.LittleEndian, data)
		if err != nil {
			panic(err) // slices of numbers
		}
		list, bytes = append(list, [4]any{name, kind, shape, len(b)}), append(bytes, b)
	}
	add("candidate_offsets", "<i8", a.CandidateOffsets, n+1)
	add("action_mask", "<u1", a.Mask[:rows.Candidates], rows.Candidates)
	if w.Pod > 0 {
		add("pod_x", "<f4", a.PodX, n, w.Pod)
		add("cluster_x", "<f4", a.ClusterX, n, w.Cluster)
		add("candidate_x", "<f4", a.CandidateX[:rows.Candidates*w.Candidate], rows.Candidates, w.Candidate)
	}
	if r.shape.Graph || r.shape.Raw {
		add("candidate_node", "<i8", a.CandidateNode[:rows.Candidates], rows.Candidates)
		add("node_offsets", "<i8", a.NodeOffsets, n+1)
		add("zone_offsets", "<i8", a.ZoneOffsets, n+1)
	}
	if r.shape.Graph {
		add("node_x", "<f4", a.NodeX[:rows.Nodes*w.Node], rows.Nodes, w.Node)
		add("node_zone", "<i8", a.NodeZone[:rows.Nodes], rows.Nodes)
		add("group_x", "<f4", a.GroupX[:rows.Groups*w.Group], rows.Groups, w.Group)
		add("group_weight", "<f4", a.GroupWeight[:rows.Groups], rows.Groups)
		add("group_node", "<i8", a.GroupNode[:rows.Groups], rows.Groups)
	}
	if r.shape.Graph && w.Path > 0 {
		add("path_x", "<f4", a.PathX[:rows.Paths*w.Path], rows.Paths, w.Path)
		add("path_weight", "<f4", a.PathWeight[:rows.Paths], rows.Paths)
		add("path_candidate", "<i8", a.PathCandidate[:rows.Paths], rows.Paths)
		add("path_node", "<i8", a.PathNode[:rows.Paths], rows.Paths)
	}
	if r.shape.Raw {
		add("node_raw", "<i8", a.NodeRaw[:rows.Nodes*vector.RawNode], rows.Nodes, vector.RawNode)
		add("pod_raw", "<i8", a.PodRaw, n, vector.RawPod)
	}
	return list, bytes
}
