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
	"sigs.k8s.io/yaml"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/internal/files"
	"gnnsched/internal/logging"
	"gnnsched/internal/tensorboard"
	"gnnsched/scheduler/experience"
	"gnnsched/scheduler/learn/value"
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

func trainGPU(c *ucli.Context) error { return train(c, value.Defaults()) }

func trainKinds(c *ucli.Context) error { return train(c, value.KindDefaults()) }

// train trains in the simulator. The configuration is that of the flags, else the given one.
func train(c *ucli.Context, cfg value.Config) (err error) {
	if c.NArg() > 0 {
		return exit.Usagef("unexpected argument %q", c.Args().First())
	}
	graph := cfg.Graph
	if cfg, err = configOf(c, cfg); err != nil {
		return err
	}
	t := value.Trainer{Config: cfg}
	f := filesOf(c, cfg.Name())
	if t.State = f.state; c.Bool("resume") {
		if t.Resume, err = loadState(c, f.state); err != nil {
			return err
		}
		if t.Config, err = value.Resumed(t.Resume); err != nil {
			return err
		}
		if c.IsSet("variant") && t.Config.Name() != cfg.Name() {
			return exit.Usagef("--variant %s: the stored run is of %s; leave --variant out", cfg.Name(), t.Config.Name())
		}
	}
	if got := cmp.Or(t.Config.Graph, checkpoint.GPUGraph); got != graph {
		return exit.Usagef("the configuration is for the graph %s, this command for %s: gnntrain trains kinds, gnntrain gpu the graph gpu",
			got, graph)
	}
	if c.Bool("print-config") {
		return cli.Written(c)(yaml.Marshal(t.Config))
	}
	return run(c, &t, f)
}

// configOf returns the configuration of the file and the flags, with other fields as in cfg.
func configOf(c *ucli.Context, cfg value.Config) (value.Config, error) {
	hint := "see " + c.Command.HelpName + " --help; --print-config prints a file to start from"
	if path := c.String("config"); path != "" {
		b, err := files.Read(path, files.Text)
		if err != nil {
			return cfg, exit.New(exit.Usage, err, hint)
		}
		if cfg, err = cfg.Read(path, b); err != nil {
			return cfg, exit.New(exit.Usage, err, hint)
		}
	}
	var err error
	for name, set := range map[string]func(){
		"seed":          func() { cfg.Seed = c.Uint64("seed") },
		"iterations":    func() { cfg.Iterations = c.Int("iterations") },
		"hidden-layers": func() { cfg.Hidden = c.Int("hidden-layers") },
		"learning-rate": func() { cfg.LearningRate = c.Float64("learning-rate") },
		"variant":       func() { cfg, err = cfg.As(c.String("variant")) },
		"scenario":      func() { cfg.Scenarios, cfg.Trace = c.StringSlice("scenario"), "" },
		"trace":         func() { cfg.Trace = c.String("trace") },
	} {
		if c.IsSet(name) {
			set()
		}
	}
	if c.IsSet("scenario") && c.IsSet("trace") {
		return cfg, exit.Usagef("--trace and --scenario exclude each other: leave one of them out")
	}
	if err = errors.Join(err, cfg.Validate()); err != nil {
		return cfg, exit.New(exit.Usage, err, hint)
	}
	return cfg, nil
}

// loadState returns the run of a state file. Flags that would change its configuration are errors.
func loadState(c *ucli.Context, path string) (*value.State, error) {
	for _, name := range []string{"config", "seed", "start", "iterations", "hidden-layers", "learning-rate", "scenario", "trace"} {
		if c.IsSet(name) {
			return nil, exit.New(exit.Usage, fmt.Errorf("--%s: a resumed run keeps its configuration", name),
				"leave it out, or start a new run without --resume")
		}
	}
	s, err := value.LoadState(path)
	if errors.Is(err, value.ErrNoState) {
		return nil, exit.New(exit.Usage, err, "leave --resume out to start a new run; name the network that you resume as when you started it")
	}
	return s, err
}

// run trains, shows progress, and writes the best network.
func run(c *ucli.Context, t *value.Trainer, f runFiles) (err error) {
	gpus := t.Config.Graph != checkpoint.KindsGraph
	if gpus {
		if t.Nodes, t.Family, err = gpuFamily(c); err != nil {
			return err
		}
	}
	if start := c.String("start"); start != "" {
		if t.Start, err = checkpoint.Load(start); err != nil {
			return exit.New(exit.Checkpoint, err, "name a network that the same command wrote")
		}
	}
	if err := t.Check(); err != nil { // before anything is written
		return exit.New(exit.Usage, err, "see gnntrain --help; docs/how-to/train.md says what a run learns from")
	}
	if err := cli.Writable(f.out); err != nil {
		return err
	}
	if gpus {
		if err := value.TypicalPods(t.Family).Save(f.out); err != nil || c.Bool("typical-only") {
			return err
		}
	}
	events, err := f.open(c, t.Resume)
	if err != nil {
		return err
	}
	return errors.Join(learned(c, t, f, events), events.Close())
}

