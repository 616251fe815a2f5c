package server

import (
	"context"

	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"gnnsched/internal/logging"
)

// announce makes an election say in the log who leads, and give the lease back when the process is told
// to stop, so that a standby need not wait until the lease expires.
func announce(ctx context.Context, e *leaderelection.LeaderElectionConfig) *announcedLock {
	l := &announcedLock{Interface: e.Lock, log: klog.FromContext(ctx).WithName(logging.ProjectLogger)}
	e.ReleaseOnCancel = true
	e.Lock = l
	return l
}

// announcedLock logs who holds a lease, whenever that changes. The elector calls it from one goroutine.
type announcedLock struct {
	resourcelock.Interface
	log    klog.Logger
	leader string // the last that was logged
}

// Get implements resourcelock.Interface.
func (l *announcedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil {
		l.held(record.HolderIdentity)
	}
	return record, raw, err
}

// Create implements resourcelock.Interface.
func (l *announcedLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	err := l.Interface.Create(ctx, record)
	if err == nil {
		l.held(record.HolderIdentity)
	}
	return err
}

// Update implements resourcelock.Interface.
func (l *announcedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	err := l.Interface.Update(ctx, record)
	if err == nil {
		l.held(record.HolderIdentity)
	}
	return err
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
		l.log.Info("Standby: another scheduler leads", "leader", by, "lease", l.Describe())
	}
}
