//go:build torch

package main

import (
	"fmt"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/cli"
	"gnnsched/scheduler/learn/run"
)

// reporter shows progress: a bar on a terminal, else a line at each evaluation.
type reporter struct {
	steps     int
	bar       *progressbar.ProgressBar
	scrolling bool // a line at each report
	last      run.Progress
}

func newReporter(c *ucli.Context, steps int, baseline run.Score) *reporter {
	r := &reporter{steps: steps, scrolling: c.Bool("log-scrolling")}
	fmt.Fprintf(os.Stderr, "default scoring on the held-out workloads: %s\n", figuresOf(baseline))
	bar := cli.IsTerminal(os.Stderr) && !r.scrolling
	if c.IsSet("progress") {
		bar = c.Bool("progress")
	}
	if bar {
		r.bar = progressbar.NewOptions(steps, progressbar.OptionSetWriter(os.Stderr), progressbar.OptionShowIts(),
			progressbar.OptionSetItsString("steps"), progressbar.OptionShowCount(), progressbar.OptionSetPredictTime(true), progressbar.OptionFullWidth())
	}
	return r
}

func (r *reporter) progress(p run.Progress) {
	r.last = p
	if r.bar != nil {
		r.bar.Describe(fmt.Sprintf("%s: return %.2f  loss %.4f  epsilon %.2f  best %.5f", p.Phase, p.Return, p.Loss, p.Epsilon, p.Best))
		_ = r.bar.Set(p.Step)
	}
	if r.scrolling {
		r.line(fmt.Sprintf("best %.5f", p.Best))
	}
}

func (r *reporter) evaluated(_ int, s run.Score) {
	if r.bar != nil {
		_ = r.bar.Clear()
	}
	r.line("held-out " + figuresOf(s))
}

func (r *reporter) line(what string) {
	p := r.last
	left := time.Duration(float64(r.steps-p.Step) / max(p.Speed, 1e-3) * float64(time.Second))
	fmt.Fprintf(os.Stderr, "step %d of %d: %s; %s, return %.2f, loss %.4f, epsilon %.2f; %.0f steps/s, %s left\n",
		p.Step, r.steps, what, p.Phase, p.Return, p.Loss, p.Epsilon, p.Speed, left.Round(time.Second))
}

func (r *reporter) end() {
	if r.bar != nil {
		_ = r.bar.Finish()
		fmt.Fprintln(os.Stderr)
	}
}
