//go:build torch

package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/cmd/internal/queue"
	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/experience"
	"gnnsched/scheduler/experience/hub"
	"gnnsched/scheduler/learn/online"
)

// actors are the schedulers whose steps a trainer learns from.
type actors interface {
	experience.Source
	// publish gives them a network that is in its file already.
	publish(*checkpoint.Checkpoint) error
	report(experience.Report)
	close()
}

// actorsOf returns the scheduler that writes to stdin, or with --experience those that meet at a URL.
func actorsOf(c *ucli.Context, start *checkpoint.Checkpoint) (actors, error) {
	url := c.String(experienceFlag)
	if url != "" {
		return sharedOf(c, url, start)
	}
	if cli.IsTerminal(os.Stdin) {
		return nil, exit.New(exit.Usage, errors.New("--online reads a scheduler's placements from stdin, and stdin is a terminal"),
			"start it with rungnn --learn, or name the NATS server of several schedulers with --experience")
	}
	s, err := newSource(c.Context, os.Stdin)
	if err != nil && c.Context.Err() == nil {
		err = exit.New(exit.Usage, err, "start it with rungnn --learn")
	}
	return s, err
}

// shared are the schedulers that meet at a NATS server.
type shared struct {
	*hub.Source
	hub     *hub.Hub
	trainer *hub.Trainer
}

func sharedOf(c *ucli.Context, url string, start *checkpoint.Checkpoint) (actors, error) {
	options, err := queue.Options(c, url)
	if err != nil {
		return nil, err
	}
	s := &shared{}
	if s.hub, err = hub.Open(c.Context, url, start, options...); err != nil {
		return nil, queue.Unreachable(err)
	}
	if s.trainer, err = s.hub.Train(c.Context); err != nil {
		s.hub.Close()
		return nil, queue.Unreachable(err)
	}
	s.Source = s.hub.Source(c.Context, func(x experience.Step) error { return online.Fits(x, start) }, note)
	note("waits for the placements of schedulers at " + url)
	return s, s.publish(start)
}

func note(line string) { fmt.Fprintln(os.Stderr, line) }

func (s *shared) publish(c *checkpoint.Checkpoint) error {
	err := s.trainer.Publish(context.Background(), c)
	if errors.Is(err, hub.ErrReplaced) {
		return exit.New(exit.Usage, err, "run one trainer for each network; the weights are in the file of this one, too")
	}
	if err != nil {
		note(fmt.Sprintf("the schedulers do not get this network, but may get the next one: %v", err))
	}
	return nil
}

func (s *shared) report(r experience.Report) {
	if err := s.trainer.Report(r); err != nil {
		note(fmt.Sprintf("the schedulers do not hear how learning goes: %v", err))
	}
}

func (s *shared) close() { s.hub.Close() }
