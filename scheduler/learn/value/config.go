package value

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/feature"
	"gnnsched/internal/choice"
	"gnnsched/internal/cluster"
	"gnnsched/internal/fragmentation"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/sim"
	"gnnsched/workload/trace/openb"
)

// Config holds every hyperparameter of a training. The zero value is not valid;
// start from Defaults or KindDefaults. Its JSON form is stored in the checkpoint, and is the form of a YAML file.
type Config struct {
	Graph   checkpoint.Graph   `json:"graph,omitempty"` // kinds: kinds of pods; gpu or none: GPU clusters
	Encoder checkpoint.Encoder `json:"encoder"`         // gnn, mlp or linear
	Head    checkpoint.Head    `json:"head"`            // dqn (greedy on the value) or actor-critic
	Hidden  int                `json:"hidden"`          // width of embeddings
	Seed    uint64             `json:"seed"`
	Family  []string           `json:"family,omitempty"` // names of the workloads; the trainer sets them, for the checkpoint

	Features []string `json:"features,omitempty"` // names of the network's feature sets for GPU clusters; none for base

	Iterations int `json:"iterations"` // each plays episodes, then learns
	Episodes   int `json:"episodes"`   // in an iteration, played at the same time
	Updates    int `json:"updates"`    // steps of the optimiser in an iteration
	Remember   int `json:"remember"`   // latest episodes, from which updates draw

	Imitation   int     `json:"imitation"`   // iterations at first in which a rule plays: FGD, and linear for kinds
	Exploration float64 `json:"exploration"` // largest share of random placements in these iterations; each episode draws its own
	Disturbed   float64 `json:"disturbed"`   // share of the later episodes that start with random placements; see episode

	SnapshotEvery int `json:"snapshotEvery"` // pods between two snapshots of an episode
	SnapshotNodes int `json:"snapshotNodes"` // nodes in a snapshot, drawn at random
	Placements    int `json:"placements"`    // candidates in a snapshot, for the actor

	BatchSnapshots int     `json:"batchSnapshots"` // snapshots that an update draws
	BatchNodes     int     `json:"batchNodes"`     // nodes that an update draws of each of them
	LearningRate   float64 `json:"learningRate"`   // at the start; falls linearly to a twentieth
	Averaging      float64 `json:"averaging"`      // share of the learning network in the average that plays, at each update
	ClipNorm       float64 `json:"clipNorm"`       // limit of the gradient's norm
	Temperature    float64 `json:"temperature"`    // of the actor's softmax, in devices

	Spread         float64 `json:"spread"`         // standard deviation of the logarithms of the factors on kinds of pods
	SpreadMultiple float64 `json:"spreadMultiple"` // the same for pods with several devices, whose number varies more between traces
	Factor         float64 `json:"factor"`         // GPUs that an episode's pods request, over the cluster's

	Scenarios []string `json:"scenarios,omitempty"` // names, patterns or files of those that episodes are drawn from; of kinds alone
	Trace     string   `json:"trace,omitempty"`     // folder of a record to learn on instead; of kinds alone
	Horizon   float64  `json:"horizon,omitempty"`   // placements over which waiting pods count, in pods that the cluster holds; of kinds alone

	EvaluateEvery     int `json:"evaluateEvery"`     // iterations between evaluations
	EvaluateWorkloads int `json:"evaluateWorkloads"` // held-out workloads in an evaluation
}

// Defaults returns the values of fields that a configuration leaves out.
func Defaults() Config {
	return Config{
		Graph: checkpoint.GPUGraph, Encoder: checkpoint.GNN, Head: checkpoint.DQN, Hidden: 64, Seed: 1,
		Iterations: 60, Episodes: 4, Updates: 500, Remember: 120,
		Imitation: 3, Exploration: 0.3,
		SnapshotEvery: 80, SnapshotNodes: 200, Placements: 32,
		BatchSnapshots: 4, BatchNodes: 96, LearningRate: 1e-3, Averaging: 0.005, ClipNorm: 10, Temperature: 0.01,
		Spread: 0.5, SpreadMultiple: 1, Factor: 1.3,
		EvaluateEvery: 5, EvaluateWorkloads: 12,
	}
}

// variants are the networks on the graph of kinds. Those whose name ends in gnn see places.
var variants = map[string]struct {
	encoder checkpoint.Encoder
	head    checkpoint.Head
}{
	"gnn": {checkpoint.GNN, checkpoint.DQN}, "dqn": {checkpoint.MLP, checkpoint.DQN},
	"acgnn": {checkpoint.GNN, checkpoint.ActorCritic}, "acdqn": {checkpoint.MLP, checkpoint.ActorCritic},
}

// As returns the configuration for the variant of a name: gnn, dqn, acgnn or acdqn.
func (c Config) As(variant string) (Config, error) {
	v, known := variants[variant]
	if !known {
		return c, choice.Unknown("variant", variant, slices.Sorted(maps.Keys(variants)))
	}
	c.Encoder, c.Head = v.encoder, v.head
	return c, nil
}

