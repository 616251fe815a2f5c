//go:build torch

package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/cli"
	"gnnsched/internal/logging"
	"gnnsched/scheduler/learn/run"
)

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
