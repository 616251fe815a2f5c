package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/choice"
	"gnnsched/internal/cluster"
	"gnnsched/internal/each"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/contender"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/linear"
	"gnnsched/scheduler/policy/preference"
	"gnnsched/scheduler/sim"
	"gnnsched/workload"
)

// Limits of a request.
const (
	maxNodes     = 64
	maxDecisions = 1000
	maxGroups    = 8
	maxCPU       = 256  // of a node
	maxMemory    = 2048 // GiB of a node
	maxGPUs      = 16   // of a node
	maxZones     = 8
	maxTurnover  = 3
	maxWeight    = 1000
)

// runRequest describes a simulation.
type runRequest struct {
	Nodes    []podGroup `json:"nodes"`
	Zones    int        `json:"zones"`    // the nodes are in; 0 for none
	Pods     string     `json:"pods"`     // one of List's kinds of pods
	Load     float64    `json:"load"`     // fraction of the CPU, memory or pod slots that the pods request, over 0 and at most 1
	Turnover int        `json:"turnover"` // rounds after the first: in each, as many pods arrive again while others leave
	Spread   bool       `json:"spread"`   // replicas are spread, as with --preferences first
	Seed     uint64     `json:"seed"`

	Objective map[string]float64 `json:"objective"` // weights of terms
	Policy    string             `json:"policy"`    // decides
	Other     string             `json:"other"`     // decides beside it, in a cluster of its own
	Weights   map[string]float64 `json:"weights"`   // of the policy ownWeights, by feature; the rest is 0
}

// podGroup is a number of equal nodes.
type podGroup struct {
	Count  int `json:"count"`
	CPU    int `json:"cpu"`    // cores
	Memory int `json:"memory"` // GiB
	GPUs   int `json:"gpus"`
}

// Policies that have no fixed weights.
const (
	ownWeights = "own weights" // a weighted sum of features, with the weights of the request
	greedy     = "greedy"      // the node after which the objective of the request is lowest
)

// kind is a kind of pods.
type kind struct {
	name, about string
	shapes      []workload.Shape
}

func shape(name string, weight float64, milliCPU, gib int64) workload.Shape {
	return workload.Shape{Name: name, Weight: weight, Requests: cluster.Resources{MilliCPU: milliCPU, Memory: gib << 30, Pods: 1}}
}

func gpuShape(name string, weight float64, each cluster.Resources) workload.Shape {
	each.Pods = 1
	return workload.Shape{Name: name, Weight: weight, Requests: each}
}

var (
	ordinary = []workload.Shape{
		shape("web", 4, 500, 1), shape("api", 3, 1000, 4), shape("cache", 2, 1000, 8), shape("batch", 2, 4000, 4), shape("big", 1, 8000, 32),
	}
	onGPUs = []workload.Shape{
		gpuShape("share-65", 3, cluster.Resources{MilliCPU: 4000, Memory: 16 << 30, GPUMilli: 650}),
		gpuShape("share-32", 4, cluster.Resources{MilliCPU: 2000, Memory: 8 << 30, GPUMilli: 320}),
		gpuShape("one", 4, cluster.Resources{MilliCPU: 8000, Memory: 32 << 30, GPU: 1}),
		gpuShape("four", 1, cluster.Resources{MilliCPU: 24_000, Memory: 96 << 30, GPU: 4}),
	}
)

var podKinds = []kind{
	{"mixed", "0.5 CPU and 1 GiB to 8 CPU and 32 GiB", ordinary},
	{"small", "0.5 CPU and 1 GiB, or 1 CPU and 4 GiB", ordinary[:2]},
	{"uneven", "much memory for its CPU, or much CPU for its memory", ordinary[2:4]},
	{"gpu", "shares of a GPU, one GPU, or four", onGPUs},
	{"gpu and mixed", "both", slices.Concat(ordinary, onGPUs)},
}

// terms are the terms of objectives that need no measurements.
var terms = []string{"balance", "pack", "zones", "fragmentation", "gpu-idle", "ordinary"}

