package sim

import (
	"fmt"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fragmentation"
	"gnnsched/workload"
	"gnnsched/workload/trace/openb"
)

// OpenB is the machines and pods of an openb trace: by two files, or as values for a program
// that makes workloads of its own.
//
// With a Factor an episode is the published protocol: the pods come one by one in an order
// that the seed draws, and more of them drawn at random, until they have asked for that many
// times the GPUs that there are. Nobody leaves, and what does not fit when it comes never
// gets a node. Without, the pods come and go at the trace's times.
type OpenB struct {
	NodesFile string  `json:"nodes,omitempty"`  // openb_node_list_*.csv
	PodsFile  string  `json:"pods,omitempty"`   // openb_pod_list_*.csv
	Factor    float64 `json:"factor,omitempty"` // 1.3 as published; 0: replay
	// InOrder keeps the nodes in the order of their file. Otherwise the seed draws an order,
	// as the published runs must have done: most policies take the first of equals, and only
	// then does their spread over seeds come out as published.
	InOrder bool `json:"inOrder,omitempty"`

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
		bad("openb.factor: %v is outside 0 to 100; 1.3 asks for 130%% of the GPUs, 0 replays the trace", o.Factor)
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

// read returns o with the values of its files.
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

// nodes are the machines with nothing running.
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

// arrivals are the pods of an episode.
func (o *OpenB) arrivals(seed uint64) (arrivals, error) {
	if o.Factor == 0 {
		return fromTrace(openb.Trace(o.Pods)), nil
	}
	pods, err := openb.Inflate(o.Pods, o.Factor, openb.GPUMilli(o.Nodes), seed)
	if err != nil {
		return arrivals{}, fmt.Errorf("openb: %w", err)
	}
	a := fromTrace(openb.InOrder(pods))
	a.lifetime, a.exact, a.fill = nil, false, len(a.pods) // nobody leaves, so that it is all fill
	return a, nil
}

// Typical are the typical pods of what an episode's pods are drawn from: the trace, or the
// shapes by weight. It is nil where every deployment asks for something else.
func (e *Env) Typical() *fragmentation.Typical { return e.typical }

// demand is what the pods of the configuration ask for and how often.
func (e *Env) demand() (out []fragmentation.Demand) {
	add := func(s workload.Shape, count float64) {
		out = append(out, fragmentation.Demand{Requests: s.Requests, Models: s.GPUModels, Count: count})
	}
	switch {
	case e.openb != nil:
		for _, p := range e.openb.Pods {
			add(p.Shape(), 1)
		}
	case e.trace != nil:
		for _, a := range e.trace {
			add(a.Deployment.Shape, float64(a.Deployment.Replicas))
		}
	default:
		for _, s := range e.cfg.Shapes {
			add(s, s.Weight)
		}
	}
	return out
}
