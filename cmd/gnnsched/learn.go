package main

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/learn/flags"
	"gnnsched/scheduler/plugin"
	"gnnsched/scheduler/server"
)

// architectures are those of the variants, all of which can learn while they schedule.
var architectures = map[string]checkpoint.Architecture{
	"gnn": {Encoder: checkpoint.GNN, Head: checkpoint.DQN}, "acgnn": {Encoder: checkpoint.GNN, Head: checkpoint.ActorCritic},
	"dqn": {Encoder: checkpoint.MLP, Head: checkpoint.DQN}, "acdqn": {Encoder: checkpoint.MLP, Head: checkpoint.ActorCritic},
}

// The hyperparameters that matter online, by which variants have them.
var (
	everyNames = []string{"gamma", "learning-rate", "batch-size", "clip-norm", "reward", "reward-scale"}
	headNames  = map[checkpoint.Head][]string{
		checkpoint.DQN: {"n-step", "replay-buffer-size", "priority-exponent", "update-frequency", "target-update-frequency"},
		checkpoint.ActorCritic: {
			"actor-learning-rate", "critic-learning-rate", "rollout", "epochs", "critic-apart",
			"gae-lambda", "clip", "value-clip", "value-coefficient", "entropy", "target-kl",
		},
	}
	epsilonNames = []string{"init-epsi", "epsi-decay", "final-epsi"}
)

// The headings of --help.
const (
	whileLearning = "with --learn"
	ofDQN         = "with --learn, of deep Q-learning"
	ofPPO         = "with --learn, of the actor-critic"
)

// trainerFlags are handed on to gnntrain, which has the same.
func trainerFlags(variant string) []ucli.Flag {
	head := architectures[variant].Head
	var out []ucli.Flag
	for _, f := range flags.All() {
		heading := whileLearning
		switch name := f.Names()[0]; {
		case slices.Contains(headNames[head], name):
			heading = ofDQN
			if head == checkpoint.ActorCritic {
				heading = ofPPO
			}
		case !slices.Contains(everyNames, name):
			continue
		}
		switch f := f.(type) {
		case *ucli.Float64Flag:
			f.DefaultText = flags.AsTrained
			if strings.HasSuffix(f.Name, "learning-rate") { // which does not fall here
				f.DefaultText = "what the network's training ended with"
			}
			if f.Name == "learning-rate" {
				f.Usage = "of Adam"
			}
			if f.Name == "entropy" {
				f.Usage = "bonus for the policy's entropy, which keeps it exploring"
			}
		case *ucli.IntFlag:
			f.DefaultText = flags.AsTrained
			if f.Name == "rollout" {
				f.Usage = "placements between updates, all by one network"
			}
		case *ucli.BoolFlag:
			f.DefaultText = flags.AsTrained
		case *ucli.StringFlag:
			f.DefaultText = flags.AsTrained
		}
		flags.Group(f, heading)
		out = append(out, f)
	}
	for _, f := range flags.Online() {
		flags.Group(f, whileLearning)
		out = append(out, f)
	}
	return out
}

func learnFlags(variant string) []ucli.Flag {
	out := []ucli.Flag{
		&ucli.BoolFlag{Name: "learn", Category: whileLearning, Usage: "explore, and learn from every placement; needs gnntrain. Without it nothing explores"},
		&ucli.IntFlag{Name: "hidden-layers", Category: whileLearning, Usage: "begin from nothing with hidden layers of this `WIDTH`, where --checkpoint does not exist yet"},
	}
	if architectures[variant].Head == checkpoint.DQN {
		out = append(out,
			&ucli.Float64Flag{Name: "init-epsi", Category: ofDQN, Value: 0.1, Usage: "share of random placements at the start"},
			&ucli.Float64Flag{Name: "epsi-decay", Category: ofDQN, Value: 0.999, Usage: "`FACTOR` on that share after each placement"},
			&ucli.Float64Flag{Name: "final-epsi", Category: ofDQN, Value: 0.01, Usage: "the share that it does not fall below"})
	}
	return append(out, trainerFlags(variant)...)
}

// otherFlags are those of the variants of the other head: somebody who types one is to be told why it
// is of no use, and what is.
func otherFlags(variant string) []ucli.Flag {
	var out []ucli.Flag
	for _, name := range otherNames(variant) {
		out = append(out, &ucli.StringFlag{Name: name, Hidden: true})
	}
	return out
}

