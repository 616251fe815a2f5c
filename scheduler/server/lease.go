package server

import (
	"context"
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"gnnsched/internal/logging"
)

// announce makes an election say in the log who leads, and give the lease back when the process is told
// to stop, so that a standby need not wait until the lease expires. While the API server is away, a standby
// waits for it instead of failing again and again; a leader waits no longer than its time for a renewal.
func announce(ctx context.Context, e *leaderelection.LeaderElectionConfig, s waiter) *announcedLock {
	l := &announcedLock{Interface: e.Lock, log: klog.FromContext(ctx).WithName(logging.ProjectLogger), server: s}
	e.ReleaseOnCancel = true
	e.Lock = l
	return l
}

// waiter waits for the API server.
type waiter interface {
	// Wait returns nil when the server answers, as far as is known.
	Wait(context.Context) error
	// Answered is Wait, but asks the server first.
	Answered(context.Context) error
}

// announcedLock logs who holds a lease, whenever that changes. The elector calls it from one goroutine.
type announcedLock struct {
	resourcelock.Interface
	log    klog.Logger
	server waiter
	leader string // the last that was logged
}

// Get implements resourcelock.Interface.
func (l *announcedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if err := l.server.Wait(ctx); err != nil {
		return nil, nil, err
	}
	record, raw, err := l.Interface.Get(ctx)
	l.done(ctx, record, err)
	return record, raw, err
}

// Create implements resourcelock.Interface.
func (l *announcedLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if err := l.server.Wait(ctx); err != nil {
		return err
	}
	err := l.Interface.Create(ctx, record)
	l.done(ctx, &record, err)
	return err
}

// Update implements resourcelock.Interface.
func (l *announcedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if err := l.server.Wait(ctx); err != nil {
		return err
	}
	err := l.Interface.Update(ctx, record)
	l.done(ctx, &record, err)
	return err
}

// done takes note of the result of a request. After one that failed because of the server, it waits until
// the server answers, so that an outage is noticed before the elector logs the error.
func (l *announcedLock) done(ctx context.Context, record *resourcelock.LeaderElectionRecord, err error) {
	status := apierrors.APIStatus(nil)
	switch {
	case err == nil:
		l.held(record.HolderIdentity)
	case !errors.As(err, &status) || status.Status().Code >= http.StatusInternalServerError:
		_ = l.server.Answered(ctx) // the elector gets err in any case
	}
}

// lost logs that this process does not hold the lease any more. The elector has ended.
func (l *announcedLock) lost() {
	l.log.Info("Lost the lease: standing by again", "lease", l.Describe())
	l.leader = ""
}

// held logs the holder of the lease if it is another than before.
func (l *announcedLock) held(by string) {
	if by == l.leader {
		return
	}
	l.leader = by
	switch by {
	case "":
		l.log.Info("No scheduler leads", "lease", l.Describe())
	case l.Identity():
		l.log.Info("This scheduler leads: it schedules", "lease", l.Describe())
	default:
		l.log.Info("Standby: another scheduler leads", "leader", processOf(by), "lease", l.Describe())
	}
}
