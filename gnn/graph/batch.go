package graph

// Batch is several graphs of stars as one, with no edges between them: indices run over the whole batch.
type Batch struct {
	Size int // B, the number of graphs

	NodeX     []float32 // ΣN × features: the centres of the stars
	NodeGraph []int64   // ΣN: graph

	DeviceFree []float32 // ΣD: free part of each device
	DeviceNode []int64   // ΣD: row of the node

	ClusterX []float32 // B × features
}

// Begin adds a graph: the cluster with its features. AddStar adds its nodes.
func (b *Batch) Begin(cluster []float32) {
	b.ClusterX = append(b.ClusterX, cluster...)
	b.Size++
}

// AddStar adds a node with its devices to the graph that was begun last.
func (b *Batch) AddStar(n *GPUNode) {
	row := int64(len(b.NodeGraph))
	b.NodeX = append(b.NodeX, n.X...)
	b.NodeGraph = append(b.NodeGraph, int64(b.Size)-1)
	b.DeviceFree = append(b.DeviceFree, n.Free...)
	for range n.Free {
		b.DeviceNode = append(b.DeviceNode, row)
	}
}
