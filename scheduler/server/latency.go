package server

import (
	"context"
	"maps"
	"time"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"gnnsched/internal/metric"
	"gnnsched/scheduler/plugin"
)

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