// features are the linear policy's features that need no measurements.
var features = linear.RequestFeatures

// options are the values that a request may have.
type options struct {
	Policies    []string           `json:"policies"`
	GPUPolicies []string           `json:"gpuPolicies"`
	Pods        []podKind          `json:"pods"`
	Terms       []string           `json:"terms"`
	Weights     map[string]float64 `json:"weights"` // of the features; the default weights were tuned for balance
	Features    []string           `json:"features"`
	Limits      limits             `json:"limits"`
}

// limits are the largest values of a request.
type limits struct {
	Nodes    int `json:"nodes"` // in all
	Zones    int `json:"zones"`
	Turnover int `json:"turnover"`
	Weight   int `json:"weight"` // of a term or a feature
}

// podKind names a kind of pods.
type podKind struct {
	Name  string `json:"name"`
	About string `json:"about"`
}

// sandboxOptions returns the options. They take a second to find, because the networks are read.
var sandboxOptions = sync.OnceValue(makeOptions)

func makeOptions() options {
	o := options{
		Policies: append(contender.Names(), greedy, ownWeights), Terms: terms, Features: features,
		Limits: limits{maxNodes, maxZones, maxTurnover, maxWeight}, Weights: map[string]float64{},
		GPUPolicies: slices.Concat(heuristic.GPUNames(), checkpoint.ShippedFor(checkpoint.GPUGraph)),
	}
	o.Pods = append(o.Pods, each.Map(podKinds, func(k kind) podKind { return podKind{k.name, k.about} })...)
	tuned := linear.Tuned("linear").Weights()
	for i, f := range features {
		o.Weights[f] = tuned[i]
	}
	return o
}

// config returns the simulator's configuration. All faults of the request are in the error.
func (r runRequest) config() (sim.Config, error) {
	var errs []error
	check := func(ok bool, format string, a ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, a...))
		}
	}
	c := sim.Config{
		Replicas: sim.IntRange{Min: 1, Max: 4}, Load: sim.FloatRange{Min: r.Load, Max: r.Load}, Turnover: r.Turnover,
		Preferences: preference.Declared, Zones: sim.Exactly(r.Zones),
	}
	if r.Spread {
		c.Preferences = preference.First
	}
	total := 0
	check(len(r.Nodes) <= maxGroups, "%d groups of nodes, more than %d", len(r.Nodes), maxGroups)
	for _, g := range r.Nodes[:min(len(r.Nodes), maxGroups)] {
		check(g.Count >= 0 && g.Count <= maxNodes, "nodes: %d of one kind, want 0 to %d", g.Count, maxNodes)
		check(g.CPU >= 1 && g.CPU <= maxCPU && g.Memory >= 1 && g.Memory <= maxMemory && g.GPUs >= 0 && g.GPUs <= maxGPUs,
			"nodes: %d CPU, %d GiB of memory and %d GPUs, want 1 to %d CPU, 1 to %d GiB and at most %d GPUs",
			g.CPU, g.Memory, g.GPUs, maxCPU, maxMemory, maxGPUs)
		if total += g.Count; g.Count > 0 {
			c.Pools = append(c.Pools, sim.NodePool{
				Count:       sim.Exactly(g.Count),
				Allocatable: cluster.Resources{MilliCPU: 1000 * int64(g.CPU), Memory: int64(g.Memory) << 30, GPU: int64(g.GPUs), Pods: 110},
			})
		}
	}
	check(total >= 1 && total <= maxNodes, "nodes: %d in all, want 1 to %d", total, maxNodes)
	check(r.Zones >= 0 && r.Zones <= maxZones, "zones: %d, want 0 to %d", r.Zones, maxZones)
	check(r.Load > 0 && r.Load <= 1, "load: %v %%, want more than 0 and at most 100 %%", 100*r.Load)
	check(r.Turnover >= 0 && r.Turnover <= maxTurnover, "turnover: %d, want 0 to %d", r.Turnover, maxTurnover)
	found, unknown := choice.Find("kind of pods", r.Pods, podKinds, func(k kind) string { return k.name })
	c.Shapes = found.shapes
	var err error
	c.Objective, err = r.mix()
	return c, errors.Join(append(errs, unknown, err)...)
}

