package experience_test

import (
	"bytes"
	"fmt"

	"gnnsched/gnn/feature"
	"gnnsched/gnn/graph"
	"gnnsched/scheduler/experience"
)

// A scheduler writes steps to a stream, and a learner reads them. The second step follows the first, so its state and cost are the result
// of the first.
func Example() {
	var pipe bytes.Buffer
	w, err := experience.NewWriter(&pipe)
	if err != nil {
		panic(err)
	}
	for number, cost := range []float64{0.5, 0.25} {
		g := &graph.Graph{
			Zones: 1, PodX: make([]float32, feature.Default().Widths.Pod), ClusterX: make([]float32, feature.Default().Widths.Cluster),
		}
		g.Resize(1)
		g.ResizeCandidates(1)
		s := experience.Step{Actor: "host/gnn", Epoch: 7, Number: uint64(number + 1), State: g, Before: cost, After: cost / 2}
		if err := w.Write(s); err != nil {
			panic(err)
		}
	}

	r, err := experience.NewReader(&pipe)
	if err != nil {
		panic(err)
	}
	var source experience.Source = r
	var last experience.Step
	for {
		s, err := source.Next()
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("step %d of %s lowers the cost by %g, follows the last one: %v\n", s.Number, s.Actor, s.Before-s.After, s.Follows(last))
		last = s
	}
	// Output:
	// step 1 of host/gnn lowers the cost by 0.25, follows the last one: false
	// step 2 of host/gnn lowers the cost by 0.125, follows the last one: true
	// EOF
}
