package infer_test

import (
	"fmt"
	"log"
	"math/rand/v2"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/feature"
	"gnnsched/gnn/graph"
	"gnnsched/gnn/infer"
)

// A network scores the candidates of one decision; this one is not trained. Package encode makes the graph of a real
// cluster; here it is of two empty nodes.
func ExampleSession_Score() {
	a := checkpoint.Architecture{Encoder: checkpoint.GNN, Head: checkpoint.DQN, Hidden: 32}
	net, err := infer.New(checkpoint.Random(a, rand.New(rand.NewPCG(1, 2))))
	if err != nil {
		log.Fatal(err)
	}
	w := net.Layout().Widths
	g := &graph.Graph{Widths: w, Zones: 1, PodX: make([]float32, w.Pod), ClusterX: make([]float32, w.Cluster)}
	g.Resize(2)
	g.ResizeCandidates(2)
	g.Candidates[0], g.Candidates[1] = 0, 1
	for i := range g.Stamp {
		g.Stamp[i] = graph.NextStamp() // the session keeps a node's embedding while its stamp stays the same
	}
	session := net.NewSession()
	out, err := session.Score(g, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("candidates:", len(out))
	fmt.Println("equal nodes have equal scores:", out[0] == out[1])
	// Output:
	// candidates: 2
	// equal nodes have equal scores: true
}

// A network on the GPU graph predicts how many GPUs of a node will stay idle. The best placement
// lowers that value the most.
func ExampleNodeSession() {
	c, err := checkpoint.Shipped("gpu-gnn")
	if err != nil {
		log.Fatal(err)
	}
	net, err := infer.New(c)
	if err != nil {
		log.Fatal(err)
	}
	session, w := net.Critic(), feature.DefaultGPU().Widths
	phi, psi := make([]float32, net.Width()), make([]float32, net.Width())
	session.Cluster(psi, make([]float32, w.Cluster))
	session.Node(phi, &graph.GPUNode{X: make([]float32, w.Node)}) // no devices
	fmt.Println(infer.Dot(phi, psi))
	// Output:
	// 0
}
