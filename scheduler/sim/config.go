package sim

import (
	"errors"
	"fmt"
	"math"

	"gnnsched/scheduler/cluster"
	"gnnsched/scheduler/objective"
	"gnnsched/workload"
)

// Config says what clusters, what workload and what reward an environment has. Ranges and
// weighted lists are drawn from anew in every episode.
type Config struct {
	Nodes        IntRange   `json:"nodes"`        // how many, besides the control plane; 1 or more
	Sizes        []NodeSize `json:"sizes"`        // what a node offers; every node draws one
	SizeKinds    IntRange   `json:"sizeKinds"`    // how many of Sizes one cluster mixes; zero: all
	Zones        IntRange   `json:"zones"`        // how many zones; every node draws one; zero: no zones
	ControlPlane bool       `json:"controlPlane"` // one more node, the first, which no ordinary pod tolerates
	Initial      float64    `json:"initial"`      // pods that never leave fill each node up to a fraction drawn from 0 to this; less than Load.Min

	Shapes     []workload.Shape `json:"shapes"`     // pods, drawn by weight; their names are distinct
	ShapeKinds IntRange         `json:"shapeKinds"` // how many of Shapes one episode uses; zero: all
	Replicas   IntRange         `json:"replicas"`   // pods of a deployment; 1 or more
	Load       FloatRange       `json:"load"`       // fraction of CPU, memory or pod slots, whichever is reached first; over 0, at most 2
	// Turnover is for how many further fills' worth of pods arrive after the load is
	// reached, while pods leave. Lifetimes are exponential, their mean as many arrivals as
	// the fill had pods, which keeps the load about where it is.
	Turnover int `json:"turnover"`

	Objective objective.Mix `json:"objective"` // what the reward is about
	WaitCost  float64       `json:"waitCost"`  // what the reward loses by each pod that has to wait; 0 or more
}

// IntRange is an interval, both ends included. The zero value means unset.
type IntRange struct {
	Min int `json:"min"`
	Max int `json:"max"`
}

// Exactly is the range of one value.
func Exactly(n int) IntRange { return IntRange{n, n} }

// FloatRange is an interval of fractions.
type FloatRange struct {
	Min float64 `json:"min"`
	Max float64 `json:"max"`
}

// NodeSize is what a node may offer.
type NodeSize struct {
	Weight      float64           `json:"weight"` // how often it is drawn, relative to the others; over 0
	Allocatable cluster.Resources `json:"allocatable"`
}

// AAMLNode is the node that simulated clusters have by default: 64 CPU, 256 GiB, 110 pods.
var AAMLNode = cluster.Resources{MilliCPU: 64_000, Memory: 256 << 30, Pods: 110}

// maxNodes bounds a cluster to what Kubernetes is tested with, twice over.
const maxNodes = 10_000

// Validate says everything that is wrong with the configuration.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	c.Nodes.validate("nodes", 1, maxNodes, bad)
	c.SizeKinds.validate("sizeKinds", 0, len(c.Sizes), bad)
	c.Zones.validate("zones", 0, maxNodes, bad)
	c.ShapeKinds.validate("shapeKinds", 0, len(c.Shapes), bad)
	if len(c.Sizes) == 0 {
		bad("sizes: give at least one")
	}
	for i, s := range c.Sizes {
		a := s.Allocatable
		if a.MilliCPU <= 0 || a.Memory <= 0 || a.Pods <= 0 || a.GPU < 0 {
			bad("sizes[%d]: a node offers CPU, memory and pods, not %+v", i, a)
		}
		if !(s.Weight > 0) || math.IsInf(s.Weight, 0) {
			bad("sizes[%d]: weight %v must be a finite number over 0", i, s.Weight)
		}
	}
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
	if err := c.Objective.Validate(); err != nil {
		bad("objective: %w", err)
	}
	if !(c.WaitCost >= 0) || math.IsInf(c.WaitCost, 0) {
		bad("waitCost: %v must be a finite number, 0 or more", c.WaitCost)
	}
	return errors.Join(errs...)
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
		Seed: seed, Shapes: shapes, ReplicasMin: c.Replicas.Min, ReplicasMax: c.Replicas.Max,
		Fills: 1 + c.Turnover, Target: workload.Load{CPU: load, Memory: load, Pods: load},
	}
}

func (r IntRange) validate(field string, least, most int, bad func(string, ...any)) {
	if r.Min < least || r.Max > most || r.Min > r.Max {
		bad("%s: %d to %d is no range within %d to %d", field, r.Min, r.Max, least, most)
	}
}
