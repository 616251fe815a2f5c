package flags

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/choice"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/learn"
)

// The flags of a scheduler's command that its trainer does not have.
const (
	Learn        = "learn"
	hiddenLayers = "hidden-layers"
	initEpsilon  = "init-epsi"
	epsilonDecay = "epsi-decay"
	finalEpsilon = "final-epsi"
)

var (
	// everyMethod lists the hyperparameters of all methods that matter in online learning. The
	// others are about the simulator's clusters, or about a schedule over a run's steps.
	everyMethod = []string{"gamma", "half-life", "learning-rate", "batch-size", "clip-norm", "reward", "reward-scale"}
	exploration = []string{initEpsilon, epsilonDecay, finalEpsilon}
)

// whileLearning is the heading in a scheduler's --help.
const whileLearning = "with --learn"

// method returns the method of a variant.
func method(variant string) learn.Method { return defaults(variant).Chosen() }

// ofMethod returns the heading in a scheduler's --help of a method's own flags.
func ofMethod(variant string) string { return whileLearning + ", of " + method(variant).Name() }

// Scheduler returns the flags about learning of the command that runs a variant: --learn, the
// exploration of deep Q-learning, and what the trainer takes too.
func Scheduler(variant string) []cli.Flag {
	out := []cli.Flag{
		&cli.BoolFlag{Name: Learn, Category: whileLearning,
			Usage: "explore, and learn from every placement; needs gnntrain. Without this flag nothing explores"},
		&cli.IntFlag{Name: hiddenLayers, Category: whileLearning,
			Usage: "start from random weights with hidden layers of this `WIDTH`, if --checkpoint does not exist yet"},
	}
	if head(variant) == checkpoint.DQN {
		out = append(out,
			&cli.Float64Flag{Name: initEpsilon, Category: ofMethod(variant), Value: 0.1, Usage: "`SHARE` of random placements at the start"},
			&cli.Float64Flag{Name: epsilonDecay, Category: ofMethod(variant), Value: 0.999,
				Usage: "`FACTOR` by which the share of random placements shrinks after each placement"},
			&cli.Float64Flag{Name: finalEpsilon, Category: ofMethod(variant), Value: 0.01,
				Usage: "`SHARE` of random placements below which it does not fall"})
	}
	return append(out, trainer(variant)...)
}

// SchedulerNames returns the names of the flags in Scheduler, over all variants.
func SchedulerNames() []string {
	var names []string
	for _, variant := range learn.Variants() {
		names = append(names, choice.Names(Scheduler(variant), firstName)...)
	}
	return names
}

// OtherHead returns hidden flags for the hyperparameters of the other head. With them, a user who
// sets one gets the error of CheckScheduler, which says what to do instead.
func OtherHead(variant string) []cli.Flag {
	var out []cli.Flag
	for _, name := range otherHead(variant) {
		out = append(out, &cli.StringFlag{Name: name, Hidden: true})
	}
	return out
}

// CheckScheduler refuses flags that would have no effect: those of the other head, and those about
// learning without --learn. The errors carry an exit code and a hint.
func CheckScheduler(c *cli.Context, variant string) error {
	for _, name := range otherHead(variant) {
		if c.IsSet(name) {
			return notOfThisHead(name, variant)
		}
	}
	if c.Bool(Learn) {
		return nil
	}
	for _, f := range Scheduler(variant) {
		if name := f.Names()[0]; name != Learn && c.IsSet(name) {
			return exit.New(exit.Usage, fmt.Errorf("--%s is about learning", name),
				"add --learn, or leave it out: without --learn nothing explores or learns")
		}
	}
	return nil
}

func notOfThisHead(name, variant string) error {
	if head(variant) == checkpoint.DQN {
		return exit.New(exit.Usage, fmt.Errorf("--%s is about an actor-critic, and run%s learns by deep Q-learning", name, variant),
			"use runacgnn or runacdqn, or leave it out")
	}
	hint := "use rungnn or rundqn, or leave it out"
	if slices.Contains(exploration, name) {
		hint = "leave it out: an actor-critic explores by drawing from its own probabilities, which --entropy keeps from becoming certain"
	}
	return exit.New(exit.Usage, fmt.Errorf("--%s is about deep Q-learning, and run%s is an actor-critic", name, variant), hint)
}

// TrainerArguments returns the arguments with which a scheduler's command hands its flags on to
// gnntrain, which has the same.
func TrainerArguments(c *cli.Context, variant string) []string {
	var out []string
	for _, f := range trainer(variant) {
		if name := f.Names()[0]; c.IsSet(name) {
			out = append(out, fmt.Sprintf("--%s=%v", name, c.Value(name))) // one word: a switch takes no second one
		}
	}
	return out
}

// trainer returns the flags that gnntrain has too.
func trainer(variant string) []cli.Flag {
	var out []cli.Flag
	for _, f := range All() {
		name, heading := f.Names()[0], whileLearning
		switch {
		case slices.Contains(method(variant).OnlineFlags(), name):
			heading = ofMethod(variant)
		case !slices.Contains(everyMethod, name):
			continue
		}
		online(f)
		Group(f, heading)
		out = append(out, f)
	}
	for _, f := range Online() {
		Group(f, whileLearning)
		out = append(out, f)
	}
	return out
}

// online makes the help of a hyperparameter's flag say what it does in online learning.
func online(f cli.Flag) {
	switch f := f.(type) {
	case *cli.Float64Flag:
		f.DefaultText = asTrained
		if strings.HasSuffix(f.Name, "learning-rate") { // does not fall in online learning
			f.DefaultText = "what the network's training ended with"
		}
		if f.Name == "learning-rate" {
			f.Usage = "learning rate of Adam"
		}
		if f.Name == "entropy" {
			f.Usage = "bonus for the policy's entropy, which keeps it exploring"
		}
	case *cli.IntFlag:
		f.DefaultText = asTrained
		if f.Name == "rollout" {
			f.Usage = "placements between updates, all by one network"
		}
	case *cli.BoolFlag:
		f.DefaultText = asTrained
	case *cli.StringFlag:
		f.DefaultText = asTrained
	}
}

// otherHead returns the names of the hyperparameters that variants of the other head have.
func otherHead(variant string) []string {
	if head(variant) == checkpoint.DQN {
		return method("acgnn").OnlineFlags()
	}
	return append(slices.Clone(exploration), method("gnn").OnlineFlags()...)
}

func head(variant string) checkpoint.Head { return learn.Architecture(variant, 0).Head }