// Name returns the name of the network: its variant, or linear, and gpu- before that of one for GPU clusters.
func (c Config) Name() string {
	name := "linear"
	for n, v := range variants {
		if v.encoder == c.Encoder && v.head == c.Head {
			name = n
		}
	}
	if c.Graph != checkpoint.KindsGraph {
		name = "gpu-" + name
	}
	return name
}

// KindDefaults is Defaults for networks on the graph of kinds, of the variant gnn.
func KindDefaults() Config {
	c := Defaults()
	c.Graph, c.Hidden = checkpoint.KindsGraph, 16
	c.Scenarios, c.Horizon = []string{"family-scarce", "family"}, 0.35
	c.Iterations, c.Episodes, c.Updates, c.Remember, c.Exploration = 50, 24, 400, 720, 0.6
	c.SnapshotEvery, c.BatchSnapshots, c.BatchNodes = 8, 48, 6
	c.EvaluateEvery, c.EvaluateWorkloads = 5, 48
	return c
}

// OnlineConfig returns the configuration with which a network on the graph of kinds goes on learning from a running scheduler: that of its
// training, as far as its manifest has it. A trained network learns at the rate with which its training ended. Others cannot learn so; the
// error says why.
func OnlineConfig(k *checkpoint.Checkpoint) (Config, error) {
	c := KindDefaults()
	if err := k.CheckOnline(); err != nil {
		return c, err
	}
	if len(k.Manifest.Config) > 0 {
		if err := json.Unmarshal(k.Manifest.Config, &c); err != nil {
			return c, fmt.Errorf("training configuration in the checkpoint: %w", err)
		}
	}
	if _, err := eval.ChooseScenarios(c.Scenarios, ""); err != nil { // a file of another machine
		c.Scenarios = KindDefaults().Scenarios
	}
	a := k.Manifest.Architecture
	c.Graph, c.Encoder, c.Head, c.Hidden, c.Features = a.Graph, a.Encoder, a.Head, a.Hidden, a.Features
	if _, trained := k.Manifest.Training[HeldOutScore]; trained {
		c.LearningRate *= lastRate
	}
	return c, c.Validate()
}

// HeldOutScore is the figure in a manifest by which the network was chosen (Evaluation.Total). Less is better.
const HeldOutScore = "heldOutScore"

// stored returns the configuration as a checkpoint and the state of a run have it.
func (c Config) stored() ([]byte, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encode the configuration: %w", err)
	}
	return text, nil
}

// lastRate is the part of the learning rate that is left at the end of a training.
const lastRate = 0.05

// Read decodes a YAML file. Fields that are not in it are as in c. An unknown or repeated field
// and a value out of range are errors.
func (c Config) Read(file string, data []byte) (Config, error) {
	asJSON, err := yaml.YAMLToJSONStrict(data)
	if err == nil {
		var faults []error
		faults, err = strictjson.UnmarshalStrict(asJSON, &c)
		err = errors.Join(append(faults, err)...)
	}
	if err == nil {
		err = c.Validate()
	}
	if err != nil {
		return c, fmt.Errorf("%s: %w", file, err)
	}
	return c, nil
}

// architecture returns the network's.
func (c Config) architecture() checkpoint.Architecture {
	return checkpoint.Architecture{
		Graph: cmp.Or(c.Graph, checkpoint.GPUGraph), Encoder: c.Encoder, Head: c.Head, Hidden: c.Hidden, Features: c.Features,
	}
}

// layout returns the features that the network reads. The configuration must be valid.
func (c Config) layout() *feature.Layout {
	l, err := c.architecture().Layout()
	if err != nil {
		panic(err)
	}
	return l
}

// loads returns the amounts of arrivals, over the cluster's GPUs, at which networks are compared.
func (c Config) loads() (out []float64) {
	for _, l := range []float64{0.7, 0.8, 0.9, 0.95, 1, 1.1} {
		if l < c.Factor {
			out = append(out, l)
		}
	}
	return append(out, c.Factor)
}

// validateKinds reports what a network on the graph of kinds cannot learn from.
func (c Config) validateKinds() error {
	if c.Graph != checkpoint.KindsGraph {
		return nil
	}
	var errs []error
	if len(c.Scenarios) == 0 && c.Trace == "" || !(c.Horizon > 0 && c.Horizon <= 100) {
		errs = append(errs,
			fmt.Errorf("scenarios %v and horizon %v: name a scenario, and a horizon over 0 and at most 100", c.Scenarios, c.Horizon))
	}
	if c.Trace != "" {
		return errors.Join(errs...)
	}
	_, err := eval.ChooseScenarios(c.Scenarios, "")
	return errors.Join(append(errs, err)...)
}

