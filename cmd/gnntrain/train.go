//go:build torch

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	ucli "github.com/urfave/cli/v2"
	"k8s.io/utils/clock"

	"gnnsched/cmd/internal/work"
	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/internal/files"
	"gnnsched/internal/logging"
	"gnnsched/internal/tensorboard"
	"gnnsched/internal/workers"
	"gnnsched/scheduler/experience"
	"gnnsched/scheduler/learn"
	"gnnsched/scheduler/learn/remote"
	"gnnsched/scheduler/learn/run"
	"gnnsched/scheduler/policy/heuristic"
)

// runFiles are the paths that a run writes to.
type runFiles struct{ out, state, events string }

// filesOf returns the paths of the flags, or their defaults.
func filesOf(c *ucli.Context, variant string) runFiles {
	f := runFiles{out: cmp.Or(c.String("out"), variant+".safetensors"), events: c.String("events")}
	f.state = f.out + ".state"
	if f.events == "" {
		base := filepath.Base(f.out)
		f.events = filepath.Join("logs", strings.TrimSuffix(base, filepath.Ext(base)))
	}
	return f
}

// train is the action without --online: it trains in the simulator.
func train(c *ucli.Context) (err error) {
	var job learn.Job
	var resume *run.State
	if c.Bool("resume") {
		resume, job, err = resumedJob(c, filesOf(c, c.String("variant")).state)
	} else {
		job, err = newJob(c)
	}
	if err != nil {
		return err
	}
	if c.Bool("print-config") {
		return cli.Written(c)(job.YAML())
	}
	return trainJob(c, job, resume, filesOf(c, job.Variant))
}

// trainJob trains in the simulator, with curves of the run.
func trainJob(c *ucli.Context, job learn.Job, resume *run.State, f runFiles) error {
	events, err := f.open(c, firstStep(resume))
	if err != nil {
		return err
	}
	return errors.Join(learnJob(c, job, resume, f, events), events.Close())
}

// open checks that the files can be written, and opens the curves of the run. Figures of steps after first are dropped: they are
// from another run, or from this one before it was killed.
func (f runFiles) open(c *ucli.Context, first int) (*tensorboard.Run, error) {
	for _, path := range []string{f.out, f.state} {
		if err := cli.Writable(path); err != nil {
			return nil, err
		}
	}
	if err := cli.MakeDir(c.App.ErrWriter, f.events, "--events", 0o755); err != nil {
		return nil, err
	}
	events, err := tensorboard.Open(f.events, clock.RealClock{})
	if err != nil {
		return nil, exit.New(exit.Usage, err, "choose a folder that you can write to with --events")
	}
	events.Rewind(first)
	return events, nil
}

// firstStep returns the step at which a run continues; -1 for a new one.
func firstStep(s *run.State) int {
	if s == nil {
		return -1
	}
	return s.Step
}

// learnJob runs a job and writes its best network.
func learnJob(c *ucli.Context, job learn.Job, resume *run.State, f runFiles, events *tensorboard.Run) error {
	away, end, err := elsewhere(c)
	if err != nil {
		return err
	}
	defer end()
	held, err := run.NewHeldOut(job.Evaluation(), job.EvaluateSeeds)
	if err != nil {
		return err
	}
	baseline, err := held.Evaluate(heuristic.Kubernetes{}, true)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.App.ErrWriter, "default scoring on the held-out workloads: %v\n", baseline)
	save := saving(f.out, baseline)
	var start *checkpoint.Checkpoint
	if file := c.String("start"); file != "" && resume == nil {
		if start, err = checkpoint.Load(file); err != nil {
			return exit.New(exit.Checkpoint, err, "name a network that gnntrain wrote")
		}
	}
	t, err := learn.NewTrainer(job, start)
	if err != nil {
		return err
	}
	t.HeldOut, t.State, t.Resume, t.Elsewhere = held, f.state, resume, away
	x := training{trainer: t, options: &t.Options, unit: "step", steps: job.Steps, save: save}
	x.beside = fmt.Sprintf(" (default scoring: %v)", baseline)
	if job.Judge != nil {
		x.judge = job.Judgement
	}
	return x.run(c, f, events)
}

// training holds the differences between the kinds of training in the simulator.
type training struct {
	trainer interface {
		Train(context.Context) (*checkpoint.Checkpoint, run.Evaluation, error)
	}
	options *run.Options // of the trainer
	unit    string       // name of a step
	steps   int
	save    func(*checkpoint.Checkpoint) error
	beside  string                                              // follows the best network's result
	judge   func(*checkpoint.Checkpoint) (run.Judgement, error) // judges the chosen network; nil for none
}

