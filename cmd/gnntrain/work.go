//go:build torch

package main

import (
	"context"
	"fmt"
	"io"
	"time"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/cmd/internal/work"
	"gnnsched/internal/exit"
	"gnnsched/internal/workers"
	"gnnsched/scheduler/experience"
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