// Validate reports every value out of range.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if err := c.architecture().Validate(); err != nil {
		errs = append(errs, err)
	}
	if err := sim.CheckTrainingSeed(c.Seed); err != nil {
		errs = append(errs, err)
	}
	for _, x := range []struct {
		name string
		n    int
	}{
		{"iterations", c.Iterations}, {"episodes", c.Episodes}, {"updates", c.Updates}, {"remember", c.Remember},
		{"snapshotEvery", c.SnapshotEvery}, {"snapshotNodes", c.SnapshotNodes}, {"placements", c.Placements},
		{"batchSnapshots", c.BatchSnapshots}, {"batchNodes", c.BatchNodes}, {"evaluateEvery", c.EvaluateEvery},
		{"evaluateWorkloads", c.EvaluateWorkloads},
	} {
		if x.n < 1 {
			bad("%s: %d must be 1 or more", x.name, x.n)
		}
	}
	for _, x := range []struct {
		name string
		v    float64
		most float64
	}{
		{"learningRate", c.LearningRate, 1}, {"averaging", c.Averaging, 1}, {"clipNorm", c.ClipNorm, math.MaxFloat64},
		{"temperature", c.Temperature, 10}, {"factor", c.Factor, 100},
	} {
		if !(x.v > 0 && x.v <= x.most) {
			bad("%s: %v must be over 0 and at most %v", x.name, x.v, x.most)
		}
	}
	errs = append(errs, c.validateKinds())
	if c.Factor < 1 {
		bad("factor: %v must be 1 or more", c.Factor)
	}
	if c.Imitation < 0 {
		bad("imitation: %d must be 0 or more", c.Imitation)
	}
	for _, x := range []struct {
		name  string
		share float64
	}{{"disturbed", c.Disturbed}, {"exploration", c.Exploration}} {
		if !(x.share >= 0 && x.share <= 1) {
			bad("%s: %v is no share from 0 to 1", x.name, x.share)
		}
	}
	if !(c.Spread >= 0 && c.Spread <= 3) || !(c.SpreadMultiple >= 0 && c.SpreadMultiple <= 3) {
		bad("spread: %v and spreadMultiple: %v must be 0 to 3", c.Spread, c.SpreadMultiple)
	}
	return errors.Join(errs...)
}

// Workload holds the pods of a trace, or pods drawn from one.
type Workload struct {
	Name string
	Pods []openb.Pod
}

// within is the standard deviation of the logarithms of the factors on single shapes, beyond those on their
// kinds.
const within = 0.3

// draw makes another workload out of w. It multiplies the number of pods of each kind and of each shape
// by factors from lognormal distributions, and rounds at random. The factor on pods with one device
// is 1. At least one pod has GPUs.
func (c Config) draw(rng *rand.Rand, w Workload) Workload {
	factor := func(sigma float64) float64 { return math.Exp(sigma * rng.NormFloat64()) }
	kinds := [4]float64{withoutGPU: factor(c.Spread), sharing: factor(c.Spread), single: 1, multiple: factor(c.SpreadMultiple)}
	shapes := map[shape]float64{}
	out := Workload{Name: w.Name}
	for {
		gpus := false
		for _, p := range w.Pods {
			s := shapeOf(p)
			each, known := shapes[s]
			if !known {
				each = kinds[s.kind()] * factor(within)
				shapes[s] = each
			}
			copies := int(each)
			if rng.Float64() < each-float64(copies) {
				copies++
			}
			for range copies {
				out.Pods = append(out.Pods, p)
				gpus = gpus || p.GPUs > 0
			}
		}
		if gpus {
			return out
		}
	}
}

// shape is the request of a pod. Pods that differ only in the GPU models that they accept have the same
// shape.
type shape struct{ cpu, memory, gpus, milli int64 }

func shapeOf(p openb.Pod) shape { return shape{p.MilliCPU, p.MemoryMiB, p.GPUs, p.GPUMilli} }

// The kinds of pods, by the GPUs that they request.
const (
	withoutGPU = iota
	sharing
	single
	multiple
)

func (s shape) kind() int {
	switch {
	case s.gpus == 0:
		return withoutGPU
	case s.milli < cluster.DeviceMilli:
		return sharing
	case s.gpus == 1:
		return single
	}
	return multiple
}

// TypicalPods returns the typical pods of a family, in which each workload weighs the same.
func TypicalPods(family []Workload) *checkpoint.TypicalPods {
	out := &checkpoint.TypicalPods{}
	var all []fragmentation.Demand
	for _, w := range family {
		out.Family = append(out.Family, w.Name)
		for _, p := range w.Pods {
			all = append(all, fragmentation.Demand{Requests: p.Requests(), Models: p.Models, Count: 1 / float64(len(w.Pods))})
		}
	}
	out.Pods = listed(fragmentation.NewTypical(all))
	return out
}

// listed returns typical pods as they lie beside a checkpoint, the most frequent first.
func listed(typical *fragmentation.Typical) (out []checkpoint.TypicalPod) {
	for _, p := range typical.Pods() {
		t := checkpoint.TypicalPod{MilliCPU: p.MilliCPU, GPU: p.Devices, GPUModels: p.Models, Frequency: p.Frequency}
		if p.Milli < cluster.DeviceMilli {
			t.GPU, t.GPUMilli = 0, p.Milli
		}
		out = append(out, t)
	}
	return out
}
