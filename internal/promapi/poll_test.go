package promapi

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Run asks at once, then once an interval, and ends with its context.
func TestRun(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	p := &Poll{Interval: time.Minute, Timeout: time.Second, Clock: clock}
	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan time.Time)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.Run(ctx, func(context.Context) { asked <- clock.Now() })
	}()
	for i := range 3 {
		if at := <-asked; !at.Equal(time.Unix(1e9, 0).Add(time.Duration(i) * time.Minute)) {
			t.Errorf("question %d at %v", i, at)
		}
		clock.Step(time.Minute)
	}
	<-asked
	cancel()
	<-ended
}

// Each change is reported once. The end of a context is not a failure of ask.
func TestAsk(t *testing.T) {
	p := &Poll{Timeout: time.Second, Clock: clocktesting.NewFakeClock(time.Unix(1e9, 0))}
	broken := errors.New("broken")
	var changes []bool
	for _, err := range []error{nil, broken, broken, nil, nil, broken} {
		changed, got := p.Ask(t.Context(), func(context.Context) error { return err })
		if !errors.Is(got, err) {
			t.Errorf("error %v, want %v", got, err)
		}
		changes = append(changes, changed)
	}
	if !slices.Equal(changes, []bool{false, true, false, true, false, true}) {
		t.Errorf("changes %v", changes)
	}
	ctx, cancel := context.WithCancel(t.Context())
	changed, err := p.Ask(ctx, func(context.Context) error {
		cancel()
		return nil
	})
	if changed || !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: changed %v, error %v", changed, err)
	}
}

// After the timeout, a question is abandoned with an error that names the timeout.
func TestTimeout(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	p := &Poll{Timeout: time.Second, Clock: clock}
	_, err := p.Ask(t.Context(), func(ctx context.Context) error {
		clock.Step(time.Second)
		<-ctx.Done()
		return ctx.Err()
	})
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "no answer within the timeout") {
		t.Errorf("error %v", err)
	}
}
