package kwok

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"gnnsched/kwok/internal/etcdlog"
)

// component is a part of the cluster that runs until its context is cancelled.
type component struct {
	name   string
	cancel context.CancelFunc
	done   chan struct{}
}

// stopPatience is how long one component may take to stop before the others are stopped
// all the same.
const stopPatience = 10 * time.Second

// launch runs a component in a goroutine of its own. A component that ends before it was
// told to, with or without an error, ends the cluster.
func (cl *Cluster) launch(ctx context.Context, name string, run func(context.Context) error) *component {
	// Components end one after another, so each has a context that the others' end, and
	// even that of the whole cluster, does not touch.
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c := &component{name: name, cancel: cancel, done: make(chan struct{})}
	cl.components = append(cl.components, c)
	go func() {
		defer close(c.done)
		err := run(own)
		if own.Err() != nil {
			return // it was told to; what it says about that is of no use
		}
		if err == nil {
			err = errors.New("ended without being told to")
		}
		cl.cancel(fmt.Errorf("%s: %w", name, err)) // before done is closed, for those who ask for the cause
	}()
	return c
}

// supervise waits for the end and stops the components, the last started first.
func (cl *Cluster) supervise(ctx context.Context) {
	<-ctx.Done()
	<-cl.booted // it launches components, and is quick to see that ctx is over
	for _, c := range slices.Backward(cl.components) {
		begin := time.Now()
		c.cancel()
		select {
		case <-c.done:
			cl.config.Log.Debug().Str("part", c.name).Dur("took", time.Since(begin)).Msg("stopped")
		case <-time.After(stopPatience):
			cl.config.Log.Error().Str("part", c.name).Dur("waited", stopPatience).Msg("does not stop")
		}
	}
	if cause := context.Cause(ctx); !errors.Is(cause, errStopped) {
		cl.err = cause
	}
	if err := cl.dir.close(); err != nil && cl.err == nil {
		cl.err = err
	}
	etcdlog.Route(nil)
	close(cl.done)
}