// learned trains and writes the best network.
func learned(c *ucli.Context, t *value.Trainer, f runFiles, events *tensorboard.Run) error {
	save := func(k *checkpoint.Checkpoint) error {
		k.Manifest.Commit = commit
		return k.Save(f.out)
	}
	r := newReporter(c, t.Config.Iterations)
	t.Recorder, t.Improved, t.Progress, t.Evaluated = events, save, r.progress, r.evaluated
	t.Note = func(text string) { fmt.Fprintln(c.App.ErrWriter, text) }
	best, e, err := t.Train(c.Context)
	r.end()
	if err != nil && (best == nil || !errors.Is(err, context.Canceled)) {
		return err
	}
	judged := ""
	if err == nil && t.Config.Graph == checkpoint.KindsGraph {
		text, figures, err := t.Judge(best)
		if err != nil {
			return err
		}
		maps.Copy(best.Manifest.Training, figures)
		judged = text + "\n"
	}
	if err := save(best); err != nil { // an earlier process may have found it
		return err
	}
	fmt.Fprintf(c.App.Writer, "wrote %s: held-out %s, after %s\n%s", f.out, e.Text, r.last.Elapsed.Round(time.Second), judged)
	return f.end(err)
}

// open checks that the files can be written, and opens the curves of the run. Figures of iterations after that of the state, if there is
// one, are dropped: they are from another run, or from this one before it was killed.
func (f runFiles) open(c *ucli.Context, resume *value.State) (*tensorboard.Run, error) {
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
	first := -1
	if resume != nil {
		first = resume.Step
	}
	events.Rewind(first)
	return events, nil
}

// end returns the error of a run that was interrupted, or removes the state file of one that is over.
func (f runFiles) end(interrupted error) error {
	if interrupted != nil {
		return exit.New(exit.Interrupted, errors.New("interrupted"), "continue with --resume")
	}
	return os.Remove(f.state)
}

// reporter shows progress: a bar on a terminal, else a line at each evaluation.
type reporter struct {
	bar       *progressbar.ProgressBar
	to        io.Writer
	scrolling bool // a line at each report
	last      value.Pace
}

func newReporter(c *ucli.Context, iterations int) *reporter {
	r := &reporter{to: c.App.ErrWriter, scrolling: c.Bool("log-scrolling"), last: value.Pace{Iterations: iterations}}
	bar := cli.IsTerminal(os.Stderr) && !r.scrolling
	if c.IsSet("progress") {
		bar = c.Bool("progress")
	}
	if bar {
		r.bar = progressbar.NewOptions(iterations, progressbar.OptionSetWriter(logging.Writer(os.Stderr)), progressbar.OptionShowIts(),
			progressbar.OptionSetItsString("iterations"), progressbar.OptionShowCount(), progressbar.OptionSetPredictTime(true),
			progressbar.OptionFullWidth())
	}
	return r
}

// progress shows how far the run is, the figures of the last iteration and, if it scrolls, the best evaluation.
func (r *reporter) progress(p value.Pace) {
	r.last = p
	best := "best " + cmp.Or(p.Best, "none yet")
	if r.bar != nil {
		r.bar.Describe(p.Figures + "  " + best)
		_ = r.bar.Set(p.Iteration)
	}
	if r.scrolling {
		r.line(best)
	}
}

// evaluated shows an evaluation.
func (r *reporter) evaluated(e value.Evaluation) {
	if r.bar != nil {
		_ = r.bar.Clear()
	}
	r.line("held-out " + e.Text)
}

func (r *reporter) line(what string) {
	p := r.last
	left := time.Duration(float64(max(p.Iterations-p.Iteration, 0)) / max(p.Speed, 1e-3) * float64(time.Second))
	if p.Figures != "" {
		what += "; " + p.Figures
	}
	fmt.Fprintf(r.to, "iteration %d of %d: %s; %.2f iterations/s, %s left\n",
		p.Iteration, p.Iterations, what, p.Speed, left.Round(time.Second))
}

func (r *reporter) end() {
	if r.bar != nil {
		_ = r.bar.Finish()
		fmt.Fprintln(os.Stderr)
	}
}

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
