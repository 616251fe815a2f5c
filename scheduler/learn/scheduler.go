package learn

import (
	"fmt"
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
