package learn

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"

	"github.com/urfave/cli/v2"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/exit"
)

// StartFromFlags returns the network that a scheduler of a variant starts to learn from. It is the file's. If the
// file does not exist, it has random weights with --hidden-layers, and is checkpoint.ShippedStart without.
// fresh tells that the network is not in the file yet. The errors carry an exit code and a hint,
// except those of a file that exists and cannot be read.
//
// variant is one of Variants, or the name of a shipped network.
func StartFromFlags(c *cli.Context, file, variant string) (start *checkpoint.Checkpoint, fresh bool, err error) {
	if g := architectureOf(variant).Graph; g != checkpoint.ClusterGraph {
		return nil, false, exit.New(exit.Usage, fmt.Errorf("--learn: the network %s reads the graph %q, which does not learn while it schedules",
			variant, g), "name another profile, or leave --learn out")
	}
	start, err = checkpoint.Load(file)
	switch {
	case err == nil:
		err = checkFits(c, start, file, variant)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, false, err
	default:
		fresh = true
		start, err = beginFromFlags(c, variant)
	}
	if err != nil {
		return nil, false, err
	}
	if _, err := OnlineJobFromFlags(c, start); err != nil { // else the trainer would refuse it at every start
		return nil, false, exit.New(exit.Usage, fmt.Errorf("--learn: %w", err), "see --help")
	}
	return start, fresh, nil
}

func beginFromFlags(c *cli.Context, variant string) (*checkpoint.Checkpoint, error) {
	if c.IsSet(hiddenLayers) {
		a := architectureOf(variant)
		a.Hidden = c.Int(hiddenLayers)
		if err := a.Validate(); err != nil {
			return nil, exit.New(exit.Usage, fmt.Errorf("--%s: %w", hiddenLayers, err), "")
		}
		start := checkpoint.Random(a, rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())))
		start.Manifest.Objective = "balance"
		return start, nil
	}
	start, err := checkpoint.ShippedStart(variant)
	if err != nil {
		return nil, exit.New(exit.Checkpoint, fmt.Errorf("--learn: nothing to start from: %w", err),
			"name a checkpoint with --checkpoint, or start from random weights with --hidden-layers 32")
	}
	return start, nil
}

// checkFits checks that the file's network can continue to learn under the flags.
func checkFits(c *cli.Context, start *checkpoint.Checkpoint, file, variant string) error {
	a, want := start.Manifest.Architecture, architectureOf(variant)
	switch {
	case a.Graph != checkpoint.ClusterGraph:
		return exit.New(exit.Checkpoint, fmt.Errorf("--learn: the network in %s reads the graph %q, which does not learn while it schedules",
			file, a.Graph), "name another checkpoint, or leave --learn out")
	case a.Head != want.Head: // the encoder may differ: the file's learns
		return exit.New(exit.Checkpoint, fmt.Errorf("--learn: the network in %s has the head %q, run%s wants %q", file, a.Head, variant,
			want.Head), "start it with the command of its variant, or name another checkpoint")
	}
	if width := c.Int(hiddenLayers); c.IsSet(hiddenLayers) && width != a.Hidden {
		return exit.New(exit.Usage, fmt.Errorf("--%s %d: the network in %s has %d", hiddenLayers, width, file, a.Hidden),
			"leave it out to continue with that network, or move the file away to start from random weights")
	}
	return nil
}

// architectureOf returns the architecture of a variant, or of a shipped network.
func architectureOf(variant string) checkpoint.Architecture {
	if !slices.Contains(variantNames(), variant) {
		if c, err := checkpoint.ShippedStart(variant); err == nil {
			return c.Manifest.Architecture
		}
	}
	return Architecture(variant, 0)
}
