package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"
)

// run is the result of one run.
type run struct {
	rate      float64 // pods a second
	cpu       float64 // milliseconds of CPU time a pod, of the whole process
	fallbacks int     // decisions taken by upstream's scoring instead of the network
}

// stalled is the time without a bound pod after which a run fails.
const stalled = time.Minute

// meter measures the time from the first of a number of bindings to the last.
type meter struct {
	mu          sync.Mutex
	left, total int
	first, last moment
	done        chan struct{}
}

// moment is a point in time on the clock and in the CPU time of the process.
type moment struct {
	wall time.Time
	cpu  time.Duration
}

func newMeter(pods int) *meter { return &meter{left: pods, total: pods, done: make(chan struct{})} }

// add counts a binding.
func (m *meter) add() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left == m.total {
		m.first = now()
	}
	if m.left--; m.left == 0 {
		m.last = now()
		close(m.done)
	}
}

// wait returns the result once all pods are bound.
func (m *meter) wait(ctx context.Context) (run, error) {
	tick := time.NewTicker(stalled)
	defer tick.Stop()
	for before := -1; ; {
		select {
		case <-m.done:
			pods := float64(m.total - 1)
			return run{
				rate: pods / m.last.wall.Sub(m.first.wall).Seconds(),
				cpu:  1000 * (m.last.cpu - m.first.cpu).Seconds() / pods,
			}, nil
		case <-ctx.Done():
			return run{}, context.Cause(ctx)
		case <-tick.C:
			m.mu.Lock()
			left := m.left
			m.mu.Unlock()
			if left == before {
				return run{}, fmt.Errorf("%d of %d pods are not bound, and none was bound in the last %v: %w",
					left, m.total, stalled, os.ErrDeadlineExceeded)
			}
			before = left
		}
	}
}

// now returns the current moment. On a machine with other load, CPU time describes the program better
// than time on the clock.
func now() moment {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // only a wrong argument makes it fail
	}
	return moment{wall: time.Now(), cpu: time.Duration(u.Utime.Nano() + u.Stime.Nano())}
}
