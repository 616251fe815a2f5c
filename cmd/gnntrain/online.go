//go:build torch

package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	ucli "github.com/urfave/cli/v2"
	"k8s.io/utils/clock"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/internal/tensorboard"
	"gnnsched/scheduler/learn"
	"gnnsched/scheduler/learn/flags"
	"gnnsched/scheduler/online"
)

// onlineFlags are what a scheduler that learns (rungnn --learn) starts its trainer with.
func onlineFlags() []ucli.Flag {
	return []ucli.Flag{
		&ucli.BoolFlag{Name: "online", Usage: "learn from the placements that a scheduler writes to stdin, until that ends; rungnn --learn starts it"},
		&ucli.StringFlag{Name: "init", Usage: "with --online: `FILE` with the weights to start from, and to write to unless --out says otherwise"},
	}
}

// learnOnline is the action with --online. It ends with its stdin, in good order; signals are
// left to the scheduler, which ends the stream when it gets one.
func learnOnline(c *ucli.Context) (err error) {
	start, cfg, err := onlineStart(c)
	if err != nil {
		return err
	}
	if cli.IsTerminal(os.Stdin) {
		return exit.New(exit.Usage, errors.New("--online reads a scheduler's placements from stdin, which is a terminal"), "start it with rungnn --learn")
	}
	signal.Ignore(syscall.SIGPIPE) // a scheduler that was killed reads no report, but what was learned is to be saved
	r, err := online.NewReader(os.Stdin)
	if err != nil {
		return exit.New(exit.Usage, err, "start it with rungnn --learn")
	}
	out := c.String("out")
	if out == "" {
		out = c.String("init")
	}
	o := learn.Online{Config: cfg, Save: func(k *checkpoint.Checkpoint) error {
		k.Manifest.Commit = commit
		return k.Save(out)
	}}
	report := onlineReport{before: int(start.Manifest.Training["onlineSteps"])}
	if dir := c.String("events"); dir != "" {
		if report.run, err = tensorboard.Open(dir, clock.RealClock{}); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, report.run.Close()) }()
		report.run.Rewind(report.before) // what a trainer before us did not get to save is lost
	}
	o.Progress = report.progress
	return o.Learn(r, start)
}

// onlineStart reads the weights to start from, and their configuration with what the flags
// change.
func onlineStart(c *ucli.Context) (*checkpoint.Checkpoint, learn.Config, error) {
	path := c.String("init")
	if path == "" {
		return nil, learn.Config{}, exit.New(exit.Usage, errors.New("--online needs --init"), "name the checkpoint to go on from")
	}
	start, err := checkpoint.Load(path)
	if err != nil {
		return nil, learn.Config{}, exit.New(exit.Checkpoint, err, "train one with gnntrain")
	}
	cfg, err := learn.OnlineConfig(start)
	if err != nil {
		return nil, cfg, exit.New(exit.Checkpoint, err, "choose a checkpoint of the variant gnn or dqn")
	}
	flags.Apply(c, &cfg)
	if err := cfg.Validate(); err != nil {
		return nil, cfg, exit.New(exit.Usage, err, "see gnntrain --help")
	}
	return start, cfg, nil
}

// onlineReport tells how online learning goes: a line, and TensorBoard's scalars.
type onlineReport struct {
	before int              // steps that the network has learned from in earlier runs
	run    *tensorboard.Run // nil for none
}

func (r *onlineReport) progress(p learn.OnlineProgress) {
	fmt.Fprintf(os.Stderr, "learned from %d placements (%d are missing) in %d updates: reward %.3f, loss %.4f\n", p.Steps, p.Lost, p.Updates, p.Reward, p.Loss)
	if r.run == nil {
		return
	}
	step := r.before + p.Steps
	for _, s := range []struct {
		tag   string
		value float64
	}{{"online/reward", p.Reward}, {"online/loss", p.Loss}, {"online/gradient_norm", p.Norm}, {"online/missing_steps", float64(p.Lost)}} {
		r.run.Scalar(s.tag, step, s.value)
	}
}