func otherNames(variant string) []string {
	if architectures[variant].Head == checkpoint.DQN {
		return headNames[checkpoint.ActorCritic]
	}
	return append(slices.Clone(epsilonNames), headNames[checkpoint.DQN]...)
}

func notOfTheOtherHead(c *ucli.Context, variant string) error {
	for _, name := range otherNames(variant) {
		if !c.IsSet(name) {
			continue
		}
		if architectures[variant].Head == checkpoint.DQN {
			return exit.New(exit.Usage, fmt.Errorf("--%s is about an actor-critic, and run%s learns by deep Q-learning", name, variant), "use runacgnn or runacdqn, or leave it out")
		}
		hint := "use rungnn or rundqn, or leave it out"
		if slices.Contains(epsilonNames, name) {
			hint = "leave it out: an actor-critic explores by drawing from its own probabilities, which --entropy keeps apart"
		}
		return exit.New(exit.Usage, fmt.Errorf("--%s is about deep Q-learning, and run%s is an actor-critic", name, variant), hint)
	}
	return nil
}

// learnExamples are the examples' lines about learning.
func learnExamples(variant string) string {
	more := "--init-epsi 0.2 --learning-rate 0.0005"
	if architectures[variant].Head == checkpoint.ActorCritic {
		more = "--actor-learning-rate 0.0003 --critic-learning-rate 0.001"
	}
	line := func(flags, about string) string { return fmt.Sprintf("   run%s %s # %s\n", variant, flags, about) }
	return line("--learn                                  ", "explore, and learn from every placement") +
		line("--learn --checkpoint my.safetensors --wait-cost 0.02", "from these weights, into the same file") +
		line("--learn --hidden-layers 32 "+more, "from nothing")
}

// learning makes a profile learn if the flags say so. prepare, if not nil, writes the weights
// to start from, where there are none yet; it is to be called before the scheduler runs.
func learning(c *ucli.Context, p *server.Profile, variant string) (prepare func() error, err error) {
	if err := notOfTheOtherHead(c, variant); err != nil {
		return nil, err
	}
	if !c.Bool("learn") {
		return nil, onlyWithLearn(c, variant)
	}
	if p.Policy != "" {
		return nil, exit.New(exit.Usage, fmt.Errorf("--learn: the policy %s is a heuristic and does not learn", p.Policy), "leave --policy out")
	}
	if p.Checkpoint == "" {
		if c.String("log-dir") == "" {
			return nil, exit.New(exit.Usage, errors.New("--learn has nowhere to keep what is learned"), "name a file with --checkpoint")
		}
		p.Checkpoint = filepath.Join(c.String("log-dir"), "run"+p.Variant+"-learned.safetensors")
	}
	start, fresh, err := startingPoint(c, p)
	if err != nil {
		return nil, err
	}
	if _, err := flags.OnlineJob(c, start); err != nil { // which the trainer would refuse again and again
		return nil, exit.New(exit.Usage, fmt.Errorf("--learn: %w", err), "see --help")
	}
	if err := setLearn(c, p, start.Manifest.Objective); err != nil || !fresh {
		return nil, err
	}
	return func() error {
		if err := start.Save(p.Checkpoint); err != nil {
			return exit.New(exit.Usage, err, "choose a place that you can write to with --checkpoint")
		}
		return nil
	}, nil
}

// setLearn fills in what the plugin is told about learning.
func setLearn(c *ucli.Context, p *server.Profile, objective string) (err error) {
	p.Learn = &plugin.LearnArgs{Objective: objective, InitEpsilon: c.Float64("init-epsi"), EpsilonDecay: c.Float64("epsi-decay"), FinalEpsilon: c.Float64("final-epsi")}
	if !c.IsSet("final-epsi") { // an actor-critic has none of these, and its flags give zeros
		p.Learn.FinalEpsilon = min(p.Learn.FinalEpsilon, p.Learn.InitEpsilon)
	}
	if p.Learn.Trainer, err = trainerCommand(c, p); err != nil {
		return err
	}
	if err := p.Learn.Validate(); err != nil {
		return exit.New(exit.Usage, err, "see --help")
	}
	return nil
}

