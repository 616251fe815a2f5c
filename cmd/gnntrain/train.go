//go:build torch

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	ucli "github.com/urfave/cli/v2"
	"k8s.io/utils/clock"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/internal/tensorboard"
	"gnnsched/scheduler/learn"
	"gnnsched/scheduler/learn/run"
	"gnnsched/scheduler/policy/heuristic"
)

// files are the paths that a run writes to.
type files struct{ out, state, events string }

// filesOf returns the paths of the flags, or their defaults.
func filesOf(c *ucli.Context, variant string) files {
	f := files{c.String("out"), c.String("state"), c.String("events")}
	if f.out == "" {
		f.out = variant + ".safetensors"
	}
	if f.state == "" {
		f.state = f.out + ".state"
	}
	if f.events == "" {
		base := filepath.Base(f.out)
		f.events = filepath.Join("logs", strings.TrimSuffix(base, filepath.Ext(base)))
	}
	return f
}

// train is the action without --online: it trains in the simulator.
func train(c *ucli.Context) (err error) {
	var job learn.Job
	var resume *run.State[run.Score]
	if c.Bool("resume") {
		resume, job, err = resumedJob(c, filesOf(c, c.String("variant")).state)
	} else {
		job, err = newJob(c)
	}
	if err != nil {
		return err
	}
	if c.Bool("print-config") {
		y, err := job.YAML()
		if err == nil {
			_, err = c.App.Writer.Write(y)
		}
		return err
	}
	f := filesOf(c, job.Variant)
	figures, err := f.open(c, firstStep(resume))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, figures.Close()) }()
	return learnJob(c, job, resume, f, figures)
}

// open checks that the files can be written, and opens the figures. Those of steps after first are
// dropped: they are from another run, or from this one before it was killed.
func (f files) open(c *ucli.Context, first int) (*tensorboard.Run, error) {
	for _, path := range []string{f.out, f.state} {
		if err := cli.Writable(path); err != nil {
			return nil, err
		}
	}
	if err := cli.MakeDir(c.App.ErrWriter, f.events, "--events", 0o755); err != nil {
		return nil, err
	}
	figures, err := tensorboard.Open(f.events, clock.RealClock{})
	if err != nil {
		return nil, exit.New(exit.Usage, err, "choose a folder that you can write to with --events")
	}
	figures.Rewind(first)
	return figures, nil
}

// firstStep returns the step at which a run continues; -1 for a new one.
func firstStep[S any](s *run.State[S]) int {
	if s == nil {
		return -1
	}
	return s.Step
}

// learnJob runs a job and writes its best network.
func learnJob(c *ucli.Context, job learn.Job, resume *run.State[run.Score], f files, figures run.Recorder) error {
	held, err := run.NewHeldOut(job.Evaluation(), job.EvaluateSeeds)
	if err != nil {
		return err
	}
	baseline, err := held.Evaluate(heuristic.Kubernetes{}, true)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "default scoring on the held-out workloads: %s\n", figuresOf(baseline))
	r := newReporter(c, "step", job.Steps)
	save := func(k *checkpoint.Checkpoint) error {
		k.Manifest.Commit = commit
		m := k.Manifest.Training
		m["defaultCost"], m["defaultMeanCost"], m["defaultUnscheduled"] = baseline.Cost, baseline.MeanCost, baseline.Unscheduled
		return k.Save(f.out)
	}
	t, err := learn.NewTrainer(job)
	if err != nil {
		return err
	}
	t.HeldOut, t.Recorder = held, figures
	t.State, t.Resume = f.state, resume
	t.Progress = func(p run.Progress) {
		r.progress(p.Pace, fmt.Sprintf("%s, return %.2f, loss %.4f, epsilon %.2f", p.Phase, p.Return, p.Loss, p.Epsilon), fmt.Sprintf("%.5f", p.Best))
	}
	t.Evaluated = func(_ int, s run.Score) { r.evaluated(figuresOf(s)) }
	t.Improved = save
	best, score, err := t.Train(c.Context)
	r.end()
	if err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	if err := save(best); err != nil { // an earlier process may have found it
		return err
	}
	fmt.Fprintf(c.App.Writer, "wrote %s: held-out %s (default scoring: %s), after %s\n",
		f.out, figuresOf(score), figuresOf(baseline), r.last.Elapsed.Round(time.Second))
	return f.end(err)
}

// end returns the error of a run that was interrupted, or removes the state file of one that is over.
func (f files) end(interrupted error) error {
	if interrupted != nil {
		return exit.New(exit.Interrupted, errors.New("interrupted"), "continue with --resume")
	}
	return os.Remove(f.state)
}

// figuresOf returns a score in words.
func figuresOf(s run.Score) string {
	return fmt.Sprintf("cost %.5f, over time %.5f, %.1f unscheduled", s.Cost, s.MeanCost, s.Unscheduled)
}
