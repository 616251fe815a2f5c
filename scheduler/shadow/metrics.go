package shadow

import (
	"gnnsched/internal/metric"
	"gnnsched/scheduler/memcluster"
)

var set metric.Set

var (
	decisions = set.Counters("shadow_decisions_total",
		"Pods that another scheduler bound, by how the profile's choice compares: same, equal, different, only, unschedulable or infeasible.",
		"result")
	notCompared = set.Counters("shadow_not_compared_total",
		"Pods that another scheduler bound and that are not compared, by reason.", "reason")
	duration = set.Histogram("shadow_decision_duration_seconds", // 0.1 ms to 0.8 s
		"Time of the profile's decision about a pod that another scheduler bound, filters included.", metric.Exponential(100e-6, 2, 14))
	costGauge = set.Gauges("shadow_cost",
		"The objective's cost now, of the real cluster (theirs) and of the one with the profile's choices (ours).", "cluster")
	waitingGauge = set.Gauges("shadow_waiting_pods",
		"Pods that wait because no node fits, in the real cluster (theirs) and in the one with the profile's choices (ours).", "cluster")
	gainGauge = set.Gauges("shadow_gain",
		"How much lower the cost is with the profile's choices, over the whole time: mean, and low and high end of the 95% interval. "+
			"It is there once enough blocks of time have passed.",
		"bound")
	movesGauge = set.Gauges("shadow_moves_gain",
		"By how much moves of 2% of the pods would lower the real cluster's cost. It is there after the first search; one is made every hour.")
	verdictGauge = set.Gauges("shadow_verdict", "1 for the verdict that holds now, 0 for the others.", "verdict")
	backlogGauge = set.Gauge("shadow_events_waiting", "Events of the cluster that have not been worked off.")
)

func registerMetrics() {
	set.Register()
	for _, o := range outcomes { // so that a rate has a first value
		decisions.WithLabelValues(string(o))
	}
}

// observe sets the gauges of the two clusters.
func (w *Watcher) observe() {
	for name, c := range map[string]*memcluster.Cluster{"theirs": w.theirs, "ours": w.ours.Cluster} {
		if cost, err := c.Cost(); err == nil {
			costGauge.WithLabelValues(name).Set(cost)
		}
	}
	waitingGauge.WithLabelValues("theirs").Set(float64(len(w.waiting)))
	waitingGauge.WithLabelValues("ours").Set(float64(len(w.ours.Waiting)))
	backlogGauge.Set(float64(w.queue.length()))
}

// observe sets the gauges of the report.
func (r Report) observe() {
	if r.Gain != nil {
		gainGauge.WithLabelValues("mean").Set(r.Gain.Mean)
		gainGauge.WithLabelValues("low").Set(r.Gain.Low)
		gainGauge.WithLabelValues("high").Set(r.Gain.High)
	}
	if m := r.Moves; m != nil {
		movesGauge.WithLabelValues().Set(m.Before - m.After)
	}
	for _, a := range []Answer{Safe, notYet, notWorth} {
		value := 0.0
		if a == r.Verdict.Answer {
			value = 1
		}
		verdictGauge.WithLabelValues(string(a)).Set(value)
	}
}
