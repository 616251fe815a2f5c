package server

import (
	"context"
	"maps"
	"time"

	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"gnnsched/internal/logging"
	"gnnsched/internal/metric"
	"gnnsched/scheduler/plugin"
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

var set metric.Set

// attemptDuration has buckets that grow by 15 %. Upstream's own histogram starts at 1 ms, which is longer
// than most attempts on a small cluster take.
var attemptDuration = set.Histograms("scheduling_attempt_duration_seconds", // 20 µs to 1.2 s
	"Time of one scheduling attempt from the snapshot to the choice of a node (filters and scores), for every profile.",
	metric.Exponential(20e-6, 1.15, 80), "profile")

// timeAttempts measures every scheduling attempt of every profile. It must come before the profiles are wrapped,
// because plugins know the profile's own handle.
func timeAttempts(s *scheduler.Scheduler) {
	set.Register()
	inner, handles := s.SchedulePod, maps.Clone(s.Profiles)
	s.SchedulePod = func(ctx context.Context, f framework.Framework, state fwk.CycleState,
		pod *framework.QueuedPodInfo) (scheduler.ScheduleResult, error) {
		start := time.Now()
		defer func() {
			took := time.Since(start)
			attemptDuration.WithLabelValues(f.ProfileName()).Observe(took.Seconds())
			plugin.Attempted(handles[f.ProfileName()], pod.Pod, took)
		}()
		return inner(ctx, f, state, pod)
	}
}
