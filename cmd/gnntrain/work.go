//go:build torch

package main

import (
	"context"
	"fmt"
	"time"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/cmd/internal/work"
	"gnnsched/internal/exit"
	"gnnsched/internal/workers"
	"gnnsched/scheduler/learn"
	"gnnsched/scheduler/learn/remote"
	"gnnsched/scheduler/learn/rollouts"
	"gnnsched/scheduler/learn/run"
)

// handlers compute the units of gnntrain work.
func handlers() map[string]workers.Handler {
	player := &remote.Player{}
	return map[string]workers.Handler{remote.RolloutsKind: player.Play}
}

// elsewhere returns who plays the job's rollouts by --workers, until end is called; nil for this process.
func elsewhere(c *ucli.Context, job learn.Job) (e run.Elsewhere, end func(), err error) {
	pool, err := work.Enlist(c, tells(c))
	if err != nil || pool == nil {
		return nil, func() {}, err
	}
	if _, rolls := job.Chosen().(rollouts.Config); !rolls {
		pool.Close()
		return nil, nil, exit.New(exit.Usage, fmt.Errorf("--workers: they play rollouts, and this run learns by %s", job.Chosen().Name()),
			"leave it out")
	}
	// When the command is told to end, the round may end before, so that its state is saved.
	ctx, cancel := context.WithCancelCause(pool.Context)
	context.AfterFunc(c.Context, func() { time.AfterFunc(grace, func() { cancel(context.Cause(c.Context)) }) })
	return &remote.Rollouts{Context: ctx, Queue: pool.Queue, Waiting: pool.Waiting}, pool.Close, nil
}

const grace = 20 * time.Second

// tells returns what prints who works.
func tells(c *ucli.Context) func(text string) {
	return func(text string) { fmt.Fprintln(c.App.ErrWriter, text) }
}
