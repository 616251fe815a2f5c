package experience

import (
	"context"
	"errors"
	"time"

	"k8s.io/utils/clock"
)

// Config says how to run a trainer and whom to tell what becomes of it.
type Config struct {
	Command []string // the program and its arguments; it reads the stream from its stdin
	Queue   int      // steps that may wait for the trainer; a step over that is dropped
	Clock   clock.Clock

	// The functions are called from the feed's own goroutines, one at a time each.

	Sent   func()            // a step was handed to the trainer
	Output func(line string) // the trainer printed a line
	// Ended tells that the trainer ended, or could not be started, and when it is started
	// again.
	Ended func(err error, again time.Duration)
}

// How long a feed waits before it starts a trainer again: twice as long each time, and as
// shortly as at first once one has run for longer than the longest wait.
const (
	firstWait   = time.Second
	longestWait = time.Minute
)

// grace is how long a trainer may take, after the stream has ended, to write what it has
// learned; then it is killed.
const grace = 20 * time.Second

// ErrEnded is the error of a trainer that ended with exit code 0 while there was a stream.
var ErrEnded = errors.New("the trainer ended by itself")

// Feed keeps a trainer running and hands it steps.
type Feed struct {
	config Config
	queue  chan Step
	stop   context.CancelFunc
	done   chan struct{}
}

// Start starts the trainer. The feed ends with ctx, or with Close.
func Start(ctx context.Context, c Config) *Feed {
	ctx, stop := context.WithCancel(ctx)
	f := &Feed{config: c, queue: make(chan Step, c.Queue), stop: stop, done: make(chan struct{})}
	go f.run(ctx)
	return f
}

// Offer hands a step over without ever waiting, and tells whether there was room for it.
func (f *Feed) Offer(s Step) bool {
	select {
	case f.queue <- s:
		return true
	default:
		return false
	}
}

// Close ends the stream and waits until the trainer has written what it has learned and
// ended.
func (f *Feed) Close() {
	f.stop()
	<-f.done
}

// run runs one trainer after another.
func (f *Feed) run(ctx context.Context) {
	defer close(f.done)
	wait := firstWait
	for {
		began := f.config.Clock.Now()
		err := f.serve(ctx)
		if ctx.Err() != nil {
			return
		}
		if f.config.Clock.Since(began) > longestWait {
			wait = firstWait
		}
		f.config.Ended(err, wait)
		if !f.pause(ctx, wait) {
			return
		}
		wait = min(2*wait, longestWait)
	}
}

// pause waits, and tells whether it could wait to the end.
func (f *Feed) pause(ctx context.Context, wait time.Duration) bool {
	t := f.config.Clock.NewTimer(wait)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C():
		return true
	}
}

// serve runs one trainer until it ends or ctx does, and returns why it ended.
func (f *Feed) serve(ctx context.Context) error {
	p, err := start(f.config.Command, f.config.Output)
	if err != nil {
		return err
	}
	err = f.send(ctx, p)
	p.close()
	patience := f.config.Clock.NewTimer(grace)
	defer patience.Stop()
	select {
	case <-p.ended:
	case <-patience.C():
		p.kill()
		<-p.ended
	}
	if p.err != nil { // which says more than that the stream broke
		return p.err
	}
	return err
}

// send writes steps until the trainer ends or ctx does.
func (f *Feed) send(ctx context.Context, p *process) error {
	defer context.AfterFunc(ctx, p.close)() // which ends a write that the trainer lets wait
	w, err := NewWriter(p.stdin)
	for err == nil {
		select {
		case <-ctx.Done():
			return nil
		case <-p.ended:
			return ErrEnded
		case s := <-f.queue:
			if err = w.Write(s); err == nil {
				f.config.Sent()
			}
		}
	}
	return err
}
