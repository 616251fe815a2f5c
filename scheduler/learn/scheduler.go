package learn

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"

	"github.com/urfave/cli/v2"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/choice"
	"gnnsched/internal/exit"
)

// The flags of a scheduler's command that its trainer does not have.
const (
	Learn        = "learn"
	hiddenLayers = "hidden-layers"
	initEpsilon  = "init-epsi"
	epsilonDecay = "epsi-decay"
)

// whileLearning is the heading in a scheduler's --help.
const whileLearning = "with --learn"

// SchedulerFlags returns the flags about learning of the command that runs a variant: --learn, exploration, and what the trainer takes too.
func SchedulerFlags() []cli.Flag {
	return append([]cli.Flag{
		&cli.BoolFlag{Name: Learn, Category: whileLearning,
			Usage: "explore, and learn from every placement; needs gnntrain. Without this flag nothing explores"},
		&cli.IntFlag{Name: hiddenLayers, Category: whileLearning,
			Usage: "start from random weights with hidden layers of this `WIDTH`, if --checkpoint does not exist yet"},
		&cli.Float64Flag{Name: initEpsilon, Category: whileLearning, Value: 0.1, Usage: "`SHARE` of random placements at the start"},
		&cli.Float64Flag{Name: epsilonDecay, Category: whileLearning, Value: 0.999,
			Usage: "`FACTOR` by which the share of random placements shrinks after each placement, down to 0.01"},
	}, trainerFlags()...)
}

// SchedulerNames returns the names of the flags of SchedulerFlags.
func SchedulerNames() []string { return choice.Names(SchedulerFlags(), firstName) }

// CheckScheduler refuses flags about learning without --learn. The errors carry an exit code and a hint.
func CheckScheduler(c *cli.Context) error {
	if c.Bool(Learn) {
		return nil
	}
	for _, f := range SchedulerFlags() {
		if name := f.Names()[0]; name != Learn && c.IsSet(name) {
			return exit.New(exit.Usage, fmt.Errorf("--%s is about learning", name),
				"add --learn, or leave it out: without --learn nothing explores or learns")
		}
	}
	return nil
}

// TrainerArguments returns the arguments with which a scheduler's command hands its flags on to
// gnntrain, which has the same.
func TrainerArguments(c *cli.Context) []string {
	var out []string
	for _, f := range trainerFlags() {
		if name := f.Names()[0]; c.IsSet(name) {
			out = append(out, fmt.Sprintf("--%s=%v", name, c.Value(name))) // one word: a switch takes no second one
		}
	}
	return out
}

// trainerFlags returns the flags that gnntrain has too.
func trainerFlags() []cli.Flag {
	out := append([]cli.Flag{&cli.Float64Flag{Name: learningRate, Usage: "learning rate of Adam",
		DefaultText: "what the network's training ended with"}}, OnlineFlags()...)
	for _, f := range out {
		GroupFlag(f, whileLearning)
	}
	return out
}

// StartFromFlags returns the network that a scheduler of a variant starts to learn from. It is the file's. If the
// file does not exist, it has random weights with --hidden-layers, and is the shipped one without.
// fresh tells that the network is not in the file yet. The errors carry an exit code and a hint,
// except those of a file that exists and cannot be read.
//
// variant is one of Variants, or the name of a shipped network.
func StartFromFlags(c *cli.Context, file, variant string) (start *checkpoint.Checkpoint, fresh bool, err error) {
	shipped, err := checkpoint.Shipped(variant)
	if err != nil {
		return nil, false, exit.New(exit.Checkpoint, fmt.Errorf("--learn: nothing to start from: %w", err), "name another profile")
	}
	if err := shipped.CheckOnline(); err != nil {
		return nil, false, exit.New(exit.Usage, fmt.Errorf("--learn: %s: %w", variant, err), "name another profile, or leave --learn out")
	}
	start, err = checkpoint.Load(file)
	switch {
	case err == nil:
		err = checkFits(c, start, file, variant, shipped.Manifest.Architecture)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, false, err
	case c.IsSet(hiddenLayers):
		fresh = true
		a := shipped.Manifest.Architecture
		a.Hidden = c.Int(hiddenLayers)
		if err := a.Validate(); err != nil {
			return nil, false, exit.New(exit.Usage, fmt.Errorf("--%s: %w", hiddenLayers, err), "")
		}
		start, err = checkpoint.Random(a, rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))), nil
		start.Manifest.Objective = shipped.Manifest.Objective
	default:
		fresh, start, err = true, shipped, nil
	}
	if err != nil {
		return nil, false, err
	}
	if _, err := OnlineFromFlags(c, start); err != nil { // else the trainer would refuse it at every start
		return nil, false, exit.New(exit.Usage, fmt.Errorf("--learn: %w", err), "see --help")
	}
	return start, fresh, nil
}

// checkFits checks that the file's network can continue to learn under the flags. want is the variant's.
func checkFits(c *cli.Context, start *checkpoint.Checkpoint, file, variant string, want checkpoint.Architecture) error {
	a := start.Manifest.Architecture
	if err := start.CheckOnline(); err != nil {
		return exit.New(exit.Checkpoint, fmt.Errorf("--learn: %s: %w", file, err), "name another checkpoint, or leave --learn out")
	}
	if a.Head != want.Head { // the encoder may differ: the file's learns
		return exit.New(exit.Checkpoint, fmt.Errorf("--learn: the network in %s has the head %q, run%s wants %q", file, a.Head, variant,
			want.Head), "start it with the command of its variant, or name another checkpoint")
	}
	if width := c.Int(hiddenLayers); c.IsSet(hiddenLayers) && width != a.Hidden {
		return exit.New(exit.Usage, fmt.Errorf("--%s %d: the network in %s has %d", hiddenLayers, width, file, a.Hidden),
			"leave it out to continue with that network, or move the file away to start from random weights")
	}
	return nil
}
