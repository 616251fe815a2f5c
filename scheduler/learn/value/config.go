package value

import (
	"errors"
	"fmt"
	"math"

	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"gnnsched/gnn/checkpoint"
)

// Config says how to learn.
type Config struct {
	Encoder checkpoint.Encoder `json:"encoder"` // gnn, mlp or linear
	Head    checkpoint.Head    `json:"head"`    // dqn (greedy on the value) or actor-critic
	Hidden  int                `json:"hidden"`  // width of embeddings
	Seed    uint64             `json:"seed"`
	Family  []string           `json:"family,omitempty"` // names of the workloads learned from, for the record

	Iterations int `json:"iterations"` // turns of playing and learning
	Episodes   int `json:"episodes"`   // played in each, at the same time
	Updates    int `json:"updates"`    // steps of the optimiser in each
	Remember   int `json:"remember"`   // episodes that updates draw from, the latest

	Imitation   int     `json:"imitation"`   // iterations in which FGD plays
	Exploration float64 `json:"exploration"` // most share of random placements in these; each episode draws its own

	SnapshotEvery int `json:"snapshotEvery"` // pods between two snapshots of an episode
	SnapshotNodes int `json:"snapshotNodes"` // nodes that are kept of each, drawn at random
	Placements    int `json:"placements"`    // candidates that are kept of each, for the actor

	BatchSnapshots int     `json:"batchSnapshots"` // of each update
	BatchNodes     int     `json:"batchNodes"`     // of each snapshot
	LearningRate   float64 `json:"learningRate"`   // at the beginning; it falls to a twentieth, linearly
	Averaging      float64 `json:"averaging"`      // share by which the network that plays follows the one that learns, at each update
	ClipNorm       float64 `json:"clipNorm"`       // of the gradient
	Temperature    float64 `json:"temperature"`    // of the actor, in devices

	Spread         float64 `json:"spread"`         // standard deviation of the logarithm by which kinds of pods are reweighted
	SpreadMultiple float64 `json:"spreadMultiple"` // that of pods with several devices, of which traces have few or many
	Factor         float64 `json:"factor"`         // of the cluster's GPUs that an episode's pods ask for

	EvaluateEvery     int `json:"evaluateEvery"`     // iterations
	EvaluateWorkloads int `json:"evaluateWorkloads"` // held-out workloads of the family
}

// Defaults are the values that the shipped networks are trained with.
func Defaults() Config {
	return Config{
		Encoder: checkpoint.GNN, Head: checkpoint.DQN, Hidden: 64, Seed: 1,
		Iterations: 60, Episodes: 4, Updates: 500, Remember: 120,
		Imitation: 3, Exploration: 0.3,
		SnapshotEvery: 80, SnapshotNodes: 200, Placements: 32,
		BatchSnapshots: 4, BatchNodes: 96, LearningRate: 1e-3, Averaging: 0.005, ClipNorm: 10, Temperature: 0.01,
		Spread: 0.5, SpreadMultiple: 1, Factor: 1.3,
		EvaluateEvery: 5, EvaluateWorkloads: 12,
	}
}

// Read decodes a YAML file over the defaults. It is strict.
func Read(file string, data []byte) (Config, error) {
	c := Defaults()
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

// Architecture is that of the network.
func (c Config) Architecture() checkpoint.Architecture {
	return checkpoint.Architecture{Graph: checkpoint.GPUGraph, Encoder: c.Encoder, Head: c.Head, Hidden: c.Hidden}
}

// Validate reports what is wrong with the configuration.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if err := c.Architecture().Validate(); err != nil {
		errs = append(errs, err)
	}
	for _, x := range []struct {
		name string
		n    int
	}{
		{"iterations", c.Iterations}, {"episodes", c.Episodes}, {"updates", c.Updates}, {"remember", c.Remember}, {"imitation", c.Imitation},
		{"snapshotEvery", c.SnapshotEvery}, {"snapshotNodes", c.SnapshotNodes}, {"placements", c.Placements},
		{"batchSnapshots", c.BatchSnapshots}, {"batchNodes", c.BatchNodes}, {"evaluateEvery", c.EvaluateEvery}, {"evaluateWorkloads", c.EvaluateWorkloads},
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
	if !(c.Exploration >= 0 && c.Exploration <= 1) {
		bad("exploration: %v is no share from 0 to 1", c.Exploration)
	}
	if !(c.Spread >= 0 && c.Spread <= 3) || !(c.SpreadMultiple >= 0 && c.SpreadMultiple <= 3) {
		bad("spread: %v and spreadMultiple: %v must be 0 to 3", c.Spread, c.SpreadMultiple)
	}
	return errors.Join(errs...)
}
