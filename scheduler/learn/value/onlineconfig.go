package value

import (
	"encoding/json"
	"errors"
	"fmt"

	"gnnsched/gnn/checkpoint"
)

// Online learns from a running scheduler (package online). Its batches have onlineBatch nodes of each of
// several snapshots.
type Online struct {
	Config
	ReplayBytes     int // most bytes that the snapshots take
	UpdateFrequency int // placements between updates
}

// onlineBatch is the number of nodes that an update draws of each snapshot, and onlineSnapshots the number of
// snapshots.
const (
	onlineBatch     = 32
	onlineSnapshots = 12
)

// onlineAveraging is the share of the learning network in the average that is judged and plays, at each update.
const onlineAveraging = 0.02

// ContinuedBy returns the configuration with which the network of c learns on, and the learning rate: that at the
// end of its training, or of one that was not trained that at the start.
func ContinuedBy(c *checkpoint.Checkpoint) (cfg Config, rate float64, err error) {
	cfg = Defaults()
	if len(c.Manifest.Config) > 0 {
		if err := json.Unmarshal(c.Manifest.Config, &cfg); err != nil {
			return cfg, 0, fmt.Errorf("training configuration in the checkpoint: %w", err)
		}
	}
	a := c.Manifest.Architecture
	cfg.Encoder, cfg.Head, cfg.Hidden, cfg.Features = a.Encoder, a.Head, a.Hidden, a.Features
	cfg.BatchNodes, cfg.BatchSnapshots, cfg.Averaging = onlineBatch, onlineSnapshots, onlineAveraging
	rate = cfg.LearningRate
	if _, trained := c.Manifest.Training["iteration"]; trained {
		rate /= 20
	}
	return cfg, rate, cfg.Validate()
}

// Name returns the method's name in a sentence.
func (Online) Name() string { return "value decomposition" }

// OnlineFlags returns the names of the flags of its own that matter in online learning.
func (Online) OnlineFlags() []string { return []string{"replay-bytes", "update-frequency"} }

// Check returns an error if there is no network for GPU clusters.
func (o Online) Check(checkpoint.Architecture) error {
	if o.Encoder == "" {
		return errors.New("method: value trains networks for GPU clusters alone; start it as gnntrain gpu")
	}
	return nil
}

// Validate reports the first hyperparameter out of range.
func (o Online) Validate(int) error {
	if o.ReplayBytes <= 0 || o.UpdateFrequency < 1 {
		return fmt.Errorf("%d bytes for snapshots and an update every %d placements must be over 0", o.ReplayBytes, o.UpdateFrequency)
	}
	return o.Config.Validate()
}
