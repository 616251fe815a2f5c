// Package tunestock is `gnnsched tune --stock`: it tunes the score plugins of kube-scheduler, judges the result
// on held-out episodes, and writes a KubeSchedulerConfiguration.
package tunestock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"gnnsched/cmd/internal/progress"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/contender"
	"gnnsched/scheduler/learn/cem"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/stock"
	"gnnsched/scheduler/server/stockconfig"
)

// Config holds the settings of a tuning and its output.
type Config struct {
	Tuner     cem.StockTuner
	Scenario  eval.Scenario
	Judge     eval.Scenario // of the held-out episodes
	HeldOut   int           // episodes on which the result is judged; 0 for none
	StopAfter int           // generations of all strategies together after which the search ends; 0 for none
	Out       string
	Version   string // of this program
	Err       io.Writer
	// Command returns the command that repeats the run. A run that ended after some generations needs their
	// number; 0 for a whole run.
	Command func(generations int) string
}

// tuned is the name of the result in tables.
const tuned = "stock"

// Run tunes, judges and writes. When ctx ends after a generation, the file has the profile so far, and Run returns
// ctx's error.
func Run(ctx context.Context, c Config) error {
	total := c.Tuner.Generations * len(c.Tuner.Strategies)
	fmt.Fprintf(c.Err, "tuning on %s: %d generations for each of %d strategies, of %d profiles on %d episodes\n",
		c.Scenario.Name, c.Tuner.Generations, len(c.Tuner.Strategies), c.Tuner.Population, c.Tuner.Episodes)
	search, stop := context.WithCancel(ctx)
	defer stop()
	done := 0
	var left progress.Left
	left.After(0)
	found, err := c.Tuner.Tune(search, func(s stock.Strategy, g cem.Generation) {
		if done++; done == c.StopAfter {
			stop()
		}
		fmt.Fprintf(c.Err, "%s: generation %d of %d: best %.4f of the default profile's, elite %.4f%s\n",
			s, g.Number, c.Tuner.Generations, g.Best, g.Elite, left.After(float64(done)/float64(total)))
	})
	if err != nil && (!errors.Is(err, context.Canceled) || len(found) == 0) {
		return err // before the first generation has ended, there is nothing to write
	}
	for _, x := range found {
		if err == nil {
			fmt.Fprintf(c.Err, "%s: %.4f of the default profile's on %d further episodes\n", x.Profile.Strategy, x.Choice, 2*c.Tuner.Episodes)
		}
	}
	if err == nil && found[0].Choice >= 1 {
		fmt.Fprintln(c.Err, "warning: no strategy did better than the default profile on the further episodes; more --episodes make the search less a matter of luck")
	}
	header := head{Config: c, profile: found[0].Profile, command: c.Command(0)}
	if err = ctx.Err(); err != nil {
		header.command = c.Command(done)
	}
	if err == nil && c.HeldOut > 0 {
		header.judged, err = c.judge(ctx, found[0].Profile)
	}
	text, failed := stockconfig.Write(found[0].Profile, header.text())
	if failed == nil {
		failed = os.WriteFile(c.Out, text, 0o644)
	}
	if failed != nil {
		return errors.Join(err, failed)
	}
	fmt.Fprintf(c.Err, "wrote %s: the best profile after %d of %d generations\n", c.Out, done, total)
	return err
}

// judge compares the profile with the default on episodes that tuning did not use, and prints the table.
func (c Config) judge(ctx context.Context, p stock.Profile) (*eval.Comparison, error) {
	fmt.Fprintf(c.Err, "judging on %d other episodes\n\n", c.HeldOut)
	base, err := contender.Named(contender.Kubernetes)
	if err != nil {
		return nil, err
	}
	player, err := stock.New(tuned, p)
	if err != nil {
		return nil, err
	}
	mine := eval.Contender{Name: tuned, New: func(policy.Setting) policy.Policy { return player }, RandomTies: true}
	r, err := cem.Judge(ctx, c.Judge, []eval.Contender{base, mine}, c.HeldOut)
	if err != nil {
		return nil, err
	}
	if err := r.WriteSummary(c.Err); err != nil {
		return nil, err
	}
	for _, line := range warnings(r) {
		fmt.Fprintln(c.Err, "warning: "+line)
	}
	return r, nil
}
