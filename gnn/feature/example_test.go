package feature_test

import (
	"fmt"
	"log"

	"gnnsched/gnn/feature"
)

// A set with one feature of nodes. A checkpoint reads it if its architecture has
// Features: []string{"base", "exampleSlots"}; all other checkpoints stay as they are.
func ExampleRegister() {
	feature.Register(&feature.Set{
		Name: "exampleSlots", Doc: "Free pod slots.", Version: 1,
		Node: []feature.NodeBlock{
			feature.One("slots", "free pod slots / 110", func(n *feature.Node) float32 {
				return float32(n.State.Free().Pods) / 110
			}),
		},
	})
	layout, err := feature.NewLayout([]string{"base", "exampleSlots"})
	if err != nil {
		log.Fatal(err)
	}
	for i, f := range feature.List(layout.Node) {
		fmt.Printf("%2d %-12s %s\n", i, f.Name, f.Doc)
	}
	// Output:
	//  0 cpu          requested / allocatable CPU
	//  1 memory       requested / allocatable memory
	//  2 pods         running pods / pod slots
	//  3 gpu          requested / allocatable GPUs
	//  4 imbalance    |cpu - memory|
	//  5 log_cpu      log2(allocatable CPU / mean over the nodes), within ±4
	//  6 log_memory   log2(allocatable memory / mean over the nodes), within ±4
	//  7 has_gpu      1 if the node has GPUs, else 0
	//  8 unavailable  1 if the node is cordoned or tainted against ordinary pods, else 0
	//  9 slots        free pod slots / 110
}
