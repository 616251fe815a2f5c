package eval

import (
	"slices"
	"strings"

	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/sim"
)

// Metric is one figure of an outcome. Less is better for all of them.
type Metric struct {
	Name   string // of its column and in JSON
	Title  string // for people
	Digits int    // after the point
	Of     func(sim.Outcome) float64
	// Shown tells whether it says something in a comparison. Tables for people, which are wide
	// enough, leave it out where not; nil means that they always have it.
	Shown func(*Comparison) bool
}

// The two that no report leaves out.
var (
	Objective   = Metric{"cost", "objective", 4, func(o sim.Outcome) float64 { return o.Cost }, nil}
	Unscheduled = Metric{"unscheduled", "unscheduled", 1, func(o sim.Outcome) float64 { return float64(o.Unscheduled) }, nil}
)

// Metrics are what is reported, in the order of the columns.
var Metrics = []Metric{
	Objective,
	{"cpuStd", "cpu std", 4, func(o sim.Outcome) float64 { return o.CPUStd }, nil},
	{"cpuVariance", "cpu variance", 6, func(o sim.Outcome) float64 { return o.CPUVariance }, nil},
	{"memoryStd", "memory std", 4, func(o sim.Outcome) float64 { return o.MemoryStd }, nil},
	{"imbalance", "imbalance", 4, func(o sim.Outcome) float64 { return o.Imbalance }, nil},
	Unscheduled,
	{"waited", "waited", 1, func(o sim.Outcome) float64 { return float64(o.Waited) }, nil},
	{"nodesInUse", "nodes in use", 1, func(o sim.Outcome) float64 { return float64(o.NodesInUse) }, nil},
	{"meanNodesInUse", "mean in use", 1, func(o sim.Outcome) float64 { return o.MeanNodesInUse }, nil},
	{"zoneStd", "zone std", 4, func(o sim.Outcome) float64 { return o.ZoneStd }, whereZones},
	{"roomLost", "room lost", 4, func(o sim.Outcome) float64 { return 1 - o.Room }, whereFor(objective.Pack{}, objective.Fragmentation{})},
	{"fragmentation", "fragmentation", 4, func(o sim.Outcome) float64 { return o.Fragmentation }, whereFor(objective.Fragmentation{})},
	{"pending", "pending", 1, func(o sim.Outcome) float64 { return o.Pending }, nowhere},
	{"evicted", "evicted", 1, func(o sim.Outcome) float64 { return float64(o.Evicted) }, nowhere},
	{"gpuIdle", "gpu idle", 4, gpuIdle, whereGPUs},
	{"gpuStranded", "gpu stranded", 4, gpuStranded, whereGPUs},
}

// compared are the metrics whose differences are reported, with their intervals.
var compared = []string{"cost", "cpuStd", "imbalance", "unscheduled", "nodesInUse", "zoneStd", "roomLost", "gpuIdle"}

// shown tells whether tables for people have the metric.
func (c *Comparison) shown(m Metric) bool { return m.Shown == nil || m.Shown(c) }

func nowhere(*Comparison) bool { return false }

func whereGPUs(c *Comparison) bool {
	return slices.ContainsFunc(c.Results[0].Outcomes, func(o sim.Outcome) bool { return o.GPU != nil })
}

// whereZones tells whether the clusters have several zones: with one they are used evenly.
func whereZones(c *Comparison) bool {
	return slices.ContainsFunc(c.Results, func(r Result) bool {
		return slices.ContainsFunc(r.Outcomes, func(o sim.Outcome) bool { return o.ZoneStd > 0 })
	})
}

// whereFor tells whether the scenario's objective has one of the terms.
func whereFor(terms ...objective.Term) func(*Comparison) bool {
	return func(c *Comparison) bool {
		return slices.ContainsFunc(c.Scenario.Objective, func(w objective.Weighted) bool {
			return slices.ContainsFunc(terms, func(t objective.Term) bool { return t.Name() == w.Term.Name() })
		})
	}
}

// gpuIdle is the fraction of the GPUs that nobody uses, 0 where there are none.
func gpuIdle(o sim.Outcome) float64 {
	if o.GPU == nil {
		return 0
	}
	return 1 - o.GPU.Allocation
}

// gpuStranded is the fraction of the GPUs that is idle for want of CPU, 0 where there are none.
func gpuStranded(o sim.Outcome) float64 {
	if o.GPU == nil {
		return 0
	}
	return o.GPU.Stranded
}

// FindMetric returns the metric of a name.
func FindMetric(name string) (Metric, bool) {
	for _, m := range Metrics {
		if m.Name == name {
			return m, true
		}
	}
	return Metric{}, false
}

// metric is the one of a name that is part of the program.
func metric(name string) Metric {
	m, known := FindMetric(name)
	if !known {
		panic("eval: no metric " + name)
	}
	return m
}

func metricNames() string {
	names := make([]string, len(Metrics))
	for i, m := range Metrics {
		names[i] = m.Name
	}
	return strings.Join(names, ", ")
}
