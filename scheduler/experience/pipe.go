package experience

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"syscall"
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
		_ = syscall.Kill(-trainer.cmd.Process.Pid, syscall.SIGKILL) // and what it started; the only possible error: the group has ended
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

// Sink takes the steps of a scheduler that learns while it works. Any number of goroutines may
// call Offer.
type Sink interface {
	// Offer hands a step over without waiting, and reports whether there was room for it. The sink then owns the step: its state must not
	// change any more.
	Offer(Step) bool
	// Close ends the sink and waits until it has handed on or dropped its steps. Offer must not be called after it.
	Close()
}

// Source gives a learner the steps of one or more schedulers. Steps of one actor and epoch come in the order of their numbers. Not safe for
// concurrent use.
type Source interface {
	// Next waits for the next step, which is valid. The error is the bare io.EOF if the source
	// ended in good order; after any error there are no more steps.
	Next() (Step, error)
}

var (
	_ Sink   = (*Pipe)(nil)
	_ Source = (*Reader)(nil)
)

// process is a running trainer.
type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	ended chan struct{} // closed when the process has ended
	err   error         // how it ended; set before ended is closed
}

// start starts the command; output gets each line that it prints.
func start(command []string, output func(string)) (*process, error) {
	p := &process{cmd: exec.Command(command[0], command[1:]...), ended: make(chan struct{})}
	lines := &lineWriter{write: output}
	p.cmd.Stdout, p.cmd.Stderr = lines, lines
	// The trainer gets a process group of its own, so that Ctrl-C reaches the scheduler alone.
	// The scheduler then ends the stream in good order.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.WaitDelay = time.Second // a grandchild may still hold the output open
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start the trainer: %w", err)
	}
	go func() {
		defer close(p.ended)
		if err := p.cmd.Wait(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
			p.err = fmt.Errorf("the trainer: %w", err)
		}
		lines.flush()
	}()
	return p, nil
}

// close ends the stream. It may be called more than once.
func (p *process) close() { _ = p.stdin.Close() } // the only possible error: it is closed already

// lineWriter splits its input into lines and passes on the lines that are not blank.
type lineWriter struct {
	write func(string)
	rest  []byte // the beginning of a line without its end
}

// longestLine is the length in bytes at which a line without an end is cut.
const longestLine = 4096

// Write implements io.Writer; it never fails.
func (l *lineWriter) Write(b []byte) (int, error) {
	l.rest = append(l.rest, b...)
	for {
		i := bytes.IndexAny(l.rest, "\n\r")
		if i < 0 {
			break
		}
		l.line(l.rest[:i])
		l.rest = l.rest[i+1:]
	}
	if len(l.rest) > longestLine {
		l.flush()
	}
	return len(b), nil
}

func (l *lineWriter) flush() {
	l.line(l.rest)
	l.rest = nil
}

func (l *lineWriter) line(b []byte) {
	if b = bytes.TrimSpace(b); len(b) > 0 {
		l.write(string(b))
	}
}
