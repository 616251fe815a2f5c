package canary

import "gnnsched/internal/metric"

var set metric.Set

var (
	current = set.Gauges("share",
		"Share of the owners or namespaces whose pods the profile's network or policy places; 0 before it begins and after it stopped.",
		"profile")
	stopped = set.Gauges("share_stopped",
		"1 if the share was stopped, by reason: failures, latency, or earlier for a stop before this process began.", "profile", "reason")
	pods = set.Counters("share_pods_total",
		"Pods by group (canary or rest) and result: bound, fallback, not_bound; or lost, which counts a bound pod of this process again that "+
			"the kubelet refused or evicted.",
		"profile", "group", "result")
	attempts = set.Histograms("share_attempt_duration_seconds", // 50 µs to 2.8 s
		"Time of one scheduling attempt from the snapshot to the choice of a node, by group (canary or rest).",
		metric.Exponential(50e-6, 1.5, 28), "profile", "group")
)
