package experience_test

import (
	"bytes"
	"fmt"

	"gnnsched/gnn/feature"
	"gnnsched/scheduler/experience"
)

// A scheduler writes steps to a stream, and a learner reads them.
func Example() {
	var pipe bytes.Buffer
	w, err := experience.NewWriter(&pipe)
	if err != nil {
		panic(err)
	}
	for number, waiting := range []float64{3, 1} {
		s := experience.Step{Actor: "host/gnn", Epoch: 7, Number: uint64(number + 1), Kinds: []experience.Kind{
			{Key: 1, Seen: feature.Kind{Waiting: waiting, Free: 2}, Waits: 0.5 * waiting},
		}}
		if err := w.Write(s); err != nil {
			panic(err)
		}
	}

	r, err := experience.NewReader(&pipe)
	if err != nil {
		panic(err)
	}
	var source experience.Source = r
	for {
		s, err := source.Next()
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("step %d of %s: %g %% of the cluster waits\n", s.Number, s.Actor, s.Waits())
	}
	// Output:
	// step 1 of host/gnn: 1.5 % of the cluster waits
	// step 2 of host/gnn: 0.5 % of the cluster waits
	// EOF
}
