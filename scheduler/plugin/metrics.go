package plugin

import (
	"context"
	"sync"
	"sync/atomic"

	dto "github.com/prometheus/client_model/go"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"gnnsched/internal/logging"
	"gnnsched/scheduler/experience"
	"gnnsched/scheduler/plugin/counted"
	"gnnsched/scheduler/plugin/course"
)

// The plugin's metrics. kube-scheduler serves them beside its own.
var (
	decisionDuration = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Subsystem: "gnnsched", Name: "decision_duration_seconds",
		Help:           "Time that the network (including the construction of the graph) or the heuristic takes for one decision.",
		Buckets:        metrics.ExponentialBuckets(10e-6, 1.5, 24), // 10 µs to 0.1 s
		StabilityLevel: metrics.ALPHA,
	}, []string{"profile"})
	candidates = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Subsystem: "gnnsched", Name: "candidates",
		Help:           "Feasible nodes of a decision.",
		Buckets:        metrics.ExponentialBuckets(1, 2, 15), // 1 to 16384
		StabilityLevel: metrics.ALPHA,
	}, []string{"profile"})
	preferredNodes = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Subsystem: "gnnsched", Name: "preferred",
		Help:           "Feasible nodes that the preferences of manifests leave to the network or the heuristic.",
		Buckets:        metrics.ExponentialBuckets(1, 2, 15), // 1 to 16384
		StabilityLevel: metrics.ALPHA,
	}, []string{"profile"})
	preferencesFailed = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: "gnnsched", Name: "preferences_failed_total",
		Help:           "Decisions without one kind of preference, because upstream's plugin for it failed.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"profile", "plugin"})
	scoreSpread = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Subsystem: "gnnsched", Name: "score_spread",
		Help:           "Best minus worst raw score of a decision. Near zero the network or the heuristic has no preference.",
		Buckets:        metrics.ExponentialBuckets(1e-4, 4, 12),
		StabilityLevel: metrics.ALPHA,
	}, []string{"profile"})
	fallbacks = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: "gnnsched", Name: "fallbacks_total",
		Help:           "Decisions that upstream's scoring made instead, by reason: no_model, deadline, not_finite, panic, snapshot.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"profile", "reason"})
	decisionsDropped = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: "gnnsched", Name: "decisions_dropped_total",
		Help:           "Decisions dropped because a listener, such as the learner, was too slow.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"profile"})
	reloads = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: "gnnsched", Name: "checkpoint_loads_total",
		Help:           "Checkpoints read, by result: ok, error, or refused if the network failed in a trial decision.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"profile", "result"})
	deviceConflicts = metrics.NewCounter(&metrics.CounterOpts{
		Subsystem: "gnnsched", Name: "device_conflicts_total",
		Help:           "Pods that were bound to GPU devices without room for them, for example by another scheduler.",
		StabilityLevel: metrics.ALPHA,
	})
)

// Reasons why upstream's scoring decided: the values of the label reason.
const (
	reasonNoModel   = "no_model"
	reasonDeadline  = "deadline"
	reasonNotFinite = "not_finite"
	reasonPanic     = "panic"
	reasonSnapshot  = "snapshot"
)

// logger names our own log lines, so that a filter for Kubernetes' lines lets them through.
func logger(ctx context.Context) klog.Logger {
	return klog.FromContext(ctx).WithName(logging.ProjectLogger)
}

var registerOnce sync.Once

func registerMetrics() {
	registerOnce.Do(func() {
		legacyregistry.MustRegister(decisionDuration, candidates, preferredNodes, preferencesFailed, scoreSpread, fallbacks, decisionsDropped,
			reloads, deviceConflicts)
	})
}

