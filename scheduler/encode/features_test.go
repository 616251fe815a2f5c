package encode_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"gnnsched/gnn/feature"
	"gnnsched/gnn/graph"
	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/encode"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/linear"
	"gnnsched/scheduler/sim"
)

// The set whole gives a network the sums that the linear policy computes over all available nodes.
func TestWholeHasTheLinearFeatures(t *testing.T) {
	layout := fatal.Value(feature.NewLayout([]string{"base", "whole"}))(t)
	columns := map[string]int{} // by the linear policy's name
	for i, f := range feature.List(layout.Candidate) {
		if name, ok := map[string]string{
			"all_balance": "balance", "all_skew": "skew", "all_over": "over", "match": "match", "size": "size", "empty": "empty",
		}[f.Name]; ok {
			columns[name] = i
		}
	}
	if len(columns) != 6 {
		t.Fatalf("columns %v", columns)
	}
	s := fatal.Value(eval.Find("small8"))(t)
	env := fatal.Value(sim.New(s.Config))(t)
	fatal.If(t, env.Reset(1))
	encoder := encode.New(layout)
	compared := 0
	for step := 0; !env.Done() && step < 400; step++ {
		rows := env.Candidates()
		g := encoder.Encode(env.Snapshot(), env.Pending(), rows)
		scores := make([]float32, len(rows))
		for name, column := range columns {
			if step%20 != 0 {
				break
			}
			weights := make([]float64, len(linear.Features))
			weights[slices.Index(linear.Features, name)] = 1
			p := fatal.Value(linear.New(name, weights))(t)
			fatal.If(t, p.Score(env.Snapshot(), env.Pending(), rows, scores))
			for i, want := range scores {
				want = max(min(want, 4), -4)
				if got := g.CandidateRow(i)[column]; math.Abs(float64(got-want)) > 2e-3 {
					t.Fatalf("step %d, %s of candidate %d: %v, the linear policy has %v", step, name, i, got, want)
				} else if got != 0 {
					compared++
				}
			}
		}
		fatal.If(t, linear.Tuned("linear").Score(env.Snapshot(), env.Pending(), rows, scores))
		env.Step(policy.Best(scores))
	}
	if compared < 300 {
		t.Errorf("%d values were compared", compared)
	}
}

// One encoder follows a cluster: after a placement it encodes the changed node again, and nothing
// else.
func ExampleEncoder() {
	offer := cluster.Resources{MilliCPU: 4000, Memory: 16 << 30, Pods: 110}
	snapshot := &cluster.Snapshot{Nodes: []*cluster.Node{
		{Name: "a", Version: cluster.NextVersion(), Allocatable: offer},
		{Name: "b", Version: cluster.NextVersion(), Allocatable: offer},
	}}
	pod := &cluster.Pod{Requests: cluster.Resources{MilliCPU: 1000, Memory: 2 << 30, Pods: 1}}

	layout := feature.Default()
	encoder := encode.New(layout)
	for range 2 {
		g := encoder.Encode(snapshot, pod, []int32{0, 1}) // the pod may go on a or b
		for c, row := range g.Candidates {
			fmt.Printf("%s: %s would be %.2f\n", snapshot.Nodes[row].Name, feature.List(layout.Candidate)[0].Name, g.CandidateRow(c)[0])
		}
		snapshot.Nodes[0].Add(pod.Requests)
	}
	// Output:
	// a: cpu would be 0.25
	// b: cpu would be 0.25
	// a: cpu would be 0.50
	// b: cpu would be 0.25
}

// On the GPU graph a candidate is the node as it will be after the placement on some of its devices.
func ExampleStars() {
	node := &cluster.Node{
		Name: "gpu-0", Allocatable: cluster.Resources{MilliCPU: 32_000, Memory: 128 << 30, GPU: 2, Pods: 110}, GPUs: []int64{0, 600},
	}
	pod := cluster.Resources{MilliCPU: 4000, Memory: 8 << 30, GPUMilli: 300, Pods: 1}

	encoder := encode.NewStars(feature.DefaultGPU(), nil) // the workload is not known
	var before, after graph.GPUNode
	encoder.Node(&before, node, cluster.Resources{}, 0)
	encoder.Node(&after, node, pod, cluster.Device(1))
	fmt.Println("free parts of the devices:", before.Free, "then", after.Free)
	// Output:
	// free parts of the devices: [1 0.4] then [1 0.1]
}
