package shadow

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"gnnsched/scheduler/memcluster"
)

var (
	decisions = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: "gnnsched", Name: "shadow_decisions_total",
		Help:           "Pods that another scheduler bound, by how the profile's choice compares: same, equal, different, only, unschedulable or infeasible.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"result"})
	notCompared = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: "gnnsched", Name: "shadow_not_compared_total",
		Help:           "Pods that another scheduler bound and that are not compared, by reason.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"reason"})
	duration = metrics.NewHistogram(&metrics.HistogramOpts{
		Subsystem: "gnnsched", Name: "shadow_decision_duration_seconds",
		Help:           "Time of the profile's decision about a pod that another scheduler bound, filters included.",
		Buckets:        metrics.ExponentialBuckets(100e-6, 2, 14), // 0.1 ms to 0.8 s
		StabilityLevel: metrics.ALPHA,
	})
	costGauge = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Subsystem: "gnnsched", Name: "shadow_cost",
		Help:           "The objective's cost now, of the real cluster (theirs) and of the one with the profile's choices (ours).",
		StabilityLevel: metrics.ALPHA,
	}, []string{"cluster"})
	waitingGauge = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Subsystem: "gnnsched", Name: "shadow_waiting_pods",
		Help:           "Pods that wait because no node fits, in the real cluster (theirs) and in the one with the profile's choices (ours).",
		StabilityLevel: metrics.ALPHA,
	}, []string{"cluster"})
	gainGauge = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Subsystem: "gnnsched", Name: "shadow_gain",
		Help:           "How much lower the cost is with the profile's choices, over the whole time: mean, and low and high end of the 95% interval. It is there once enough blocks of time have passed.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"bound"})
	verdictGauge = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Subsystem: "gnnsched", Name: "shadow_verdict",
		Help:           "1 for the verdict that holds now, 0 for the others.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"verdict"})
	backlogGauge = metrics.NewGauge(&metrics.GaugeOpts{
		Subsystem: "gnnsched", Name: "shadow_events_waiting",
		Help:           "Events of the cluster that have not been worked off.",
		StabilityLevel: metrics.ALPHA,
	})
)

var registerOnce sync.Once

func registerMetrics() {
	registerOnce.Do(func() {
		legacyregistry.MustRegister(decisions, notCompared, duration, costGauge, waitingGauge, gainGauge, verdictGauge, backlogGauge)
	})
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
	for _, a := range []Answer{Safe, notYet, notWorth} {
		value := 0.0
		if a == r.Verdict.Answer {
			value = 1
		}
		verdictGauge.WithLabelValues(string(a)).Set(value)
	}
}
