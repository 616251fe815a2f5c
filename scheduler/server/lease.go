package server

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"syscall"
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
// to stop, so that a standby need not wait until the lease expires. It does not wait either for a leader of this machine
// or this pod that was killed.
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
	leader string   // the last that was logged
	killed string   // the last leader that was found killed
	alive  *os.File // locked since before this process led; nil if that failed
	tried  bool     // to lock it
}

// aliveFile returns the path of the file that the process of an identity, which is unique, keeps locked. The kernel frees the lock when
// the process ends. Containers of a pod see the files of those before them; other pods and machines do not see them.
func aliveFile(identity string) string {
	return filepath.Join(os.TempDir(), "gnnsched-alive-"+filepath.Base(identity))
}

// lockAlive makes and locks the file of this process.
func lockAlive(identity string) (*os.File, error) {
	f, err := os.OpenFile(aliveFile(identity), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		os.Remove(f.Name()) // a file without a lock would say that this process ended
		f.Close()
		return nil, err
	}
	return f, nil
}

// write writes a record. Before this process leads, it locks its file.
func (l *announcedLock) write(record resourcelock.LeaderElectionRecord, write func() error) error {
	if !l.tried {
		l.tried = true
		var err error
		if l.alive, err = lockAlive(l.Identity()); err != nil {
			l.log.Info("If this process is killed, a standby waits until the lease expires", "err", err)
		}
	}
	err := write()
	if err == nil {
		if l.killed != "" {
			os.Remove(aliveFile(l.killed))
			l.killed = ""
		}
		l.held(record.HolderIdentity)
	}
	return err
}

// ended reports whether the process of an identity certainly ended. No file says nothing.
func ended(identity string) bool {
	f, err := os.Open(aliveFile(identity))
	if err != nil {
		return false
	}
	defer f.Close() //nolint:errcheck // it is only locked
	info, err := f.Stat()
	if err != nil || syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return false
	}
	owner, known := info.Sys().(*syscall.Stat_t)
	return known && owner.Uid == uint32(os.Getuid()) // anybody may write into a temporary folder
}

// close removes the file. The lease has been given back.
func (l *announcedLock) close() {
	if l != nil && l.alive != nil {
		os.Remove(l.alive.Name())
		l.alive.Close()
	}
}

// Get implements resourcelock.Interface.
func (l *announcedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil {
		if by := record.HolderIdentity; by != "" && by != l.Identity() && ended(by) {
			l.log.Info("The process that holds the lease was killed: this one takes over", "leader", by, "lease", l.Describe())
			l.killed, record.HolderIdentity = by, ""
		}
		l.held(record.HolderIdentity)
	}
	return record, raw, err
}

// Create implements resourcelock.Interface.
func (l *announcedLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(record, func() error { return l.Interface.Create(ctx, record) })
}

// Update implements resourcelock.Interface.
func (l *announcedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(record, func() error { return l.Interface.Update(ctx, record) })
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
