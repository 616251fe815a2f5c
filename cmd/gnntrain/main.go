//go:build torch

// Command gnntrain trains a network in the simulator and writes it as a checkpoint. It is
// the one program that links libtorch; `make trainer` builds it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/schollz/progressbar/v3"
	ucli "github.com/urfave/cli/v2"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/learn"
	"gnnsched/scheduler/policy"
)

// commit is set by the linker.
var commit = "unknown"

func main() {
	d := learn.DefaultConfig()
	os.Exit(cli.Run(&ucli.App{
		Name: "gnntrain", HideHelpCommand: true, Version: commit,
		Usage: "train a scheduler's network in the simulator",
		Description: "Deep Q-learning on random clusters and workloads, starting from imitation of a\n" +
			"greedy heuristic. Evaluates on held-out workloads as it goes and writes the best network.\n" +
			"Ctrl-C stops early and writes the best so far.\n\n" +
			"Examples:\n" +
			"   gnntrain                                  # a few minutes; writes gnn.safetensors\n" +
			"   gnntrain --variant dqn --steps 50000      # no messages, a third of the time\n" +
			"   gnntrain --out my.safetensors && rungnn --checkpoint my.safetensors",
		Flags: append(onlineFlags(), []ucli.Flag{
			&ucli.StringFlag{Name: "variant", Value: "gnn", Usage: "`NAME`: gnn (message passing) or dqn (no messages)"},
			&ucli.StringFlag{Name: "out", Usage: "`FILE` to write; default: VARIANT.safetensors"},
			&ucli.Uint64Flag{Name: "seed", Value: d.Seed, Usage: "of everything random"},
			&ucli.IntFlag{Name: "steps", Value: d.Steps, Usage: "placements to learn from"},
			&ucli.IntFlag{Name: "hidden-layers", Value: d.Hidden, Usage: "`WIDTH` of the hidden layers"},
			&ucli.Float64Flag{Name: "init-epsi", Value: d.InitEpsilon, Usage: "share of random placements at the start"},
			&ucli.Float64Flag{Name: "final-epsi", Value: d.FinalEpsilon, Usage: "and when exploration has faded"},
			&ucli.Float64Flag{Name: "gamma", Value: d.Gamma, Usage: "discount of the next placement's reward"},
			&ucli.IntFlag{Name: "n-step", Value: d.NStep, Usage: "rewards summed before bootstrapping"},
			&ucli.Float64Flag{Name: "learning-rate", Value: d.LearningRate, Usage: "of Adam"},
			&ucli.IntFlag{Name: "batch-size", Value: d.BatchSize, Usage: "transitions an update"},
			&ucli.IntFlag{Name: "replay-buffer-size", Value: d.ReplayBufferSize, Usage: "transitions kept"},
			&ucli.IntFlag{Name: "update-frequency", Value: d.UpdateFrequency, Usage: "placements between updates"},
			&ucli.IntFlag{Name: "target-update-frequency", Value: d.TargetUpdateFrequency, Usage: "updates between copies to the target network"},
			&ucli.BoolFlag{Name: "use-heuristic", Value: d.ImitationShare > 0, Usage: "start from imitation of the greedy heuristic for the objective"},
		}...),
		Action: train,
	}, os.Args))
}

func config(c *ucli.Context) (learn.Config, error) {
	cfg := learn.DefaultConfig()
	switch v := c.String("variant"); v {
	case "gnn":
		cfg.Encoder = checkpoint.GNN
	case "dqn":
		cfg.Encoder = checkpoint.MLP
	default:
		return cfg, exit.New(exit.Usage, fmt.Errorf("variant %q cannot be trained", v), "choose gnn or dqn")
	}
	cfg.Seed, cfg.Steps, cfg.Hidden = c.Uint64("seed"), c.Int("steps"), c.Int("hidden-layers")
	cfg.InitEpsilon, cfg.FinalEpsilon = c.Float64("init-epsi"), c.Float64("final-epsi")
	cfg.Gamma, cfg.NStep, cfg.LearningRate = c.Float64("gamma"), c.Int("n-step"), c.Float64("learning-rate")
	cfg.BatchSize, cfg.ReplayBufferSize = c.Int("batch-size"), c.Int("replay-buffer-size")
	cfg.UpdateFrequency, cfg.TargetUpdateFrequency = c.Int("update-frequency"), c.Int("target-update-frequency")
	if !c.Bool("use-heuristic") {
		cfg.ImitationShare = 0
	}
	if err := cfg.Validate(); err != nil {
		return cfg, exit.New(exit.Usage, err, "see gnntrain --help")
	}
	return cfg, nil
}

