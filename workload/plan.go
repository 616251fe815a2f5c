package workload

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"gnnsched/internal/cluster"
	"gnnsched/internal/each"
	"gnnsched/internal/exit"
)

// Action is the kind of a plan's step.
type Action int

// The actions.
const (
	Add    Action = iota // create a Deployment
	Delete               // delete a Deployment that an earlier step created
	Reset                // delete everything that the plan has created
)

// String returns the action as plan files spell it: "add", "delete" or "reset".
func (a Action) String() string {
	switch a {
	case Add:
		return "add"
	case Delete:
		return "delete"
	case Reset:
		return "reset"
	}
	return fmt.Sprintf("Action(%d)", int(a))
}

// Deployment is a number of pods of one shape that arrive together.
type Deployment struct {
	Name     string // a DNS label, unique among the present Deployments
	Replicas int    // pods, 1 to MaxReplicas
	Shape    Shape
}

// Requests returns the sum of the pods' requests.
func (d Deployment) Requests() cluster.Resources {
	return d.Shape.Requests.Times(int64(d.Replicas))
}

// Step is one change of the cluster. For Delete, Deployment is the Deployment that was added;
// for Reset it is the zero value.
type Step struct {
	Action     Action
	Deployment Deployment
	At         float64 // seconds from the plan's start; 0 in plans without times
}

// Plan is the list of all changes that a run makes to a cluster, in order.
type Plan struct {
	Steps []Step
}

// Fill sums up the part of a plan between two resets.
type Fill struct {
	Deployments int               // created Deployments
	Deleted     int               // created Deployments that were deleted before the fill ended
	Pods        int               // pods of all created Deployments
	Requests    cluster.Resources // of the present Deployments at the end of the fill
}

// Fills returns a summary of each fill, at least one. A plan that ends with a reset has an
// empty fill at its end.
func (p Plan) Fills() []Fill {
	out := []Fill{{}}
	for _, s := range p.Steps {
		f := &out[len(out)-1]
		switch s.Action {
		case Add:
			f.Deployments++
			f.Pods += s.Deployment.Replicas
			f.Requests = f.Requests.Plus(s.Deployment.Requests())
		case Delete:
			f.Deleted++
			f.Requests = f.Requests.Minus(s.Deployment.Requests())
		case Reset:
			out = append(out, Fill{})
		}
	}
	return out
}

// Tolerations returns the tolerations that any pod of the plan has. See the function
// Tolerations.
func (p Plan) Tolerations() []cluster.Toleration {
	shapes := make([]Shape, 0, len(p.Steps))
	for _, s := range p.Steps {
		if s.Action == Add {
			shapes = append(shapes, s.Deployment.Shape)
		}
	}
	return Tolerations(shapes)
}

// Tolerations returns the toleration of simulated nodes, which every pod gets, and the
// tolerations of all shapes, each once.
func Tolerations(shapes []Shape) []cluster.Toleration {
	out := []cluster.Toleration{{Key: NodeTaint, Exists: true}}
	seen := map[cluster.Toleration]bool{out[0]: true}
	for _, s := range shapes {
		for _, t := range s.Tolerations {
			if !seen[t] {
				seen[t] = true
				out = append(out, t)
			}
		}
	}
	return out
}

// Validate returns an error for the first step that cannot be applied: its name is not a DNS label, it adds an existing Deployment or
// deletes a missing one, or its shape is not valid.
func (p Plan) Validate() error {
	exists := map[string]bool{}
	for i, s := range p.Steps {
		d := s.Deployment
		var err error
		switch s.Action {
		case Add:
			if err = d.validate(); err == nil && exists[d.Name] {
				err = fmt.Errorf("%q is already deployed", d.Name)
			}
			exists[d.Name] = true
		case Delete:
			if !exists[d.Name] {
				err = fmt.Errorf("%q is not deployed, so it cannot be deleted", d.Name)
			}
			delete(exists, d.Name)
		case Reset:
			clear(exists)
		default:
			err = fmt.Errorf("%v is not an action", s.Action)
		}
		if err != nil {
			return fmt.Errorf("step %d of the plan: %w", i+1, err)
		}
	}
	return nil
}

func (d Deployment) validate() error {
	if err := ValidateName(d.Name); err != nil {
		return err
	}
	if d.Replicas < 1 || d.Replicas > MaxReplicas {
		return fmt.Errorf("%s: %d replicas are not 1 to %d", d.Name, d.Replicas, MaxReplicas)
	}
	if err := d.Shape.Validate(); err != nil {
		return fmt.Errorf("%s: %w", d.Name, err)
	}
	return nil
}

// ValidateName returns an error unless s can name a Deployment: it must be a DNS label, because
// it becomes a label value and the start of pod names.
func ValidateName(s string) error {
	if p := validation.IsDNS1123Label(s); len(p) > 0 {
		return fmt.Errorf("%q cannot name a Deployment: %s", s, strings.SplitN(p[0], " (", 2)[0])
	}
	return nil
}