// mix returns the objective.
func (r runRequest) mix() (objective.Mix, error) {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(r.Objective)) {
		w := r.Objective[name]
		if !slices.Contains(terms, name) {
			return nil, fmt.Errorf("objective: %w", choice.Unknown("term", name, terms))
		}
		if !(w >= 0 && w <= maxWeight) {
			return nil, fmt.Errorf("objective: the weight of %s is %v, want 0 to %d", name, w, maxWeight)
		}
		if w > 0 {
			parts = append(parts, fmt.Sprintf("%s=%v", name, w))
		}
	}
	if len(parts) == 0 {
		return nil, errors.New("objective: no term has a weight over 0")
	}
	return objective.Parse(strings.Join(parts, ","))
}

// contender returns a policy by its name. Names of policies in files are not known here.
func (r runRequest) contender(name string) (eval.Contender, error) {
	switch name {
	case greedy:
		m, err := r.mix()
		if err != nil {
			return eval.Contender{}, err
		}
		return contender.Named("greedy:" + strings.ReplaceAll(m.Name(), ",", "+"))
	case ownWeights:
		weights := make([]float64, len(linear.Features))
		for f, w := range r.Weights {
			i := slices.Index(features, f)
			if i < 0 {
				return eval.Contender{}, fmt.Errorf("weights: %w", choice.Unknown("feature", f, features))
			}
			if !(w >= -maxWeight && w <= maxWeight) {
				return eval.Contender{}, fmt.Errorf("weights: that of %s is %v, want -%d to %d", f, w, maxWeight, maxWeight)
			}
			weights[i] = w
		}
		own, err := linear.New(ownWeights, weights)
		return eval.Contender{Name: ownWeights, New: func(policy.Setting) policy.Policy { return own.Named(ownWeights) }}, err
	}
	if o := sandboxOptions(); !slices.Contains(o.Policies, name) && !slices.Contains(o.GPUPolicies, name) {
		return eval.Contender{}, choice.Unknown("policy", name, slices.Concat(o.Policies, o.GPUPolicies))
	}
	return contender.Named(name)
}

// weightsFile is the file that the command of a scenario expects the request's own weights in.
const weightsFile = "own.json"

// Scenario returns the request as a scenario file of gnnsched eval. Comments at its top hold the command that compares the request's
// policies on it, and the file with its own weights if a policy has them.
func (r runRequest) Scenario() (string, error) {
	config, err := r.config()
	if err != nil {
		return "", err
	}
	body, err := yaml.Marshal(eval.Scenario{Name: "sandbox", About: "the nodes, pods and objective of a sandbox", Config: config})
	if err != nil {
		return "", fmt.Errorf("write the scenario: %w", err)
	}
	var top strings.Builder
	policies, own := []string{}, false
	for _, name := range []string{r.Policy, r.Other} {
		switch x, err := r.contender(name); {
		case err != nil:
			return "", err
		case name == ownWeights:
			own = true
			policies = append(policies, "linear:"+weightsFile)
		default:
			policies = append(policies, x.Name)
		}
	}
	if policies[0] == policies[1] {
		policies = policies[:1]
	}
	fmt.Fprintf(&top, "# gnnsched eval --scenario sandbox.yaml --seed %d --seeds 20 --policies %s\n", r.Seed, strings.Join(policies, ","))
	if own {
		weights := each.Map(linear.Features, func(f string) float64 { return r.Weights[f] })
		p, err := linear.New("own", weights)
		if err != nil {
			return "", err
		}
		text, err := json.Marshal(p)
		if err != nil {
			return "", fmt.Errorf("write the weights: %w", err)
		}
		fmt.Fprintf(&top, "# %s: %s\n", weightsFile, text)
	}
	return top.String() + string(body), nil
}
