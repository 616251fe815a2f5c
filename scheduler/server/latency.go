package server

import (
	"context"
	"maps"
	"sync"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"gnnsched/scheduler/plugin"
)

// attemptDuration has buckets that grow by 15 %. Upstream's own histogram starts at 1 ms, which is longer
// than most attempts on a small cluster take.
var attemptDuration = metrics.NewHistogramVec(&metrics.HistogramOpts{
	Subsystem: "gnnsched", Name: "scheduling_attempt_duration_seconds",
	Help:           "Time of one scheduling attempt from the snapshot to the choice of a node (filters and scores), for every profile.",
	Buckets:        metrics.ExponentialBuckets(20e-6, 1.15, 80), // 20 µs to 1.2 s
	StabilityLevel: metrics.ALPHA,
}, []string{"profile"})

var registerLatency sync.Once

// timeAttempts measures every scheduling attempt of every profile. It must come before the profiles are wrapped,
// because plugins know the profile's own handle.
func timeAttempts(s *scheduler.Scheduler) {
	registerLatency.Do(func() { legacyregistry.MustRegister(attemptDuration) })
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