// The labels of every object that runsim makes. cleancluster deletes objects by them.
const (
	LabelManagedBy = "app.kubernetes.io/managed-by" // always ManagedBy
	ManagedBy      = "gnnsched"
	LabelRun       = "gnnsched.io/run"        // id of the run that made the object
	LabelFill      = "gnnsched.io/fill"       // number of the run's fill, from 1
	LabelShape     = "gnnsched.io/shape"      // the pod shape's name
	LabelName      = "app.kubernetes.io/name" // the Deployment's name
)

// NodeTaint is the key of kwok's annotation, and of the usual taint, on simulated nodes. The
// annotation's value is NodeSimulated. All pods of a plan tolerate the taint, which some
// clusters use to keep ordinary pods off simulated nodes.
const (
	NodeTaint     = "kwok.x-k8s.io/node"
	NodeSimulated = "fake"
)

// The words that names consist of: short, lower case and friendly.
var (
	adjectives = strings.Fields(`
		able agile airy alert amber ample azure balmy bold brave breezy bright brisk calm candid
		cheery chilly civic clean clear clever cosy crisp curly daring dapper deep deft dewy
		eager early earnest easy elated epic even fabled fair fancy feisty fleet fluffy fond
		frank free fresh frosty gentle gilded glad golden grand green happy hardy hasty hazy
		honest humble icy ideal jaunty jolly jovial keen kind lanky lively lofty loyal lucid
		lucky mellow merry mighty mild minty misty modest mossy neat nimble noble patient
		placid plucky polite proud quick quiet rapid ready regal robust rosy rustic sandy
		serene sharp shiny silent silver sleek smart snowy snug solid spry stable starry steady
		stout sunny supple swift tidy tranquil trusty upbeat valiant velvet vivid warm wild wise witty`)
	nouns = strings.Fields(`
		acorn alder anchor aspen badger bagel basil beacon beaver beetle bison blossom breeze
		brook cactus canoe canyon carrot cedar cherry chestnut clover comet compass coral cove
		crane cricket crow daisy delta dingo dolphin dune eagle ember falcon fern ferret finch
		fjord forest fox gecko geyser ginger glacier goose grove gull harbor hare harvest hazel
		hedgehog heron hill ibex iris island ivy jackal jaguar juniper kestrel kettle koala
		lagoon lantern lark lemur lichen lily lizard lotus lynx magpie mango maple marmot marten
		meadow melon meteor mole moose moss nettle newt nutmeg oak oasis olive orchid osprey
		otter owl panda pebble pelican penguin pepper pigeon pine plover poplar puffin quail
		rabbit raven reef river robin saffron salmon seal sparrow spruce squirrel stork swan
		teapot thistle thrush tiger tulip turtle walnut walrus willow wombat wren yak zebra`)
)

// drawName draws a name such as brave-otter that is not in taken, and adds it to taken. If
// several draws in a row are taken, it adds a number to the last one.
func drawName(rng *rand.Rand, taken map[string]bool) string {
	const draws = 8
	var name string
	for range draws {
		name = adjectives[rng.IntN(len(adjectives))] + "-" + nouns[rng.IntN(len(nouns))]
		if !taken[name] {
			taken[name] = true
			return name
		}
	}
	name = FreeName(name, taken)
	taken[name] = true
	return name
}

// FreeName returns name if it is not in taken, else name with the lowest number from 2 that
// makes it free: web, web-2, web-3. It does not add the name to taken.
func FreeName(name string, taken map[string]bool) string {
	free := name
	for i := 2; taken[free]; i++ {
		free = fmt.Sprintf("%s-%d", name, i)
	}
	return free
}

// Load is the requested share of a cluster's allocatable resources, as fractions: 0.2 is 20%.
type Load struct {
	CPU    float64 `json:"cpu"`
	Memory float64 `json:"memory"`
	Pods   float64 `json:"pods"`
}

// LoadOf returns used divided by capacity.
func LoadOf(used, capacity cluster.Resources) Load {
	return Load{
		CPU:    cluster.Fraction(used.MilliCPU, capacity.MilliCPU),
		Memory: cluster.Fraction(used.Memory, capacity.Memory),
		Pods:   cluster.Fraction(used.Pods, capacity.Pods),
	}
}

// Reached returns the first flag of runsim whose target, if it is over 0, l has reached; "" if there is none.
func (l Load) Reached(target Load) (flag string) {
	for _, x := range []struct {
		flag   string
		at, of float64
	}{{"cpu-load", l.CPU, target.CPU}, {"mem-load", l.Memory, target.Memory}, {"pod-load", l.Pods, target.Pods}} {
		if x.of > 0 && x.at >= x.of {
			return x.flag
		}
	}
	return ""
}

// String formats the load as "cpu 12% mem 8% pods 11%".
func (l Load) String() string {
	return fmt.Sprintf("cpu %.0f%% mem %.0f%% pods %.0f%%", 100*l.CPU, 100*l.Memory, 100*l.Pods)
}

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
	bad := &exit.Faults{}
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

func (g Generator) validateShapes(bad *exit.Faults) {
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
	total := each.Sum(shapes, func(s Shape) float64 { return s.Weight })
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
