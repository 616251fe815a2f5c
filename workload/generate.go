package workload

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fault"
)

// Generator draws a random plan. The sequence of Deployments depends only on the seed, the shapes and the replica range; target, capacity
// and use determine its length.
type Generator struct {
	Seed        uint64
	Shapes      []Shape                // at least one has a weight over 0
	Drift       func(fill int) []Shape // the shapes of each fill, counted from 0, with other weights; nil: always Shapes
	Requests    *Requests              // draws the pods' requests; set either this or Shapes
	ReplicasMin int                    // fewest pods of a Deployment, at least 1
	ReplicasMax int                    // most pods of a Deployment, at least ReplicasMin

	Fills  int  // how often the cluster is filled, at least 1; a reset separates two fills
	Target Load // fractions over 0; a fill ends when the first of them is reached

	Capacity cluster.Resources // allocatable resources of the schedulable nodes
	Used     cluster.Resources // requests of the running pods
}

// MaxTarget is the highest target load, which no cluster can hold. It catches percentages: 20 instead of 0.20.
const MaxTarget = 2

// Validate returns every fault of the settings, in the words of runsim's flags.
func (g Generator) Validate() error {
	bad := &fault.List{}
	for _, t := range []struct {
		flag string
		v    float64
	}{{"cpu-load", g.Target.CPU}, {"mem-load", g.Target.Memory}, {"pod-load", g.Target.Pods}} {
		bad.If(!(t.v > 0 && t.v <= MaxTarget), "%s %v must be a fraction over 0 and at most %d; 0.20 is 20%%", t.flag, t.v, MaxTarget)
	}
	bad.If(g.Fills < 1 || g.Fills > 10_000, "cluster-resets %d must be 1 to 10000", g.Fills)
	bad.If(g.ReplicasMin < 1 || g.ReplicasMax > MaxReplicas || g.ReplicasMin > g.ReplicasMax,
		"replicas %d to %d must be a range within 1 to %d", g.ReplicasMin, g.ReplicasMax, MaxReplicas)
	g.validateShapes(bad)
	return bad.Err()
}

func (g Generator) validateShapes(bad *fault.List) {
	if g.Requests != nil {
		bad.If(len(g.Shapes) > 0, "requests: set either requests or shapes, not both")
		bad.In("requests.", g.Requests.Validate())
		return
	}
	var weight float64
	for _, s := range g.Shapes {
		bad.In(fmt.Sprintf("shape %q: ", s.Name), s.Validate())
		weight += s.Weight
	}
	bad.If(!(weight > 0) || math.IsInf(weight, 0), "shapes: no shape has a weight over 0")
}

// The errors of Plan that depend on the cluster.
var (
	ErrNoCapacity = errors.New("the cluster has no schedulable node that offers CPU, memory and pods")
	ErrLoaded     = errors.New("the cluster already carries the target load")
)

// Plan draws the plan. Equal generators give equal plans. It returns ErrNoCapacity if no node
// could take a pod, and ErrLoaded if Used has reached Target.
func (g Generator) Plan() (Plan, error) {
	if err := g.Validate(); err != nil {
		return Plan{}, err
	}
	if g.Capacity.MilliCPU <= 0 || g.Capacity.Memory <= 0 || g.Capacity.Pods <= 0 {
		return Plan{}, ErrNoCapacity
	}
	if at := LoadOf(g.Used, g.Capacity); at.Reached(g.Target) != "" {
		return Plan{}, fmt.Errorf("%w: %v", ErrLoaded, at)
	}
	var p Plan
	taken := map[string]bool{}
	for fill := range g.Fills {
		if fill > 0 {
			p.Steps = append(p.Steps, Step{Action: Reset})
		}
		p.Steps = append(p.Steps, g.fill(fill, taken)...)
	}
	return p, nil
}

// fill draws one fill, counted from 0. Names have a random stream of their own, so that
// drawing a taken name again does not change shapes and replicas.
func (g Generator) fill(fill int, taken map[string]bool) []Step {
	draw := rand.New(rand.NewPCG(g.Seed, 2*uint64(fill)))
	names := rand.New(rand.NewPCG(g.Seed, 2*uint64(fill)+1))
	if g.Drift != nil {
		g.Shapes = g.Drift(fill)
	}
	var steps []Step
	for used := g.Used; LoadOf(used, g.Capacity).Reached(g.Target) == ""; {
		d := Deployment{
			Replicas: g.ReplicasMin + draw.IntN(g.ReplicasMax-g.ReplicasMin+1),
			Shape:    g.shape(draw),
			Name:     drawName(names, taken),
		}
		used = used.Plus(d.Requests())
		steps = append(steps, Step{Action: Add, Deployment: d})
	}
	return steps
}

func (g Generator) shape(rng *rand.Rand) Shape {
	if g.Requests != nil {
		return g.Requests.Draw(rng)
	}
	return pick(rng, g.Shapes)
}

// pick draws one of the shapes, each with a probability proportional to its weight.
func pick(rng *rand.Rand, shapes []Shape) Shape {
	var total float64
	for _, s := range shapes {
		total += s.Weight
	}
	at := rng.Float64() * total
	last := 0
	for i, s := range shapes {
		if s.Weight <= 0 {
			continue
		}
		last = i
		if at -= s.Weight; at < 0 {
			break
		}
	}
	return shapes[last]
}