// Fallbacks returns how many decisions of a profile upstream's scoring has made since this process
// started.
func Fallbacks(profile string) (int, error) {
	sum := 0
	for _, reason := range []string{reasonNoModel, reasonDeadline, reasonNotFinite, reasonPanic, reasonSnapshot} {
		n, err := counted.Value(fallbacks.WithLabelValues(profile, reason))
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// profileMetrics are the metrics that every decision of a profile observes, looked up once.
type profileMetrics struct{ duration, candidates, preferred, spread metrics.ObserverMetric }

// metricsOf needs registerMetrics first: before it, lookups find metrics that go nowhere.
func metricsOf(profile string) profileMetrics {
	return profileMetrics{
		duration: decisionDuration.WithLabelValues(profile), candidates: candidates.WithLabelValues(profile),
		preferred: preferredNodes.WithLabelValues(profile), spread: scoreSpread.WithLabelValues(profile),
	}
}

// The metrics of profiles that learn.
var (
	learningSteps = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: "gnnsched", Name: "learning_steps_total",
		Help:           "Placements to learn from, by result: sent to the trainer, dropped because it is too slow, unbound because the pod did not get its node, overruled because other scores chose another node than the network; those count as sent too unless the network did not see the node.",
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
	trainerPlacements = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: "gnnsched", Name: "trainer_placements_total",
		Help:           "Placements as the trainer counts them, by result: read, missing between those that it read, stale because another network made them than the one that learns.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"profile", "result"})
	trainerUpdates = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: "gnnsched", Name: "trainer_updates_total",
		Help:           "Updates of the network that learns.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"profile"})
	trainerNetworks = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: "gnnsched", Name: "trainer_networks_total",
		Help:           "Networks that the guard judged, by result: passed, refused.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"profile", "result"})
	trainerFigures = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Subsystem: "gnnsched", Name: "trainer_figure",
		Help:           "Figures of learning as the trainer reported them last, by name: cost, reward, loss, gradient_norm and others are means since the report before, score and score_limit are of the last network that the guard judged.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"profile", "figure"})
)

var registerLearnOnce sync.Once

// anyLearns tells that a profile of this process learns.
var anyLearns atomic.Bool

// NewCourse returns a course of the profiles of this process that learn. Without any it takes no samples, and costs nothing.
func NewCourse(c clock.WithTicker) *course.Course {
	return course.New(func() ([]*dto.MetricFamily, error) {
		if !anyLearns.Load() {
			return nil, nil
		}
		return legacyregistry.DefaultGatherer.Gather()
	}, c)
}

// learnMetrics are the metrics of one profile that learns.
type learnMetrics struct {
	sent, dropped, unbound, overruled metrics.CounterMetric
	explored, waited, restarts        metrics.CounterMetric
	epsilon                           metrics.GaugeMetric
	profile                           string
	last                              experience.Report // of the trainer that runs
}

// learnMetricsOf registers the metrics if need be.
func learnMetricsOf(profile string) *learnMetrics {
	registerLearnOnce.Do(func() {
		anyLearns.Store(true)
		legacyregistry.MustRegister(learningSteps, exploredTotal, waitedTotal, epsilonNow, trainerRestarts, trainerPlacements, trainerUpdates,
			trainerNetworks, trainerFigures)
	})
	return &learnMetrics{
		profile: profile,
		sent:    learningSteps.WithLabelValues(profile, course.Sent), dropped: learningSteps.WithLabelValues(profile, course.Dropped),
		unbound: learningSteps.WithLabelValues(profile, course.Unbound), overruled: learningSteps.WithLabelValues(profile, course.Overruled),
		explored: exploredTotal.WithLabelValues(profile), waited: waitedTotal.WithLabelValues(profile),
		restarts: trainerRestarts.WithLabelValues(profile), epsilon: epsilonNow.WithLabelValues(profile),
	}
}

// reported adds what the trainer did since its last report.
func (m *learnMetrics) reported(r experience.Report) {
	add := func(c metrics.CounterMetric, now, before uint64) {
		if now > before {
			c.Add(float64(now - before))
		}
	}
	add(trainerPlacements.WithLabelValues(m.profile, course.Read), r.Read, m.last.Read)
	add(trainerPlacements.WithLabelValues(m.profile, course.Missing), r.Missing, m.last.Missing)
	add(trainerPlacements.WithLabelValues(m.profile, course.Stale), r.Stale, m.last.Stale)
	add(trainerUpdates.WithLabelValues(m.profile), r.Updates, m.last.Updates)
	add(trainerNetworks.WithLabelValues(m.profile, course.Passed), r.Passed, m.last.Passed)
	add(trainerNetworks.WithLabelValues(m.profile, course.Refused), r.Refused, m.last.Refused)
	for name := range m.last.Figures {
		if _, still := r.Figures[name]; !still {
			m.forget(name)
		}
	}
	for name, v := range r.Figures {
		trainerFigures.WithLabelValues(m.profile, name).Set(v)
	}
	m.last = r
}

// forget drops a figure that is no longer reported, so that there are never more figures than one report may have.
func (m *learnMetrics) forget(figure string) {
	trainerFigures.Delete(map[string]string{"profile": m.profile, "figure": figure})
}

// restarted notes that the trainer ended. The next one counts from 0 and knows no figure yet.
func (m *learnMetrics) restarted() {
	m.restarts.Inc()
	for name := range m.last.Figures {
		m.forget(name)
	}
	m.last = experience.Report{}
}