// run trains, shows progress, and writes the best network.
func (x training) run(c *ucli.Context, f runFiles, events *tensorboard.Run) error {
	r := newReporter(c, x.unit, x.steps)
	x.options.Recorder, x.options.Improved = events, x.save
	x.options.Progress, x.options.Evaluated = r.progress, r.evaluated
	best, e, err := x.trainer.Train(c.Context)
	r.end()
	if err != nil && (best == nil || !errors.Is(err, context.Canceled)) {
		return err
	}
	result := "held-out " + e.Text + x.beside
	judged := ""
	if err == nil && x.judge != nil {
		j, err := x.judge(best)
		if err != nil {
			return err
		}
		maps.Copy(best.Manifest.Training, j.Figures())
		judged = fmt.Sprintf("judged on episodes that neither trained nor chose it: %v", j)
	}
	if err := x.save(best); err != nil { // an earlier process may have found it
		return err
	}
	fmt.Fprintf(c.App.Writer, "wrote %s: %s, after %s\n", f.out, result, r.last.Elapsed.Round(time.Second))
	if judged != "" {
		fmt.Fprintln(c.App.Writer, judged)
	}
	return f.end(err)
}

// saving returns a function that writes a network.
func saving(out string, baseline run.Score) func(*checkpoint.Checkpoint) error {
	return func(k *checkpoint.Checkpoint) error {
		k.Manifest.Commit = commit
		maps.Copy(k.Manifest.Training, baseline.Figures("default"))
		return k.Save(out)
	}
}

// end returns the error of a run that was interrupted, or removes the state file of one that is over.
func (f runFiles) end(interrupted error) error {
	if interrupted != nil {
		return exit.New(exit.Interrupted, errors.New("interrupted"), "continue with --resume")
	}
	return os.Remove(f.state)
}

// newJob returns the job of the file and the flags.
func newJob(c *ucli.Context) (learn.Job, error) {
	j, err := read(c)
	if err != nil {
		return j, exit.New(exit.Usage, err, "see gnntrain --help, and gnntrain --print-config for a file to start from")
	}
	learn.ApplyFlags(c, &j.Config)
	if name := c.String("scenario"); name != "" {
		if j.Environment, err = learn.EnvironmentByName(name); err != nil {
			return j, exit.New(exit.Usage, fmt.Errorf("--scenario: %w", err), "")
		}
		j.Also = nil // the scenario takes the place of all that the file names
	}
	if dir := c.String("trace"); dir != "" {
		return onRecord(c, j, dir)
	}
	if err := j.Validate(); err != nil {
		return j, exit.New(exit.Usage, err, "see gnntrain --help")
	}
	return j, nil
}

// onRecord returns the job on a record, and says what it learns from and is judged on.
func onRecord(c *ucli.Context, j learn.Job, dir string) (learn.Job, error) {
	if c.String("scenario") != "" {
		return j, exit.Usagef("--trace and --scenario exclude each other: leave one of them out")
	}
	j, r, err := j.OnRecord(dir)
	if err != nil {
		return j, exit.New(exit.Usage, fmt.Errorf("--trace: %w", err), "docs/how-to/train.md says how a record is divided")
	}
	fmt.Fprintln(c.App.ErrWriter, r)
	return j, nil
}

// read returns the job of the file, or the variant's default.
func read(c *ucli.Context) (learn.Job, error) {
	path := c.String("config")
	if path == "" {
		return learn.NewJob(c.String("variant"))
	}
	data, err := files.Read(path, files.Text)
	if err != nil {
		return learn.Job{}, err
	}
	j, err := learn.ReadJob(path, data, c.String("variant"))
	if err == nil && c.IsSet("variant") && c.String("variant") != j.Variant {
		err = fmt.Errorf("--variant is %s, but %s has the variant %s", c.String("variant"), path, j.Variant)
	}
	return j, err
}

// resumedJob returns the run of a state file and its job. Flags must not change the job.
func resumedJob(c *ucli.Context, path string) (*run.State, learn.Job, error) {
	s, err := loadState(c, path, append(learn.FlagNames(), "config", "scenario", "trace", "start"))
	if err != nil {
		return nil, learn.Job{}, err
	}
	j, err := learn.ResumedJob(s)
	return s, j, err
}

// loadState returns the run of a state file. The flags that would change its configuration are errors.
func loadState(c *ucli.Context, path string, fixed []string) (*run.State, error) {
	for _, name := range fixed {
		if c.IsSet(name) {
			return nil, exit.New(exit.Usage, fmt.Errorf("--%s: a resumed run keeps its configuration", name),
				"leave it out, or start a new run without --resume")
		}
	}
	s, err := run.LoadState(path)
	if errors.Is(err, run.ErrNoState) {
		return nil, exit.New(exit.Usage, err, "leave --resume out to start a new run; name the network that you resume as when you started it")
	}
	return s, err
}

