package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"
)

// run is what one run came to.
type run struct {
	rate      float64 // pods a second
	cpu       float64 // milliseconds of CPU time a pod, of the whole process
	fallbacks int     // decisions that the network left to upstream's scoring
}

// stalled is how long a run may go without binding a pod.
const stalled = time.Minute

// meter times the binding of a number of pods, from the first to the last.
type meter struct {
	mu          sync.Mutex
	left, total int
	first, last moment
	done        chan struct{}
}

type moment struct {
	wall time.Time
	cpu  time.Duration
}

func newMeter(pods int) *meter { return &meter{left: pods, total: pods, done: make(chan struct{})} }

// add counts one more pod that has a node.
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

// wait returns the figures once all are bound.
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
				return run{}, fmt.Errorf("%d of %d pods are not bound, and none was in %v: %w", left, m.total, stalled, os.ErrDeadlineExceeded)
			}
			before = left
		}
	}
}

// now is the time on the clock and the CPU time that the process has used. The latter says
// less about the user's wait and more about the program where other programs run too.
func now() moment {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // only for a wrong argument
	}
	return moment{wall: time.Now(), cpu: time.Duration(u.Utime.Nano() + u.Stime.Nano())}
}
