package serve

import "gnnsched/internal/metric"

var set metric.Set

var (
	requests = set.Counters("serve_requests_total",
		"Requests by path and result: ok, or the reason of the error. Requests that are refused for their credentials have the path door.",
		"path", "result")
	duration = set.Histograms("serve_request_duration_seconds", // 0.1 ms to 0.8 s
		"Time of an answer from its first byte read to its last byte written.", metric.Exponential(100e-6, 2, 14), "path")
	inFlight    = set.Gauge("serve_requests_inflight", "Answers that are being worked out, those that nobody waits for any more included.")
	refusedPods = set.Counter("serve_refused_gpu_pods_total",
		"Times that a pod was refused on every node because nobody would assign its GPU devices.")
)
