//go:build torch

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/learn"
	"gnnsched/scheduler/learn/run"
	"gnnsched/scheduler/policy/neural"
)

// candidate is a network that a run wrote.
type candidate struct {
	path string
	*checkpoint.Checkpoint
	job   map[string]any // the run's configuration without its seed
	score float64        // by which networks are chosen; less is better
}

func readCandidate(path string) (c candidate, err error) {
	c.path = path
	if c.Checkpoint, err = neural.Load(path); err != nil {
		return c, err
	}
	score, ok := c.Manifest.Training[run.HeldOutScore]
	if !ok {
		return c, exit.New(exit.Usage, fmt.Errorf("%s: its manifest has no %s", path, run.HeldOutScore),
			"train it again with this version's gnntrain")
	}
	if err := json.Unmarshal(c.Manifest.Config, &c.job); err != nil {
		return c, exit.New(exit.Usage, fmt.Errorf("%s: the configuration in its manifest: %w", path, err), "train it again with gnntrain")
	}
	delete(c.job, "seed")
	if rule, _ := c.job["residual"].(string); strings.HasSuffix(rule, ".safetensors") {
		c.job["residual"] = "a network" // of the same seed
	}
	c.score = score
	return c, nil
}

// judge sets the score anew, by episodes that follow those that chose the run's network.
func (c *candidate) judge(episodes int) error {
	if c.Manifest.Architecture.Stars() {
		return exit.New(exit.Usage, fmt.Errorf("%s is on the %s graph", c.path, c.Manifest.Architecture.Graph), "leave --episodes out")
	}
	job, err := learn.ReadJob(c.path, c.Manifest.Config, "")
	if err != nil {
		return exit.New(exit.Usage, fmt.Errorf("the configuration in its manifest: %w", err), "train it again with gnntrain")
	}
	held, err := run.NewHeldOut(job.Evaluation(), episodes)
	if err != nil {
		return err
	}
	held.After(job.EvaluateSeeds)
	net, err := infer.New(c.Checkpoint)
	if err != nil {
		return err
	}
	s, err := held.Evaluate(neural.New(c.path, net, nil), false)
	c.score = s.Total(job.Unscheduled)
	return err
}

func pick(c *ucli.Context) error {
	if c.NArg() == 0 {
		return exit.Usagef("name the networks to choose from: gnntrain pick --out best.safetensors FILE FILE...")
	}
	var all []candidate
	for _, path := range c.Args().Slice() {
		next, err := readCandidate(path)
		if err != nil {
			return err
		}
		if len(all) > 0 && !reflect.DeepEqual(next.job, all[0].job) {
			return exit.New(exit.Usage, fmt.Errorf("%s and %s differ in more than the seed", all[0].path, path),
				"name networks of one configuration")
		}
		all = append(all, next)
	}
	if n := c.Int("episodes"); n < 0 {
		return exit.Usagef("--episodes is %d, want 1 or more", n)
	} else if n > 0 {
		for i := range all {
			if err := all[i].judge(n); err != nil {
				return err
			}
		}
	}
	best := slices.MinFunc(all, func(a, b candidate) int { return cmp.Compare(a.score, b.score) })
	for _, a := range all {
		mark := ' '
		if a.path == best.path {
			mark = '*'
		}
		fmt.Fprintf(c.App.Writer, "%c seed %d: held-out score %.4f, %s\n", mark, a.Manifest.Seed, a.score, a.path)
	}
	typical, err := checkpoint.LoadTypical(best.path)
	if err != nil {
		return err
	}
	if err := best.Save(c.String("out")); err != nil || typical == nil {
		return err
	}
	return typical.Save(c.String("out"))
}
