package sim

import (
	"fmt"
	"slices"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fragmentation"
	"gnnsched/workload/trace/openb"
)

// OpenB takes the nodes and pods of an openb trace. They are read from two files, or given as values
// by a program.
//
// With a Factor an episode follows the published protocol. The pods arrive one by one in an order
// that the seed draws. Then more pods are drawn from them at random, until all have requested
// Factor times the GPUs there are. No pod leaves, and a pod that does not fit when it arrives never
// gets a node.
//
// With Steady, pods that the seed draws come and go.
//
// Without either the pods come and go at the trace's times, resampled as in Resampling.
type OpenB struct {
	NodesFile string  `json:"nodes,omitempty"`  // openb_node_list_*.csv
	PodsFile  string  `json:"pods,omitempty"`   // openb_pod_list_*.csv
	Factor    float64 `json:"factor,omitempty"` // 1.3 in the publication; 0: the trace's times
	// InOrder keeps the nodes in the order of their file. Otherwise the seed shuffles them. The
	// published runs must have shuffled them too: most policies take the first of tied nodes,
	// and only a shuffled order reproduces their published spread over seeds.
	InOrder bool `json:"inOrder,omitempty"`
	// Loads are the amounts of arrivals, over the cluster's GPUs, at which the outcome also tells the state of
	// an episode with a Factor. They ascend.
	Loads      []float64 `json:"loads,omitempty"`
	Steady     *Steady   `json:"steady,omitempty"` // instead of a Factor
	Resampling           // for the times of the trace

	Nodes []openb.Node `json:"-"` // instead of NodesFile
	Pods  []openb.Pod  `json:"-"` // instead of PodsFile
}

func (c Config) validateOpenB(bad func(string, ...any)) {
	o := c.OpenB
	for _, x := range []struct {
		field string
		given bool
	}{{"nodes", o.NodesFile != "" || len(o.Nodes) > 0}, {"pods", o.PodsFile != "" || len(o.Pods) > 0}} {
		if !x.given {
			bad("openb.%s: is missing; name the file", x.field)
		}
	}
	if !(o.Factor >= 0 && o.Factor <= 100) {
		bad("openb.factor: %v is outside 0 to 100; 1.3 requests 130%% of the GPUs, 0 follows the times of the trace", o.Factor)
	}
	if o.Steady != nil {
		o.Steady.validate(bad)
		if o.Factor != 0 || o.Resampling != (Resampling{}) || c.Lose != 0 {
			bad("openb.steady: draws its own arrivals, and no node is lost; leave out factor, resample, block and lose")
		}
	}
	if o.Factor > 0 && o.Resampling != (Resampling{}) {
		bad("openb: resample and block are for the times of the trace; with a factor the seed draws the order of the pods")
	}
	o.validate("openb", true, bad)
	if !slices.IsSorted(o.Loads) || len(o.Loads) > 0 && (o.Factor == 0 || !(o.Loads[0] > 0)) {
		bad("openb.loads: %v need a factor, must be over 0 and ascend", o.Loads)
	}
	for _, x := range []struct {
		field string
		given bool
	}{
		{"nodes", c.Nodes != IntRange{}}, {"sizes", len(c.Sizes) > 0}, {"sizeKinds", c.SizeKinds != IntRange{}}, {"pools", len(c.Pools) > 0},
		{"zones", c.Zones != IntRange{}}, {"controlPlane", c.ControlPlane}, {"trace", c.Trace != nil},
	} {
		if x.given {
			bad("%s: the openb trace decides on nodes and pods; leave this out", x.field)
		}
	}
	c.noWorkload("openb trace", bad)
}

// read returns a copy of o with the nodes and pods of its files.
func (o OpenB) read() (_ *OpenB, err error) {
	if len(o.Nodes) == 0 {
		if o.Nodes, err = openb.LoadNodes(o.NodesFile); err != nil {
			return nil, fmt.Errorf("openb.nodes: %w", err)
		}
	}
	if len(o.Pods) == 0 {
		if o.Pods, err = openb.LoadPods(o.PodsFile); err != nil {
			return nil, fmt.Errorf("openb.pods: %w", err)
		}
	}
	return &o, nil
}

// nodes returns the nodes without any pods.
func (o *OpenB) nodes(seed uint64) []*cluster.Node {
	out := make([]*cluster.Node, len(o.Nodes))
	for i, n := range o.Nodes {
		out[i] = n.Cluster()
	}
	if !o.InOrder {
		stream(seed, streamCluster).Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	}
	return out
}

// arrivals returns the pods of an episode.
func (o *OpenB) arrivals(seed uint64, _ []*cluster.Node) (arrivalList, error) {
	if o.Steady != nil {
		return o.steadyArrivals(seed)
	}
	if o.Factor == 0 {
		t := openb.Trace(o.Pods)
		if o.on(true) {
			t = o.resample(stream(seed, streamWorkload), t, 0)
		}
		return fromTrace(t), nil
	}
	pods, err := openb.Inflate(o.Pods, o.Factor, openb.GPUMilli(o.Nodes), seed)
	if err != nil {
		return arrivalList{}, fmt.Errorf("openb: %w", err)
	}
	a := fromTrace(openb.InOrder(pods))
	a.lifetime = nil
	a.exact = false
	a.fill = len(a.pods) // no pod leaves, so all of it is the fill
	return a, nil
}

// bound returns the bound of the allocation at a load in the episode of a seed. The last pod of the arrivals takes the requests over the
// load.
func (o *OpenB) bound(load float64, seed uint64) float64 {
	arrivals, err := openb.Inflate(o.Pods, load, openb.GPUMilli(o.Nodes), seed)
	if err != nil {
		return 1 // the same arrivals have been drawn before
	}
	return min(openb.Bound(o.Nodes, arrivals), load+0.001)
}

// atTraceTimes reports whether pods come and go at the times of the trace.
func (o *OpenB) atTraceTimes() bool { return o.Factor == 0 && o.Steady == nil }

// fixed reports whether every seed has the same arrivals.
func (o *OpenB) fixed() bool { return o.atTraceTimes() && (!o.on(true) || len(o.Pods) < 2) }

// Typical returns the typical pods of the trace, or of the shapes by weight. It is nil if every
// deployment draws its own requests.
func (e *Env) Typical() *fragmentation.Typical { return e.typical }

func (o *OpenB) demand() (arriving, running []fragmentation.Demand) {
	for _, p := range o.Pods {
		arriving = append(arriving, demandOf(p.Shape(), 1))
		if o.Steady != nil {
			running = append(running, demandOf(p.Shape(), p.Lifetime()))
		}
	}
	return arriving, running
}