// reporter shows progress: a bar on a terminal, else a line at each evaluation.
type reporter struct {
	unit      string // name of a step
	bar       *progressbar.ProgressBar
	to        io.Writer
	scrolling bool // a line at each report
	last      run.Pace
}

func newReporter(c *ucli.Context, unit string, steps int) *reporter {
	r := &reporter{unit: unit, to: c.App.ErrWriter, scrolling: c.Bool("log-scrolling"), last: run.Pace{Steps: steps}}
	bar := cli.IsTerminal(os.Stderr) && !r.scrolling
	if c.IsSet("progress") {
		bar = c.Bool("progress")
	}
	if bar {
		r.bar = progressbar.NewOptions(steps, progressbar.OptionSetWriter(logging.Writer(os.Stderr)), progressbar.OptionShowIts(),
			progressbar.OptionSetItsString(unit+"s"), progressbar.OptionShowCount(), progressbar.OptionSetPredictTime(true),
			progressbar.OptionFullWidth())
	}
	return r
}

// progress shows how far the run is, the figures of its rounds and, if it scrolls, the best evaluation.
func (r *reporter) progress(p run.Pace) {
	r.last = p
	best := "best " + cmp.Or(p.Best, "none yet")
	if r.bar != nil {
		r.bar.Describe(p.Figures + "  " + best)
		_ = r.bar.Set(p.Step)
	}
	if r.scrolling {
		r.line(best)
	}
}

// evaluated shows an evaluation.
func (r *reporter) evaluated(e run.Evaluation) {
	if r.bar != nil {
		_ = r.bar.Clear()
	}
	r.line("held-out " + e.Text)
}

func (r *reporter) line(what string) {
	p := r.last
	left := time.Duration(float64(max(p.Steps-p.Step, 0)) / max(p.Speed, 1e-3) * float64(time.Second))
	if p.Figures != "" {
		what += "; " + p.Figures
	}
	decimals := 0
	if p.Speed < 10 {
		decimals = 2
	}
	fmt.Fprintf(r.to, "%s %d of %d: %s; %.*f %ss/s, %s left\n",
		r.unit, p.Step, p.Steps, what, decimals, p.Speed, r.unit, left.Round(time.Second))
}

func (r *reporter) end() {
	if r.bar != nil {
		_ = r.bar.Finish()
		fmt.Fprintln(os.Stderr)
	}
}

// handlers compute the units of gnntrain work.
func handlers() map[string]workers.Handler {
	player := &remote.Player{}
	return map[string]workers.Handler{remote.RolloutsKind: player.Play}
}

// elsewhere returns who plays a job's rollouts by --workers, until end is called; nil for this process.
func elsewhere(c *ucli.Context) (e run.Elsewhere, end func(), err error) {
	pool, err := work.Enlist(c, func(text string) { fmt.Fprintln(c.App.ErrWriter, text) })
	if err != nil || pool == nil {
		return nil, func() {}, err
	}
	// When the command is told to end, the round may end before, so that its state is saved.
	ctx, cancel := context.WithCancelCause(pool.Context)
	context.AfterFunc(c.Context, func() { time.AfterFunc(grace, func() { cancel(context.Cause(c.Context)) }) })
	return &remote.Rollouts{Context: ctx, Queue: pool.Queue, Waiting: pool.Waiting}, pool.Close, nil
}

const grace = 20 * time.Second

// source has the steps of the scheduler that started this process, which reads its reports and its file. It ends when its context does, as
// if the stream had ended there. So a trainer that gets a signal judges and saves its network.
type source struct {
	ctx   context.Context
	steps chan received
}

type received struct {
	step experience.Step
	err  error
}

// newSource reads the header of the stream. Its goroutine may stay in a read of the stream after ctx has
// ended.
func newSource(ctx context.Context, in io.Reader) (*source, error) {
	s := &source{ctx, make(chan received)}
	opened := make(chan error, 1)
	go s.read(in, opened)
	select {
	case err := <-opened:
		return s, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *source) read(in io.Reader, opened chan<- error) {
	r, err := experience.NewReader(in)
	opened <- err
	for err == nil {
		var next received
		next.step, next.err = r.Next()
		select {
		case s.steps <- next:
			err = next.err
		case <-s.ctx.Done():
			return
		}
	}
}

// Next implements experience.Source.
func (s *source) Next() (experience.Step, error) {
	select {
	case <-s.ctx.Done():
		return experience.Step{}, io.EOF
	case next := <-s.steps:
		return next.step, next.err
	}
}
