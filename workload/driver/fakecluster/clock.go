package fakecluster

import (
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// RunningClock returns a fake clock that advances while code waits for it, about a hundred times faster than real time. It stops at the end
// of the test t.
func RunningClock(t interface{ Cleanup(func()) }) *clocktesting.FakeClock {
	c := clocktesting.NewFakeClock(time.Unix(0, 0))
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				if c.HasWaiters() {
					c.Step(100 * time.Millisecond)
				}
			}
		}
	}()
	t.Cleanup(func() { close(stop); <-done })
	return c
}
