package dqn

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"gnnsched/gnn/checkpoint"
	"gnnsched/scheduler/learn/run"
)

// Config holds the hyperparameters of deep Q-learning that other methods do not have.
type Config struct {
	// Exploration: with probability epsilon the node is random. Epsilon falls linearly over
	// EpsilonShare of the steps or, if EpsilonDecay is set, by that factor at every placement.
	InitEpsilon  float64 `json:"initEpsilon" flag:"init-epsi" usage:"share of random placements at the start"`
	FinalEpsilon float64 `json:"finalEpsilon"` // share of random placements at the end
	EpsilonShare float64 `json:"epsilonShare"` // share of the steps over which exploration falls linearly
	EpsilonDecay float64 `json:"epsilonDecay" flag:"epsi-decay" usage:"factor on exploration at every placement; 0 for the linear fall"`

	NStep                 int     `json:"nStep"` // number of rewards summed before bootstrapping
	ReplayBufferSize      int     `json:"replayBufferSize" flag:"replay-buffer-size" usage:"number of transitions in the replay memory"`
	ReplayBytes           string  `json:"replayBytes"`      // most bytes that the states in the replay memory take, such as 512MiB
	PriorityExponent      float64 `json:"priorityExponent"` // exponent of the priorities in experience replay; 0 draws uniformly
	UpdateFrequency       int     `json:"updateFrequency" flag:"update-frequency" usage:"placements between updates"`
	TargetUpdateFrequency int     `json:"targetUpdateFrequency" flag:"target-update-frequency" usage:"updates between copies to the target network"`
}

// Defaults returns the values that a run starts from.
func Defaults() Config {
	return Config{
		InitEpsilon: 0.5, FinalEpsilon: 0.05, EpsilonShare: 0.5, NStep: 1, ReplayBufferSize: 20_000, ReplayBytes: "1GiB",
		PriorityExponent: 0.6, UpdateFrequency: 4, TargetUpdateFrequency: 200,
	}
}

// Name returns the method's name in a sentence.
func (Config) Name() string { return "deep Q-learning" }

// Check returns an error about a network that deep Q-learning cannot train.
func (Config) Check(a checkpoint.Architecture) error {
	switch {
	case a.Head != checkpoint.DQN:
		return fmt.Errorf("method: deep Q-learning trains networks of the head %s, and this one has %s; choose ppo or rollouts",
			checkpoint.DQN, a.Head)
	case a.ReadsPeers():
		return errors.New("features: the replay memory of deep Q-learning does not hold the peers of pods; " +
			"train by rollouts, train an actor-critic, or leave the set traffic out")
	}
	return nil
}

// Bytes returns ReplayBytes as a number; 0 if it is none. Units are KiB, MiB, GiB and those of Kubernetes.
func (c Config) Bytes() int {
	q, err := resource.ParseQuantity(strings.TrimSuffix(c.ReplayBytes, "B"))
	if err != nil {
		return 0
	}
	return int(q.Value())
}

// Validate reports the first value out of range. batch is the number of transitions that an update
// draws: the replay buffer must hold as many.
func (c Config) Validate(batch int) error {
	if n := c.Bytes(); n <= 0 {
		return fmt.Errorf("replay memory's bytes are %q, want a number over 0 such as 512MiB", c.ReplayBytes)
	}
	return run.CheckRanges([]run.Range{
		{Name: "initial epsilon", Value: c.InitEpsilon, Low: 0, High: 1},
		{Name: "final epsilon", Value: c.FinalEpsilon, Low: 0, High: 1},
		{Name: "epsilon share", Value: c.EpsilonShare, Low: 0, High: 1},
		{Name: "epsilon decay", Value: c.EpsilonDecay, Low: 0, High: 1},
		{Name: "n-step", Value: float64(c.NStep), Low: 1, High: 1000},
		{Name: "replay buffer size", Value: float64(c.ReplayBufferSize), Low: float64(batch), High: 1e7},
		{Name: "priority exponent", Value: c.PriorityExponent, Low: 0, High: 1},
		{Name: "update frequency", Value: float64(c.UpdateFrequency), Low: 1, High: 1e6},
		{Name: "target update frequency", Value: float64(c.TargetUpdateFrequency), Low: 1, High: 1e6},
	})
}

// settings are the hyperparameters of a run by this method.
type settings struct {
	run.Settings
	Config
}

// epsilon returns the share of random actions at a step.
func (s settings) epsilon(step int) float64 {
	if s.EpsilonDecay > 0 {
		return max(s.FinalEpsilon, s.InitEpsilon*math.Pow(s.EpsilonDecay, float64(step)))
	}
	return s.FinalEpsilon + (s.InitEpsilon-s.FinalEpsilon)*s.Fade(step, s.EpsilonShare)
}

// marginWeight returns the weight of the margin loss at a step.
func (s settings) marginWeight(step int) float64 {
	if s.Imitation.Share == 0 {
		return 0
	}
	return max(s.Imitation.MarginWeight*s.TeacherShare(step), s.Imitation.MarginFloor)
}

// The tags of the figures that this method alone reports.
const (
	tagTeacher = "charts/teacher"
	tagTDLoss  = "losses/td_loss"
	tagQ       = "losses/q_values"
	tagMargin  = "losses/margin"
)
