package sim

import (
	"math"

	"gnnsched/internal/exit"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy/preference"
	"gnnsched/workload"
)

// Config configures the clusters, the workload and the reward of an environment. Values of ranges
// and weighted lists are drawn anew in every episode. In YAML:
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
//	preferences: declared
//	objective: balance
type Config struct {
	Nodes        IntRange   `json:"nodes"`           // number of nodes drawn from Sizes; at least 1 without Pools
	Sizes        []NodeSize `json:"sizes,omitempty"` // kinds of nodes, drawn by weight
	SizeKinds    IntRange   `json:"sizeKinds"`       // number of Sizes in one cluster; zero: all
	Pools        []NodePool `json:"pools,omitempty"` // further nodes, which are not drawn
	Zones        IntRange   `json:"zones"`           // number of zones; each node draws one; zero: no zones
	ControlPlane bool       `json:"controlPlane"`    // adds a first node that no ordinary pod tolerates
	// pods that never leave fill each node up to a fraction drawn from 0 to this; less than Load.Min
	Initial float64 `json:"initial"`

	Attributes *Attributes `json:"attributes,omitempty"` // instead of Sizes, Pools and Shapes: each episode draws its own; Nodes is their number
	Drift      float64     `json:"-"`                    // of the shapes of an episode; see Attributes

	Shapes     []workload.Shape   `json:"shapes,omitempty"`   // kinds of pods with distinct names, drawn by weight
	ShapeKinds IntRange           `json:"shapeKinds"`         // number of Shapes in one episode; zero: all
	Requests   *workload.Requests `json:"requests,omitempty"` // instead of Shapes: each deployment draws what its pods request
	Trace      *Trace             `json:"trace,omitempty"`    // instead of all other fields about pods
	OpenB      *OpenB             `json:"openb,omitempty"`    // instead of all other fields about nodes and pods
	MIG        *MIG               `json:"mig,omitempty"`      // instead of all other fields about nodes and pods
	Given      *Given             `json:"-"`                  // instead of all other fields about nodes and pods, for programs
	Replicas   IntRange           `json:"replicas"`           // pods of a deployment; at least 1
	// fraction of CPU, memory or pod slots that the fill reaches, whichever comes first; over 0, at most 2
	Load FloatRange `json:"load"`
	// Turnover is the number of pods that arrive after the fill, while others leave, divided by
	// the number in the fill.
	Turnover  int       `json:"turnover"`
	Arrivals  Arrivals  `json:"arrivals,omitzero"`  // when the pods of the turnover arrive
	Lifetimes Lifetimes `json:"lifetimes,omitzero"` // when pods leave after the fill

	// Lose is the fraction of the nodes that are lost after the fill, or halfway through a trace.
	// The seed decides which. Their pods wait for another node, and then run for their whole
	// lifetime; the pods of Initial disappear. 0 to less than 1.
	Lose float64 `json:"lose,omitempty"`

	// Preferences says how the preferences of pods count: first (the default), declared or off. The pods of a
	// Deployment belong together, as with runsim, and prefer to be spread over nodes and zones by upstream's
	// default constraints. The pods of a trace belong to nothing.
	Preferences preference.Mode `json:"preferences,omitempty"`

	Usage   *Usage   `json:"usage,omitempty"`   // plays what pods use over time; nil: only what they request counts
	Traffic *Traffic `json:"traffic,omitempty"` // what pods send each other, and the network between the nodes; nil: nothing

	Objective objective.Mix `json:"objective,omitempty"` // what the reward measures; nil: nothing
	WaitCost  float64       `json:"waitCost"`            // what each pod that has to wait takes from the reward; at least 0
}

// Seconds returns the seconds in a unit of time; 0 if the unit is the mean time between two arrivals and nothing says how long that is.
func (c Config) Seconds() float64 {
	switch {
	case c.Usage != nil:
		return c.Usage.unit()
	case c.Trace != nil || c.OpenB != nil:
		return 1
	}
	return 0
}

