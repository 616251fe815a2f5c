package eval

import (
	"slices"

	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/sim"
)

// Metric is one figure of an outcome. Less is better for all Metrics of this package.
type Metric struct {
	Name   string // in thresholds, CSV and JSON
	Title  string // in tables for people
	Digits int    // after the point
	Of     func(sim.Outcome) float64
	// shown tells whether tables for people show the metric in a comparison. It hides metrics that
	// say nothing there, such as GPUs on a cluster without GPUs.
	shown func(*Comparison) bool
}

// Objective and Unscheduled are the metrics that every report shows.
var (
	Objective   = Metric{"cost", "objective", 4, func(o sim.Outcome) float64 { return o.Cost }, always}
	Unscheduled = Metric{"unscheduled", "unscheduled", 1, func(o sim.Outcome) float64 { return float64(o.Unscheduled) }, always}
)

// Metrics are all metrics, in the order of the columns.
var Metrics = []Metric{
	Objective,
	{"meanCost", "over time", 4, func(o sim.Outcome) float64 { return o.MeanCost }, always},
	{"cpuStd", "cpu std", 4, func(o sim.Outcome) float64 { return o.CPUStd }, always},
	{"cpuVariance", "cpu variance", 6, func(o sim.Outcome) float64 { return o.CPUVariance }, always},
	{"memoryStd", "memory std", 4, func(o sim.Outcome) float64 { return o.MemoryStd }, always},
	{"imbalance", "imbalance", 4, func(o sim.Outcome) float64 { return o.Imbalance }, always},
	Unscheduled,
	{"waited", "waited", 1, func(o sim.Outcome) float64 { return float64(o.Waited) }, always},
	{"nodesInUse", "nodes in use", 1, func(o sim.Outcome) float64 { return float64(o.NodesInUse) }, always},
	{"meanNodesInUse", "mean in use", 1, func(o sim.Outcome) float64 { return o.MeanNodesInUse }, always},
	{"zoneStd", "zone std", 4, func(o sim.Outcome) float64 { return o.ZoneStd }, whereZones},
	{"roomLost", "room lost", 4, func(o sim.Outcome) float64 { return 1 - o.Room }, whereFor(objective.Pack{}, objective.Fragmentation{})},
	{"fragmentation", "fragmentation", 4, func(o sim.Outcome) float64 { return o.Fragmentation }, whereFor(objective.Fragmentation{})},
	{"pending", "pending", 1, func(o sim.Outcome) float64 { return o.Pending }, nowhere},
	{"evicted", "evicted", 1, func(o sim.Outcome) float64 { return float64(o.Evicted) }, nowhere},
	{"gpuIdle", "gpu idle", 4, ofGPUs(func(g *sim.GPUOutcome) float64 { return 1 - g.Allocation }), whereGPUs},
	{"gpuIdleOverTime", "gpu idle over time", 4, ofGPUs(func(g *sim.GPUOutcome) float64 { return g.MeanIdle }), whereGPUs},
	{"ordinaryImbalance", "ordinary nodes", 4, ofGPUs(func(g *sim.GPUOutcome) float64 { return g.OrdinaryImbalance }), whereGPUs},
	{"gpuStranded", "gpu stranded", 4, ofGPUs(func(g *sim.GPUOutcome) float64 { return g.Stranded }), whereGPUs},
	{"throttled", "throttled", 0, ofUsage(func(u *sim.UsageOutcome) float64 { return u.Throttled }), whereUsage},
	{"throttledPart", "throttled part", 4, ofUsage(func(u *sim.UsageOutcome) float64 { return u.ThrottledPart }), whereUsage},
	{"batchSlowdown", "batch slowdown", 3, ofUsage(func(u *sim.UsageOutcome) float64 { return u.BatchSlowdown }), whereUsage},
	{"hotTime", "hot time", 4, ofUsage(func(u *sim.UsageOutcome) float64 { return u.HotTime }), whereUsage},
	{"cpuUnused", "cpu unused", 4, ofUsage(func(u *sim.UsageOutcome) float64 { return 1 - u.Utilisation }), whereUsage},
	{"watts", "watts", 0, ofUsage(func(u *sim.UsageOutcome) float64 { return u.Watts }), whereUsage},
	{"joulesOfWork", "joules of work", 3, ofUsage(func(u *sim.UsageOutcome) float64 { return u.JoulesOfWork }), whereUsage},
	{"resourcesUnused", "resources unused", 4, ofUsage(func(u *sim.UsageOutcome) float64 { return 1 - u.InUse }), whereUsage},
	{"usageImbalance", "usage imbalance", 4, ofUsage(func(u *sim.UsageOutcome) float64 { return u.Imbalance }), whereUsage},
	{"distance", "distance", 4, ofTraffic(func(t *sim.TrafficOutcome) float64 { return t.Distance }), whereTraffic},
	{"latency", "latency", 3, ofTraffic(func(t *sim.TrafficOutcome) float64 { return t.Latency }), whereTraffic},
	{"price", "price", 4, ofTraffic(func(t *sim.TrafficOutcome) float64 { return t.Price }), whereTraffic},
	{"zoneTraffic", "between zones", 4, ofTraffic(func(t *sim.TrafficOutcome) float64 { return t.Zones }), whereTraffic},
	{"excess", "excess", 4, ofTraffic(func(t *sim.TrafficOutcome) float64 { return t.Excess }), whereTraffic},
	{"overloadedLinks", "overloaded links", 4, ofTraffic(func(t *sim.TrafficOutcome) float64 { return t.Overload }), whereTraffic},
}

