//go:build torch

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	ucli "github.com/urfave/cli/v2"
	"k8s.io/utils/clock"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/internal/tensorboard"
	"gnnsched/scheduler/experience"
	"gnnsched/scheduler/learn"
	"gnnsched/scheduler/learn/value"
	"gnnsched/scheduler/plugin/learningcurve"
	"gnnsched/scheduler/policy/neural"
)

// guardPatience is the number of networks in a row that the guard refuses before learning goes back to the last one that passed.
const guardPatience = 4

// learnOnline is the action with --online. It ends when stdin does, or with a signal, and saves the network either way. A scheduler that
// gets a signal ends the stream.
func learnOnline(c *ucli.Context) (err error) {
	from, out := c.String("init"), c.String("out")
	if out == "" {
		out = from
	}
	if from == "" { // the trainer before this one may have written it
		from = out
	}
	unlock, err := lockWeights(c, from, out)
	if err != nil {
		return err
	}
	defer unlock()
	weights := from
	if goesOn(from, out) {
		weights = out
	}
	start, config, err := onlineStart(c, weights)
	if err != nil {
		return err
	}
	steps, err := stepsOfStdin(c.Context)
	if err != nil {
		return err
	}
	t := value.Online{Config: config, Remember: c.Int(learn.Remember), State: out + ".online"}
	t.Save = func(k *checkpoint.Checkpoint) error {
		k.Manifest.Commit = commit
		return k.Save(out)
	}
	t.Note = func(line string) { fmt.Fprintln(os.Stderr, line) }
	t.Guard = value.Guard{Tolerance: c.Float64(learn.Tolerance), Patience: guardPatience}
	if n := c.Int(learn.GuardEpisodes); n > 0 {
		if t.Guard.Exam, err = value.NewExam(config, n); err != nil {
			return err
		}
	}
	report := onlineReport{before: int(start.Manifest.Training["onlineSteps"])}
	if dir := c.String("events"); dir != "" {
		if err := cli.MakeDir(c.App.ErrWriter, dir, "--events", 0o755); err != nil {
			return err
		}
		if report.run, err = tensorboard.Open(dir, clock.RealClock{}); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, report.run.Close()) }()
		report.run.Rewind(report.before) // drops the figures of updates that an earlier trainer did not save
	}
	t.Progress = report.progress
	return t.Learn(steps, start)
}

// stepsOfStdin returns the steps that a scheduler writes to stdin.
func stepsOfStdin(ctx context.Context) (*source, error) {
	signal.Ignore(syscall.SIGPIPE) // after a scheduler was killed, a report must not end this process before it saves the network
	if cli.IsTerminal(os.Stdin) {
		return nil, exit.New(exit.Usage, errors.New("--online reads a scheduler's placements from stdin, and stdin is a terminal"),
			"start it with rungnn --learn")
	}
	steps, err := newSource(ctx, os.Stdin)
	if err != nil && ctx.Err() == nil {
		return nil, exit.New(exit.Usage, err, "start it with rungnn --learn")
	}
	return steps, err
}

// goesOn tells whether an earlier trainer made the network in out from the one in from. The state file belongs to out then.
func goesOn(from, out string) bool {
	first, err := checkpoint.Load(from)
	later, none := checkpoint.Load(out)
	return err == nil && none == nil && later.Origin() == first.Origin()
}

// anotherEnds is how long to wait for a trainer of the same file to end. The scheduler before this one
// gives its trainer 20 s.
const anotherEnds = 30 * time.Second

// lockWeights makes this the only trainer of a file.
func lockWeights(c *ucli.Context, from, file string) (unlock func(), err error) {
	if _, err := os.Stat(from); err != nil && !shippedStart(c, from) {
		return func() {}, nil // onlineStart reports it
	}
	unlock, err = value.Lock(c.Context, file, anotherEnds)
	if errors.Is(err, value.ErrLocked) {
		return nil, exit.New(exit.Usage, err, "stop the other scheduler, run both with --leader-elect, or name another file with --checkpoint")
	}
	if err != nil {
		return nil, exit.New(exit.Usage, err, "choose a directory that you can write to")
	}
	return unlock, nil
}

// shippedStart tells whether learning begins with the shipped network of --variant: without --init, the first time.
func shippedStart(c *ucli.Context, from string) bool {
	_, err := os.Stat(from)
	return c.String("init") == "" && from != "" && errors.Is(err, os.ErrNotExist)
}

// onlineStart returns the network in the file to start from, and how it learns, with the changes of the flags.
func onlineStart(c *ucli.Context, from string) (start *checkpoint.Checkpoint, config value.Config, err error) {
	switch {
	case from == "":
		err = exit.New(exit.Usage, errors.New("--online needs --init"),
			"name the checkpoint to start from, or with --out where to write what begins with the shipped network")
	case shippedStart(c, from):
		if start, err = checkpoint.Shipped(c.String("variant")); err != nil {
			err = exit.New(exit.Usage, err, "name the checkpoint to start from with --init")
		}
	default:
		start, err = neural.Load(from)
	}
	if err != nil {
		return nil, config, err
	}
	if config, err = learn.OnlineFromFlags(c, start); err != nil {
		return nil, config, exit.New(exit.Usage, err, "see gnntrain --help; or train a network with this version's gnntrain")
	}
	return start, config, nil
}

// onlineReport reports online learning: a line on stderr, what the schedulers read, and TensorBoard's scalars.
type onlineReport struct {
	before int              // steps of the network's earlier online learning
	run    *tensorboard.Run // nil for none
}

func (r *onlineReport) progress(p value.Progress) {
	fmt.Fprintf(os.Stderr, "learned from %d placements (%d are missing) in %d updates: %.3f%% of the cluster waits, loss %.4f, "+
		"held-out score %.4f, %d networks kept back\n",
		p.Steps, p.Lost, p.Updates, p.Cost, p.Loss, p.Score, p.KeptBack)
	fmt.Fprintln(os.Stdout, reportOf(p).Line())
	if r.run == nil {
		return
	}
	step := r.before + p.Steps
	for _, s := range []struct {
		tag   string
		value float64
	}{
		{learningcurve.Cost, p.Cost}, {learningcurve.Loss, p.Loss}, {learningcurve.GradientNorm, p.Norm},
		{"missing_steps", float64(p.Lost)}, {learningcurve.Passed, float64(p.Passed)}, {"kept_back", float64(p.KeptBack)},
		{"eval_total", p.Score}, {"eval_limit", p.Limit},
	} {
		r.run.Scalar("online/"+s.tag, step, s.value)
	}
}

// reportOf returns what the scheduler gets to know: the counts, and the figures that there are by now.
func reportOf(p value.Progress) experience.Report {
	r := experience.Report{
		Read: uint64(p.Steps), Missing: uint64(p.Lost), Updates: uint64(p.Updates), Passed: uint64(p.Passed), Refused: uint64(p.KeptBack),
		Figures: map[string]float64{learningcurve.Cost: p.Cost},
	}
	if p.Updates > 0 {
		r.Figures[learningcurve.Loss], r.Figures[learningcurve.GradientNorm] = p.Loss, p.Norm
	}
	if p.Score != 0 { // it is 0 without episodes, and of a network that is not finite
		r.Figures[learningcurve.Score], r.Figures[learningcurve.ScoreLimit] = p.Score, p.Limit
	}
	return r
}
