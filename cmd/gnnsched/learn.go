package main

import (
	"errors"
	"fmt"
	"path/filepath"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/learn"
	"gnnsched/scheduler/plugin"
	"gnnsched/scheduler/policy/neural"
	"gnnsched/scheduler/server"
)

// learnExamples are lines of the help.
func learnExamples(variant string) string {
	more := "--init-epsi 0.2 --learning-rate 0.0005"
	if learn.Architecture(variant, 0).Head == checkpoint.ActorCritic {
		more = "--actor-learning-rate 0.0003 --critic-learning-rate 0.001"
	}
	line := func(flags, about string) string { return fmt.Sprintf("   run%s %s # %s\n", variant, flags, about) }
	return line("--learn                                  ", "explore, and learn from every placement") +
		line("--learn --checkpoint my.safetensors        ", "start from this file and update it") +
		line("--learn --hidden-layers 32 "+more, "start from random weights")
}

// initialWeights are weights that a learning scheduler starts from, in a file that does not exist
// yet.
type initialWeights struct {
	checkpoint *checkpoint.Checkpoint
	file       string
}

func (w initialWeights) save() error {
	if err := w.checkpoint.Save(w.file); err != nil {
		return exit.New(exit.Usage, err, "choose a place that you can write to with --checkpoint")
	}
	return nil
}

// learning makes a profile learn if the flags ask for it. It returns the weights to save before the scheduler starts, or nil if their file
// exists.
func learning(c *ucli.Context, p *server.Profile, variant string) (*initialWeights, error) {
	if err := learn.CheckScheduler(c, variant); err != nil || !c.Bool(learn.Learn) {
		return nil, err
	}
	if p.Policy != "" {
		return nil, exit.New(exit.Usage, fmt.Errorf("--learn: the policy %s is a heuristic and does not learn", p.Policy), "leave --policy out")
	}
	if p.Checkpoint == "" {
		if c.String("log-dir") == "" {
			return nil, exit.New(exit.Usage, errors.New("--learn has no file to write the weights to"), "name one with --checkpoint")
		}
		p.Checkpoint = filepath.Join(c.String("log-dir"), "run"+p.Variant+"-learned.safetensors")
	}
	start, fresh, err := learn.StartFromFlags(c, p.Checkpoint, p.Variant)
	if hinted := new(exit.Error); err != nil && !errors.As(err, &hinted) || err == nil && !fresh {
		_, err = neural.Load(p.Checkpoint)
	}
	if err != nil {
		return nil, err
	}
	if err := setLearn(c, p, start.Manifest.Objective, variant); err != nil || !fresh {
		return nil, err
	}
	return &initialWeights{start, p.Checkpoint}, nil
}

// leastEpsilon is the share of random placements below which exploration does not fall.
const leastEpsilon = 0.01

// setLearn fills in the profile's arguments about learning. variant is the command's.
func setLearn(c *ucli.Context, p *server.Profile, objective, variant string) (err error) {
	p.Learn = &plugin.LearnArgs{Objective: objective, InitEpsilon: c.Float64("init-epsi"), EpsilonDecay: c.Float64("epsi-decay")}
	p.Learn.FinalEpsilon = min(leastEpsilon, p.Learn.InitEpsilon) // 0 for the actor-critic, which has neither flag
	p.Learn.Trainer, err = trainerCommand(c, p, variant)
	return err
}

// trainerCommand returns the command line of the trainer that the scheduler starts.
func trainerCommand(c *ucli.Context, p *server.Profile, variant string) ([]string, error) {
	program, err := cli.FindProgram("gnntrain")
	if err != nil {
		return nil, exit.New(exit.Usage, errors.New("--learn needs gnntrain, which is neither in the directory of this program nor in PATH"),
			"build it with `make trainer`")
	}
	out := []string{program, "--online", "--init", p.Checkpoint}
	if dir := c.String("log-dir"); dir != "" {
		out = append(out, "--events", filepath.Join(dir, "run"+p.Variant+"-online"))
	}
	return append(out, learn.TrainerArguments(c, variant)...), nil
}