func train(c *ucli.Context) error {
	if c.NArg() > 0 {
		return exit.Usagef("unexpected argument %q", c.Args().First())
	}
	if c.Bool("online") {
		return learnOnline(c)
	}
	cfg, err := config(c)
	if err != nil {
		return err
	}
	out := c.String("out")
	if out == "" {
		out = c.String("variant") + ".safetensors"
	}
	if err := writable(out); err != nil {
		return err
	}
	held, err := learn.NewHeldOut(learn.BalanceEnv(), cfg.EvaluateSeeds)
	if err != nil {
		return err
	}
	baseline, err := held.Evaluate(policy.Kubernetes{}, true)
	if err != nil {
		return err
	}
	r := &reporter{steps: cfg.Steps, baseline: baseline}
	r.begin()
	t := learn.Trainer{Config: cfg, Env: learn.BalanceEnv(), Teacher: policy.GreedyBalance{}, Held: held, Progress: r.progress, Evaluated: r.evaluated}
	best, score, err := t.Train(c.Context)
	r.end()
	if err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	best.Manifest.Commit = commit
	best.Manifest.Training["defaultCost"], best.Manifest.Training["defaultUnscheduled"] = baseline.Cost, baseline.Unscheduled
	if err := best.Save(out); err != nil {
		return err
	}
	fmt.Fprintf(c.App.Writer, "wrote %s: held-out cost %.5f with %.1f pods unscheduled (default scoring: %.5f, %.1f), after %s\n",
		out, score.Cost, score.Unscheduled, baseline.Cost, baseline.Unscheduled, time.Since(r.start).Round(time.Second))
	return err // an interruption is reported after the work is saved
}

// writable finds out before minutes of training whether the result can be written.
func writable(path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".gnntrain-*")
	if err != nil {
		return exit.New(exit.Usage, fmt.Errorf("write the checkpoint: %w", err), "choose a place that you can write to with --out")
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// reporter shows progress: a bar on a terminal, a line an evaluation elsewhere.
type reporter struct {
	steps    int
	baseline learn.Score
	bar      *progressbar.ProgressBar
	start    time.Time
	last     learn.Progress
}

func (r *reporter) begin() {
	r.start = time.Now()
	fmt.Fprintf(os.Stderr, "default scoring on the held-out workloads: cost %.5f, %.1f pods unscheduled\n", r.baseline.Cost, r.baseline.Unscheduled)
	if cli.IsTerminal(os.Stderr) {
		r.bar = progressbar.NewOptions(r.steps, progressbar.OptionSetWriter(os.Stderr), progressbar.OptionShowIts(),
			progressbar.OptionSetItsString("steps"), progressbar.OptionShowCount(), progressbar.OptionSetPredictTime(true), progressbar.OptionFullWidth())
	}
}

func (r *reporter) progress(p learn.Progress) {
	r.last = p
	if r.bar != nil {
		r.bar.Describe(fmt.Sprintf("return %.2f  loss %.4f  epsilon %.2f  best %.5f", p.Return, p.Loss, p.Epsilon, p.Best))
		_ = r.bar.Set(p.Step)
	}
}

func (r *reporter) evaluated(step int, s learn.Score) {
	took := time.Since(r.start)
	if r.bar != nil {
		_ = r.bar.Clear()
	}
	left := time.Duration(float64(took) * float64(r.steps-step) / float64(max(step, 1)))
	fmt.Fprintf(os.Stderr, "step %d of %d: held-out cost %.5f, %.1f unscheduled; return %.2f, loss %.4f, epsilon %.2f; %.0f steps/s, %s left\n",
		step, r.steps, s.Cost, s.Unscheduled, r.last.Return, r.last.Loss, r.last.Epsilon, float64(step)/took.Seconds(), left.Round(time.Second))
}

func (r *reporter) end() {
	if r.bar != nil {
		_ = r.bar.Finish()
		fmt.Fprintln(os.Stderr)
	}
}
