package plugin

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// The metrics of profiles that learn.
var (
	learningSteps = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: "gnnsched", Name: "learning_steps_total",
		Help:           "Placements to learn from, by result: sent to the trainer, dropped because it is too slow, unbound because the pod did not get its node, overruled because blended scores chose another node than the network drew.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"profile", "result"})
	exploredTotal = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: "gnnsched", Name: "explored_total",
		Help:           "Random decisions; for an actor-critic, drawn nodes that were not the most likely one.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"profile"})
	epsilonNow = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Subsystem: "gnnsched", Name: "epsilon",
		Help:           "Probability with which the last decision was random.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"profile"})
	waitedTotal = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: "gnnsched", Name: "waited_total",
		Help:           "Pods that found no node at their first attempt.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"profile"})
	trainerRestarts = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: "gnnsched", Name: "trainer_restarts_total",
		Help:           "Number of times that the trainer ended or did not start, and was started again.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"profile"})
)

var registerLearnOnce sync.Once

// learnMetrics are the metrics of one profile that learns.
type learnMetrics struct {
	sent, dropped, unbound, overruled metrics.CounterMetric
	explored, waited, restarts        metrics.CounterMetric
	epsilon                           metrics.GaugeMetric
}

// learnMetricsOf registers the metrics if need be.
func learnMetricsOf(profile string) learnMetrics {
	registerLearnOnce.Do(func() {
		legacyregistry.MustRegister(learningSteps, exploredTotal, waitedTotal, epsilonNow, trainerRestarts)
	})
	return learnMetrics{
		sent: learningSteps.WithLabelValues(profile, "sent"), dropped: learningSteps.WithLabelValues(profile, "dropped"),
		unbound: learningSteps.WithLabelValues(profile, "unbound"), overruled: learningSteps.WithLabelValues(profile, "overruled"),
		explored: exploredTotal.WithLabelValues(profile), waited: waitedTotal.WithLabelValues(profile),
		restarts: trainerRestarts.WithLabelValues(profile), epsilon: epsilonNow.WithLabelValues(profile),
	}
}
