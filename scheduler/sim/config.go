package sim

import (
	"errors"
	"fmt"
	"math"

	"gnnsched/scheduler/objective"
	"gnnsched/workload"
)

// Config says what clusters, what workload and what reward an environment has. Ranges and
// weighted lists are drawn from anew in every episode. By hand, in YAML:
//
//	nodes: {min: 40, max: 60}
//	sizes:
//	- {weight: 2, allocatable: {cpu: 16, memory: 64Gi, pods: 110}}
//	- {weight: 1, allocatable: {cpu: 64, memory: 256Gi, pods: 110}}
//	pools:
//	- {count: 4, allocatable: {cpu: 32, memory: 128Gi, gpu: 8, pods: 110}, zone: a,
//	   labels: {pool: gpu}, taints: [{key: gpu, effect: NoSchedule}]}
//	zones: 3
//	shapes:
//	- {name: web, weight: 4, requests: {cpu: 500m, memory: 1Gi}}
//	- {name: train, weight: 1, requests: {cpu: 8, memory: 32Gi, gpu: 1},
//	   nodeSelector: {pool: gpu}, tolerations: [{key: gpu, operator: Exists}]}
//	replicas: {min: 1, max: 10}
//	load: 0.8
//	turnover: 2
//	arrivals: {process: bursts, size: 0.1}
//	lifetimes: {distribution: pareto, alpha: 1.5}
//	lose: 0.1
//	objective: balance
type Config struct {
	Nodes        IntRange   `json:"nodes"`           // how many of Sizes; 1 or more where there are no pools
	Sizes        []NodeSize `json:"sizes,omitempty"` // what a node offers; every node draws one
	SizeKinds    IntRange   `json:"sizeKinds"`       // how many of Sizes one cluster mixes; zero: all
	Pools        []NodePool `json:"pools,omitempty"` // nodes that are there besides
	Zones        IntRange   `json:"zones"`           // how many zones; every node draws one; zero: no zones
	ControlPlane bool       `json:"controlPlane"`    // one more node, the first, which no ordinary pod tolerates
	Initial      float64    `json:"initial"`         // pods that never leave fill each node up to a fraction drawn from 0 to this; less than Load.Min

	Shapes     []workload.Shape   `json:"shapes,omitempty"`   // pods, drawn by weight; their names are distinct
	ShapeKinds IntRange           `json:"shapeKinds"`         // how many of Shapes one episode uses; zero: all
	Requests   *workload.Requests `json:"requests,omitempty"` // instead of Shapes: every deployment's pods ask for random amounts
	Trace      *Trace             `json:"trace,omitempty"`    // instead of all other fields on pods
	OpenB      *OpenB             `json:"openb,omitempty"`    // instead of all other fields on nodes and pods
	Replicas   IntRange           `json:"replicas"`           // pods of a deployment; 1 or more
	Load       FloatRange         `json:"load"`               // fraction of CPU, memory or pod slots, whichever is reached first; over 0, at most 2
	// Turnover is for how many further fills' worth of pods arrive after the load is
	// reached, while pods leave.
	Turnover  int       `json:"turnover"`
	Arrivals  Arrivals  `json:"arrivals,omitzero"`  // how those further pods come
	Lifetimes Lifetimes `json:"lifetimes,omitzero"` // when pods leave, once the load is reached

	// Lose is the fraction of the nodes that go once the load is reached, halfway through a
	// trace; which ones, the seed decides. The pods on them wait for a node again, and then
	// run for their whole lifetime; those of Initial are gone. 0 to less than 1.
	Lose float64 `json:"lose,omitempty"`

	Objective objective.Mix `json:"objective"` // what the reward is about
	WaitCost  float64       `json:"waitCost"`  // what the reward loses by each pod that has to wait; 0 or more
}

// Validate says everything that is wrong with the configuration.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	switch {
	case c.OpenB != nil:
		c.validateOpenB(bad)
	case c.Trace != nil:
		c.validateNodes(bad)
		c.validateTrace(bad)
	default:
		c.validateNodes(bad)
		c.validateWorkload(bad)
	}
	if !(c.Lose >= 0 && c.Lose < 1) {
		bad("lose: %v is no fraction from 0 to less than 1", c.Lose)
	}
	if err := c.Objective.Validate(); err != nil {
		bad("objective: %w", err)
	}
	if !(c.WaitCost >= 0) || math.IsInf(c.WaitCost, 0) {
		bad("waitCost: %v must be a finite number, 0 or more", c.WaitCost)
	}
	return errors.Join(errs...)
}

func (c Config) validateWorkload(bad func(string, ...any)) {
	c.ShapeKinds.validate("shapeKinds", 0, len(c.Shapes), bad)
	c.validateShapes(bad)
	if c.Load.Min > c.Load.Max {
		bad("load: %v to %v is no range", c.Load.Min, c.Load.Max)
	}
	if !(c.Initial >= 0 && (c.Initial == 0 || c.Initial < c.Load.Min)) {
		bad("initial: %v must be 0 or more, and less than the load", c.Initial)
	}
	if c.Turnover < 0 || c.Turnover > 1000 {
		bad("turnover: %d is outside 0 to 1000", c.Turnover)
	}
	if c.Turnover == 0 && (c.Arrivals != Arrivals{} && c.Arrivals.Process != AtOnce || c.Lifetimes != Lifetimes{} && c.Lifetimes.Distribution != NoEnd) {
		bad("turnover: is 0, but arrivals and lifetimes are about the time after the load is reached")
	}
	c.Arrivals.validate(bad)
	c.Lifetimes.validate(bad)
}

func (c Config) validateShapes(bad func(string, ...any)) {
	seen := map[string]bool{}
	for i, s := range c.Shapes {
		if seen[s.Name] {
			bad("shapes[%d]: %q is the name of another shape", i, s.Name)
		}
		seen[s.Name] = true
		if !(s.Weight > 0) {
			bad("shapes[%d]: weight %v must be over 0", i, s.Weight)
		}
	}
	for _, load := range []float64{c.Load.Min, c.Load.Max} {
		if err := c.generator(0, c.Shapes, load).Validate(); err != nil {
			bad("%w", err)
			return
		}
	}
}

// generator is the workload of one episode, less the capacity.
func (c Config) generator(seed uint64, shapes []workload.Shape, load float64) workload.Generator {
	return workload.Generator{
		Seed: seed, Shapes: shapes, Requests: c.Requests, ReplicasMin: c.Replicas.Min, ReplicasMax: c.Replicas.Max,
		Fills: 1 + c.Turnover, Target: workload.Load{CPU: load, Memory: load, Pods: load},
	}
}