// compared names the metrics whose differences from the baseline the long table shows.
var compared = []string{"cost", "meanCost", "cpuStd", "imbalance", "unscheduled", "nodesInUse", "zoneStd", "roomLost", "gpuIdle", "gpuIdleOverTime", "ordinaryImbalance", "throttled", "hotTime", "watts", "joulesOfWork", "resourcesUnused", "usageImbalance", "latency", "price", "zoneTraffic", "overloadedLinks"}

// Shows tells whether tables for people have the metric.
func (c *Comparison) Shows(m Metric) bool { return m.shown(c) }

func always(*Comparison) bool { return true }

func nowhere(*Comparison) bool { return false }

func whereGPUs(c *Comparison) bool {
	return slices.ContainsFunc(c.Results[0].Outcomes, func(o sim.Outcome) bool { return o.GPU != nil })
}

func whereUsage(c *Comparison) bool {
	return slices.ContainsFunc(c.Results[0].Outcomes, func(o sim.Outcome) bool { return o.Usage != nil })
}

// ofUsage returns a function that measures what an episode's pods used, and is 0 where usage is not played.
func ofUsage(of func(*sim.UsageOutcome) float64) func(sim.Outcome) float64 {
	return func(o sim.Outcome) float64 {
		if o.Usage == nil {
			return 0
		}
		return of(o.Usage)
	}
}

func whereTraffic(c *Comparison) bool {
	return slices.ContainsFunc(c.Results[0].Outcomes, func(o sim.Outcome) bool { return o.Traffic != nil })
}

// ofTraffic returns a function that measures what an episode's pods exchanged, and is 0 where they exchange nothing.
func ofTraffic(of func(*sim.TrafficOutcome) float64) func(sim.Outcome) float64 {
	return func(o sim.Outcome) float64 {
		if o.Traffic == nil {
			return 0
		}
		return of(o.Traffic)
	}
}

// whereZones tells whether the clusters have several zones: with one zone, zoneStd is always 0.
func whereZones(c *Comparison) bool {
	return slices.ContainsFunc(c.Results, func(r Result) bool {
		return slices.ContainsFunc(r.Outcomes, func(o sim.Outcome) bool { return o.ZoneStd > 0 })
	})
}

// whereFor returns a function that tells whether the scenario's objective has one of the terms.
func whereFor(terms ...objective.Term) func(*Comparison) bool {
	return func(c *Comparison) bool {
		return slices.ContainsFunc(c.Scenario.Objective, func(w objective.Weighted) bool {
			return slices.ContainsFunc(terms, func(t objective.Term) bool { return t.Name() == w.Term.Name() })
		})
	}
}

// ofGPUs returns a function that measures an episode's GPUs, and is 0 without GPUs.
func ofGPUs(of func(*sim.GPUOutcome) float64) func(sim.Outcome) float64 {
	return func(o sim.Outcome) float64 {
		if o.GPU == nil {
			return 0
		}
		return of(o.GPU)
	}
}

// FindMetric returns the metric with a name, and whether there is one.
func FindMetric(name string) (Metric, bool) {
	for _, m := range Metrics {
		if m.Name == name {
			return m, true
		}
	}
	return Metric{}, false
}

// metric returns the metric with a name that is written in this package.
func metric(name string) Metric {
	m, known := FindMetric(name)
	if !known {
		panic("eval: no metric " + name)
	}
	return m
}

func metricNames() []string {
	names := make([]string, len(Metrics))
	for i, m := range Metrics {
		names[i] = m.Name
	}
	return names
}
