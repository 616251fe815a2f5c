package learn

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"

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

var (
	// everyMethod lists the hyperparameters of all methods that matter in online learning, and ofHead those of one.
	everyMethod = []string{"gamma", "learning-rate", "batch-size"}
	ofHead      = map[checkpoint.Head][]string{
		checkpoint.DQN:         {"replay-buffer-size", "update-frequency", "target-update-frequency"},
		checkpoint.ActorCritic: {"actor-learning-rate", "critic-learning-rate"},
	}
)

// asTrained is the default that the network's manifest decides.
const asTrained = "as the network was trained"

// whileLearning is the heading in a scheduler's --help.
const whileLearning = "with --learn"

// SchedulerFlags returns the flags about learning of the command that runs a variant: --learn, the
// exploration of deep Q-learning, and what the trainer takes too.
func SchedulerFlags(variant string) []cli.Flag {
	out := []cli.Flag{
		&cli.BoolFlag{Name: Learn, Category: whileLearning,
			Usage: "explore, and learn from every placement; needs gnntrain. Without this flag nothing explores"},
		&cli.IntFlag{Name: hiddenLayers, Category: whileLearning,
			Usage: "start from random weights with hidden layers of this `WIDTH`, if --checkpoint does not exist yet"},
	}
	if headOf(variant) == checkpoint.DQN {
		out = append(out,
			&cli.Float64Flag{Name: initEpsilon, Category: whileLearning, Value: 0.1, Usage: "`SHARE` of random placements at the start"},
			&cli.Float64Flag{Name: epsilonDecay, Category: whileLearning, Value: 0.999,
				Usage: "`FACTOR` by which the share of random placements shrinks after each placement, down to 0.01"})
	}
	return append(out, trainerFlags(variant)...)
}

// SchedulerNames returns the names of the flags in Scheduler, over all variants.
func SchedulerNames() []string {
	var names []string
	for _, variant := range variantNames() {
		names = append(names, choice.Names(SchedulerFlags(variant), firstName)...)
	}
	return names
}

// CheckScheduler refuses flags about learning without --learn. The errors carry an exit code and a hint.
func CheckScheduler(c *cli.Context, variant string) error {
	if c.Bool(Learn) {
		return nil
	}
	for _, f := range SchedulerFlags(variant) {
		if name := f.Names()[0]; name != Learn && c.IsSet(name) {
			return exit.New(exit.Usage, fmt.Errorf("--%s is about learning", name),
				"add --learn, or leave it out: without --learn nothing explores or learns")
		}
	}
	return nil
}

// TrainerArguments returns the arguments with which a scheduler's command hands its flags on to
// gnntrain, which has the same.
func TrainerArguments(c *cli.Context, variant string) []string {
	var out []string
	for _, f := range trainerFlags(variant) {
		if name := f.Names()[0]; c.IsSet(name) {
			out = append(out, fmt.Sprintf("--%s=%v", name, c.Value(name))) // one word: a switch takes no second one
		}
	}
	return out
}

// trainerFlags returns the flags that gnntrain has too.
func trainerFlags(variant string) []cli.Flag {
	var out []cli.Flag
	for _, f := range Flags() {
		if name := f.Names()[0]; slices.Contains(everyMethod, name) || slices.Contains(ofHead[headOf(variant)], name) {
			onlineFlag(f)
			out = append(out, f)
		}
	}
	out = append(out, OnlineFlags()...)
	for _, f := range out {
		GroupFlag(f, whileLearning)
	}
	return out
}

// onlineFlag makes the help of a hyperparameter's flag say what it does in online learning.
func onlineFlag(f cli.Flag) {
	switch f := f.(type) {
	case *cli.Float64Flag:
		f.DefaultText = asTrained
		if strings.HasSuffix(f.Name, "learning-rate") { // does not fall in online learning
			f.DefaultText = "what the network's training ended with"
		}
		if f.Name == "learning-rate" {
			f.Usage = "learning rate of Adam"
		}
	case *cli.IntFlag:
		f.DefaultText = asTrained
	}
}

func headOf(variant string) checkpoint.Head { return Architecture(variant, 0).Head }

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
