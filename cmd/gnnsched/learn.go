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

	ucli "github.com/urfave/cli/v2"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/learn/flags"
	"gnnsched/scheduler/plugin"
	"gnnsched/scheduler/server"
)

// onlineVariants are those that can learn while they schedule, with their encoders.
var onlineVariants = map[string]checkpoint.Encoder{"gnn": checkpoint.GNN, "dqn": checkpoint.MLP}

// trainerNames are the hyperparameters that are the trainer's alone and matter online.
var trainerNames = []string{
	"gamma", "learning-rate", "batch-size", "n-step", "replay-buffer-size", "priority-exponent",
	"update-frequency", "target-update-frequency", "clip-norm", "reward", "reward-scale",
}

// trainerFlags are handed on to gnntrain, which has the same.
func trainerFlags() []ucli.Flag {
	var out []ucli.Flag
	for _, f := range flags.All() {
		if !slices.Contains(trainerNames, f.Names()[0]) {
			continue
		}
		switch f := f.(type) {
		case *ucli.Float64Flag:
			f.Usage, f.DefaultText = withLearn(f.Usage), asTrained
			if f.Name == "learning-rate" { // which does not fall here
				f.Usage, f.DefaultText = withLearn("of Adam"), "what the network's training ended with"
			}
		case *ucli.IntFlag:
			f.Usage, f.DefaultText = withLearn(f.Usage), asTrained
		case *ucli.StringFlag:
			f.Usage, f.DefaultText = withLearn(f.Usage), asTrained
		}
		out = append(out, f)
	}
	return out
}

const asTrained = "as the network was trained"

func withLearn(usage string) string { return "with --learn: " + usage }

func learnFlags() []ucli.Flag {
	return append([]ucli.Flag{
		&ucli.BoolFlag{Name: "learn", Usage: "explore, and learn from every placement; needs gnntrain. Without it nothing explores"},
		&ucli.Float64Flag{Name: "init-epsi", Value: 0.1, Usage: "with --learn: share of random placements at the start"},
		&ucli.Float64Flag{Name: "epsi-decay", Value: 0.999, Usage: "with --learn: `FACTOR` on that share after each placement"},
		&ucli.Float64Flag{Name: "final-epsi", Value: 0.01, Usage: "with --learn: the share that it does not fall below"},
		&ucli.IntFlag{Name: "hidden-layers", Usage: "with --learn: begin from nothing with hidden layers of this `WIDTH`, where --checkpoint does not exist yet"},
	}, trainerFlags()...)
}

// learnExample is a line of the examples, for the variants that can learn.
func learnExample(variant string) string {
	if _, can := onlineVariants[variant]; !can {
		return ""
	}
	return "   run" + variant + " --learn                                   # explore, and learn from every placement\n"
}

// learning makes a profile learn if the flags say so. prepare, if not nil, writes the weights
// to start from, where there are none yet; it is to be called before the scheduler runs.
func learning(c *ucli.Context, p *server.Profile) (prepare func() error, err error) {
	if !c.Bool("learn") {
		return nil, onlyWithLearn(c)
	}
	if _, can := onlineVariants[p.Variant]; !can {
		what := "variant " + p.Variant
		if p.Policy != "" {
			what = "policy " + p.Policy
		}
		return nil, exit.New(exit.Usage, fmt.Errorf("--learn: the %s does not learn while it schedules", what), "use rungnn or rundqn, without --policy")
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
	if !c.IsSet("final-epsi") {
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

// actorCriticNames are hyperparameters that those who come from AAML type after runacgnn and
// runacdqn. Actor-critic networks learn in gnntrain alone, so they are answered, not obeyed.
var actorCriticNames = []string{"actor-learning-rate", "critic-learning-rate"}

func actorCriticFlags(variant string) []ucli.Flag {
	if _, online := onlineVariants[variant]; online {
		return nil
	}
	var out []ucli.Flag
	for _, name := range actorCriticNames {
		out = append(out, &ucli.Float64Flag{Name: name, Usage: "of gnntrain --variant " + variant + "; not while scheduling"})
	}
	return out
}

func notActorCritic(c *ucli.Context, variant string) error {
	for _, name := range actorCriticNames {
		if c.IsSet(name) {
			return exit.New(exit.Usage, fmt.Errorf("--%s is about training, and %s does not learn while it schedules", name, variant),
				fmt.Sprintf("train with `gnntrain --variant %s --%s %v --out FILE`, then schedule with --checkpoint FILE", variant, name, c.Float64(name)))
		}
	}
	return nil
}

// onlyWithLearn refuses the flags that would be of no consequence, lest somebody believes
// that the scheduler learns.
func onlyWithLearn(c *ucli.Context) error {
	for _, f := range learnFlags() {
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
		a := checkpoint.Architecture{Encoder: onlineVariants[p.Variant], Head: checkpoint.DQN, Hidden: width}
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
	a := start.Manifest.Architecture
	if a.Head != checkpoint.DQN {
		return exit.New(exit.Checkpoint, fmt.Errorf("--learn: the network in %s has the head %q, and only %q learns while it schedules", p.Checkpoint, a.Head, checkpoint.DQN), "name a checkpoint of the variant gnn or dqn")
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
	for _, f := range trainerFlags() {
		if name := f.Names()[0]; c.IsSet(name) {
			out = append(out, "--"+name, fmt.Sprint(c.Value(name)))
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
	for _, f := range learnFlags() {
		names = append(names, f.Names()[0])
	}
	return names
}
