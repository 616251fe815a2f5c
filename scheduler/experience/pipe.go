package experience

import (
	"context"
	"errors"
	"time"

	"k8s.io/utils/clock"
)

// PipeConfig holds the trainer of a Pipe and the callbacks.
type PipeConfig struct {
	Command []string // the trainer program and its arguments; it reads the stream from its standard input
	Queue   int      // number of steps that may wait for the trainer before Offer drops further ones
	Clock   clock.Clock
	// Begin starts the trainer when it is closed; nil starts it at once.
	Begin <-chan struct{}

	// Each function is called from one goroutine at a time.

	Sent     func()            // called after each step that was written to the trainer
	Output   func(line string) // called with each line of the trainer, except reports
	Reported func(Report)      // called with each report of the trainer; nil drops them
	// Ended is called when the trainer ended or could not be started. The pipe starts it again
	// after the given wait.
	Ended func(err error, wait time.Duration)
}

// The wait before a trainer is started again doubles each time, from firstWait up to longestWait.
// It is firstWait again after a trainer ran for longer than longestWait.
const (
	firstWait   = time.Second
	longestWait = time.Minute
)

// grace is the time after the end of its stream in which a trainer may write its weights. Then it is killed.
const grace = 20 * time.Second

// errEnded is the error of a trainer that exited with code 0 before its stream ended.
var errEnded = errors.New("the trainer ended by itself")

// Pipe is a Sink that runs a trainer process and writes the steps to its standard input.
type Pipe struct {
	config PipeConfig
	queue  chan Step
	stop   context.CancelFunc
	done   chan struct{}
}

// StartPipe starts a pipe, which ends when ctx does, or with Close.
func StartPipe(ctx context.Context, c PipeConfig) *Pipe {
	ctx, stop := context.WithCancel(ctx)
	p := &Pipe{config: c, queue: make(chan Step, c.Queue), stop: stop, done: make(chan struct{})}
	go p.run(ctx)
	return p
}

// Offer implements Sink: it puts the step into the queue, or drops it if the queue is full or the pipe
// has ended.
func (p *Pipe) Offer(s Step) bool {
	select {
	case <-p.done:
		return false
	default:
	}
	select {
	case p.queue <- s:
		return true
	default:
		return false
	}
}

// Close implements Sink: it ends the stream and waits until the trainer has written what it has
// learned and exited. Steps that still wait in the queue are dropped.
func (p *Pipe) Close() {
	p.stop()
	<-p.done
}

// run runs one trainer after another.
func (p *Pipe) run(ctx context.Context) {
	defer close(p.done)
	if p.config.Begin != nil {
		select {
		case <-ctx.Done():
			return
		case <-p.config.Begin:
		}
	}
	wait := firstWait
	for {
		began := p.config.Clock.Now()
		err := p.serve(ctx)
		if ctx.Err() != nil {
			return
		}
		if p.config.Clock.Since(began) > longestWait {
			wait = firstWait
		}
		p.config.Ended(err, wait)
		if !p.pause(ctx, wait) {
			return
		}
		wait = min(2*wait, longestWait)
	}
}

// pause waits, and reports false if ctx ended before the wait did.
func (p *Pipe) pause(ctx context.Context, wait time.Duration) bool {
	t := p.config.Clock.NewTimer(wait)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C():
		return true
	}
}

// serve runs one trainer until it ends or ctx does, and returns why it ended.
func (p *Pipe) serve(ctx context.Context) error {
	trainer, err := start(p.config.Command, p.hear)
	if err != nil {
		return err
	}
	err = p.send(ctx, trainer)
	trainer.close()
	patience := p.config.Clock.NewTimer(grace)
	defer patience.Stop()
	select {
	case <-trainer.ended:
	case <-patience.C():
		trainer.kill()
		<-trainer.ended
	}
	if trainer.err != nil { // tells more than that the stream broke
		return trainer.err
	}
	return err
}

// hear takes a line that the trainer printed.
func (p *Pipe) hear(line string) {
	r, ok := parseReport(line)
	switch {
	case !ok:
		p.config.Output(line)
	case p.config.Reported != nil:
		p.config.Reported(r)
	}
}

// send writes steps until the trainer ends or ctx does.
func (p *Pipe) send(ctx context.Context, trainer *process) error {
	defer context.AfterFunc(ctx, trainer.close)() // ends a write that blocks because the trainer does not read
	w, err := NewWriter(trainer.stdin)
	for err == nil {
		select {
		case <-ctx.Done():
			return nil
		case <-trainer.ended:
			return errEnded
		case s := <-p.queue:
			if err = w.Write(s); err == nil {
				p.config.Sent()
			}
		}
	}
	return err
}
