//go:build torch

package main

import (
	"context"
	"io"

	"gnnsched/scheduler/experience"
)

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
