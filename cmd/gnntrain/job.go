//go:build torch

package main

import (
	"errors"
	"fmt"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/exit"
	"gnnsched/internal/files"
	"gnnsched/scheduler/learn"
	"gnnsched/scheduler/learn/run"
)

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
