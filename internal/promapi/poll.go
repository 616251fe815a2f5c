package promapi

import (
	"context"
	"errors"
	"time"

	"k8s.io/utils/clock"
)

// Poll asks at an interval. It is not safe for concurrent use.
type Poll struct {
	Interval time.Duration
	Timeout  time.Duration // after which one question is given up
	Clock    clock.WithTicker

	failing bool
}

// Run asks at once and then at every interval, until ctx is done.
func (p *Poll) Run(ctx context.Context, ask func(context.Context)) {
	ticker := p.Clock.NewTicker(p.Interval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		ask(ctx)
		select {
		case <-ticker.C():
		case <-ctx.Done():
		}
	}
}

// errSlow is part of an error after the timeout.
var errSlow = errors.New("no answer within the timeout")

// Ask calls ask once, within the timeout. changed reports that it failed after a success, or succeeded after a failure. If ctx is done, Ask
// returns its error.
func (p *Poll) Ask(ctx context.Context, ask func(context.Context) error) (changed bool, err error) {
	err = p.within(ctx, ask)
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	changed = p.failing != (err != nil)
	p.failing = err != nil
	return changed, err
}

func (p *Poll) within(ctx context.Context, ask func(context.Context) error) error {
	within, cancel := context.WithCancelCause(ctx)
	timer := p.Clock.NewTimer(p.Timeout)
	defer timer.Stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-timer.C():
			cancel(errSlow)
		case <-within.Done():
		}
	}()
	err := ask(within)
	if err != nil && errors.Is(context.Cause(within), errSlow) {
		err = errors.Join(errSlow, err)
	}
	cancel(nil)
	<-ended
	return err
}