// Files returns the fields that name files or records, those of a trace first. What they belong to is copied, so that they may be set.
func (c *Config) Files() (out []*string) {
	if c.Trace != nil {
		c.Trace = new(*c.Trace)
		out = append(out, &c.Trace.File)
	}
	if c.OpenB != nil {
		c.OpenB = new(*c.OpenB)
		out = append(out, &c.OpenB.NodesFile, &c.OpenB.PodsFile)
	}
	return out
}

// Validate returns everything that is wrong with the configuration, joined into one error.
func (c Config) Validate() error {
	bad := &exit.Faults{}
	switch {
	case c.Given != nil:
	case c.MIG != nil:
		c.MIG.validate(bad)
	case c.OpenB != nil:
		c.validateOpenB(bad)
	case c.Trace != nil:
		c.validateNodes(bad)
		c.validateTrace(bad)
	case c.Attributes != nil:
		c.Attributes.validate(&c, bad)
	default:
		c.validateNodes(bad)
		c.validateWorkload(bad)
	}
	bad.If(!(c.Lose >= 0 && c.Lose < 1), "lose: %v is no fraction from 0 to less than 1", c.Lose)
	c.validateUsage(bad)
	c.validateTraffic(bad)
	bad.In("", c.PreferenceMode().OneOf(PreferenceModes))
	if len(c.Objective) > 0 {
		bad.In("objective: ", c.Objective.Validate())
	}
	bad.If(!(c.WaitCost >= 0) || math.IsInf(c.WaitCost, 0), "waitCost: %v must be a finite number, 0 or more", c.WaitCost)
	return bad.Err()
}

func (c Config) validateWorkload(bad *exit.Faults) {
	c.ShapeKinds.validate("shapeKinds", 0, len(c.Shapes), bad)
	c.validateShapes(bad)
	bad.If(c.Load.Min > c.Load.Max, "load: %v to %v is no range", c.Load.Min, c.Load.Max)
	bad.If(!(c.Initial >= 0 && (c.Initial == 0 || c.Initial < c.Load.Min)), "initial: %v must be 0 or more, and less than the load", c.Initial)
	bad.If(c.Turnover < 0 || c.Turnover > 1000, "turnover: %d is outside 0 to 1000", c.Turnover)
	if c.Turnover == 0 && (c.Arrivals != Arrivals{} && c.Arrivals.Process != atOnce || c.Lifetimes != Lifetimes{} &&
		c.Lifetimes.Distribution != noEnd) {
		bad.Add("turnover: is 0, but arrivals and lifetimes are for the time after the load is reached")
	}
	c.Arrivals.validate(bad)
	c.Lifetimes.validate(bad)
}

func (c Config) validateShapes(bad *exit.Faults) {
	seen := map[string]bool{}
	for i, s := range c.Shapes {
		bad.If(seen[s.Name], "shapes[%d]: %q is the name of another shape", i, s.Name)
		seen[s.Name] = true
		bad.If(!(s.Weight > 0), "shapes[%d]: weight %v must be over 0", i, s.Weight)
	}
	lacks := false
	if c.Replicas == (IntRange{}) {
		lacks = true
		bad.Add("replicas: is missing or 0; it says how many pods a deployment has, for example replicas: {min: 1, max: 10}")
	}
	if c.Load == (FloatRange{}) {
		lacks = true
		bad.Add("load: is missing or 0; it says how much of the cluster the pods request, for example load: {min: 0.5, max: 0.9}")
	}
	if lacks { // what the generator says of them has the words of runsim's flags
		return
	}
	for _, load := range []float64{c.Load.Min, c.Load.Max} {
		if err := c.generator(0, c.Shapes, load).Validate(); err != nil {
			bad.Add("%w", err)
			return
		}
	}
}

// generator returns the generator of one episode's workload. Its capacity is still to be set.
func (c Config) generator(seed uint64, shapes []workload.Shape, load float64) workload.Generator {
	g := workload.Generator{
		Seed: seed, Shapes: shapes, Requests: c.Requests, ReplicasMin: c.Replicas.Min, ReplicasMax: c.Replicas.Max,
		Fills: 1 + c.Turnover, Target: workload.Load{CPU: load, Memory: load, Pods: load},
	}
	if c.Drift > 0 {
		g.Drift = func(fill int) []workload.Shape { return drifted(seed, shapes, fill, c.Drift) }
	}
	return g
}