// onlyWithLearn refuses the flags that would be of no consequence, lest somebody believes
// that the scheduler learns.
func onlyWithLearn(c *ucli.Context, variant string) error {
	for _, f := range learnFlags(variant) {
		if name := f.Names()[0]; name != "learn" && c.IsSet(name) {
			return exit.New(exit.Usage, fmt.Errorf("--%s is about learning", name), "add --learn, or leave it out: nothing explores or learns without")
		}
	}
	return nil
}

// startingPoint is the network to go on from: the file's, or where there is none the one that
// the program carries or, with --hidden-layers, random weights.
func startingPoint(c *ucli.Context, p *server.Profile) (start *checkpoint.Checkpoint, fresh bool, err error) {
	width := c.Int("hidden-layers")
	start, err = checkpoint.Load(p.Checkpoint)
	switch {
	case err == nil:
		return start, false, fits(c, p, start)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, false, checkCheckpoint(p.Checkpoint)
	case c.IsSet("hidden-layers"):
		a := architectures[p.Variant]
		a.Hidden = width
		if err := a.Validate(); err != nil {
			return nil, false, exit.New(exit.Usage, fmt.Errorf("--hidden-layers: %w", err), "")
		}
		start = checkpoint.Random(a, rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())))
		start.Manifest.Objective = "balance"
		return start, true, nil
	}
	if start, err = checkpoint.Shipped(p.Variant); err != nil {
		return nil, false, exit.New(exit.Checkpoint, fmt.Errorf("--learn: nothing to start from: %w", err), "name a checkpoint with --checkpoint, or begin from nothing with --hidden-layers 32")
	}
	return start, true, nil
}

// fits checks that the file's network can go on learning under the flags.
func fits(c *ucli.Context, p *server.Profile, start *checkpoint.Checkpoint) error {
	a, want := start.Manifest.Architecture, architectures[p.Variant]
	if a.Graph != want.Graph {
		return exit.New(exit.Checkpoint, fmt.Errorf("--learn: the network in %s reads the graph %q, which does not learn while it schedules", p.Checkpoint, a.Graph), "name another checkpoint, or leave --learn out")
	}
	if a.Head != want.Head { // the encoder may be another one: it is the file's that learns
		return exit.New(exit.Checkpoint, fmt.Errorf("--learn: the network in %s has the head %q, run%s wants %q", p.Checkpoint, a.Head, p.Variant, want.Head), "start it with the command of its variant, or name another checkpoint")
	}
	if c.IsSet("hidden-layers") && c.Int("hidden-layers") != a.Hidden {
		return exit.New(exit.Usage, fmt.Errorf("--hidden-layers %d: the network in %s has %d", c.Int("hidden-layers"), p.Checkpoint, a.Hidden), "leave it out to go on with that network, or move the file away to begin from nothing")
	}
	return nil
}

// trainerCommand is how to start gnntrain.
func trainerCommand(c *ucli.Context, p *server.Profile) ([]string, error) {
	program, err := findTrainer()
	if err != nil {
		return nil, err
	}
	out := []string{program, "--online", "--init", p.Checkpoint}
	if dir := c.String("log-dir"); dir != "" {
		out = append(out, "--events", filepath.Join(dir, "run"+p.Variant+"-online"))
	}
	for _, f := range trainerFlags(p.Variant) {
		if name := f.Names()[0]; c.IsSet(name) {
			out = append(out, fmt.Sprintf("--%s=%v", name, c.Value(name))) // in one word, as a switch needs it
		}
	}
	return out, nil
}

// findTrainer looks for gnntrain beside this program, whatever name that was called by, and
// in PATH.
func findTrainer() (string, error) {
	if self, err := os.Executable(); err == nil {
		if real, err := filepath.EvalSymlinks(self); err == nil {
			self = real
		}
		beside := filepath.Join(filepath.Dir(self), "gnntrain")
		if path, err := exec.LookPath(beside); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath("gnntrain")
	if err != nil {
		return "", exit.New(exit.Usage, errors.New("--learn needs gnntrain, which is neither beside this program nor in PATH"), "build it with `make trainer`")
	}
	return path, nil
}

// learnNames are the names of the flags about learning.
func learnNames() []string {
	var names []string
	for _, variant := range server.Variants {
		for _, f := range learnFlags(variant) {
			names = append(names, f.Names()[0])
		}
	}
	return names
}
