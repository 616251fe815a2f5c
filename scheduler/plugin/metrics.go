package plugin

import (
	"context"
	"sync/atomic"

	dto "github.com/prometheus/client_model/go"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"gnnsched/internal/logging"
	"gnnsched/internal/metric"
	"gnnsched/scheduler/experience"
	"gnnsched/scheduler/plugin/learningcurve"
)

// set holds the plugin's metrics, and learningSet those of profiles that learn.
var set, learningSet metric.Set

var (
	decisionDuration = set.Histograms("decision_duration_seconds", // 10 µs to 0.1 s
		"Time that the network (including the construction of the graph) or the heuristic takes for one decision.",
		metric.Exponential(10e-6, 1.5, 24), "profile")
	candidates     = set.Histograms("candidates", "Feasible nodes of a decision.", metric.Exponential(1, 2, 15), "profile") // 1 to 16384
	preferredNodes = set.Histograms("preferred",
		"Feasible nodes that the preferences of manifests leave to the network or the heuristic.", metric.Exponential(1, 2, 15), "profile")
	preferencesFailed = set.Counters("preferences_failed_total",
		"Decisions without one kind of preference, because upstream's plugin for it failed.", "profile", "plugin")
	scoreSpread = set.Histograms("score_spread",
		"Best minus worst raw score of a decision. Near zero the network or the heuristic has no preference.",
		metric.Exponential(1e-4, 4, 12), "profile")
	fallbacks = set.Counters("fallbacks_total",
		"Decisions that upstream's scoring made instead, by reason: no_model, deadline, not_finite, panic, snapshot.", "profile", "reason")
	decisionsDropped = set.Counters("decisions_dropped_total",
		"Decisions dropped because a listener, such as the learner, was too slow.", "profile")
	reloads = set.Counters("checkpoint_loads_total",
		"Checkpoints read, by result: ok, error, or refused if the network failed in a trial decision.", "profile", "result")
	deviceConflicts = set.Counter("device_conflicts_total",
		"Pods that were bound to GPU devices without room for them, for example by another scheduler.")
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

// Fallbacks returns how many decisions of a profile upstream's scoring has made since this process
// started.
func Fallbacks(profile string) (int, error) {
	sum := 0
	for _, reason := range []string{reasonNoModel, reasonDeadline, reasonNotFinite, reasonPanic, reasonSnapshot} {
		n, err := metric.Value(fallbacks.WithLabelValues(profile, reason))
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// FallbacksIn returns how many more decisions of a profile upstream's scoring has made when work returns, and the error of work.
func FallbacksIn(profile string, work func() error) (int, error) {
	before, err := Fallbacks(profile)
	if err != nil {
		return 0, err
	}
	if err := work(); err != nil {
		return 0, err
	}
	after, err := Fallbacks(profile)
	return after - before, err
}

// profileMetrics are the metrics that every decision of a profile observes, looked up once.
type profileMetrics struct{ duration, candidates, preferred, spread metrics.ObserverMetric }

// metricsOf needs set.Register first: before it, lookups find metrics that go nowhere.
func metricsOf(profile string) profileMetrics {
	return profileMetrics{
		duration: decisionDuration.WithLabelValues(profile), candidates: candidates.WithLabelValues(profile),
		preferred: preferredNodes.WithLabelValues(profile), spread: scoreSpread.WithLabelValues(profile),
	}
}

// The metrics of profiles that learn.
var (
	learningSteps = learningSet.Counters("learning_steps_total",
		"Placements to learn from, by result: sent to the trainer, dropped because it is too slow, unbound because the pod did not get its "+
			"node.",
		"profile", "result")
	exploredTotal   = learningSet.Counters("explored_total", "Random decisions.", "profile")
	epsilonNow      = learningSet.Gauges("epsilon", "Probability with which the last decision was random.", "profile")
	trainerRestarts = learningSet.Counters("trainer_restarts_total",
		"Number of times that the trainer ended or did not start, and was started again.", "profile")
	trainerPlacements = learningSet.Counters("trainer_placements_total",
		"Placements as the trainer counts them, by result: read, missing between those that it read.",
		"profile", "result")
	trainerUpdates  = learningSet.Counters("trainer_updates_total", "Updates of the network that learns.", "profile")
	trainerNetworks = learningSet.Counters("trainer_networks_total",
		"Networks that the guard judged, by result: passed, refused.", "profile", "result")
	trainerFigures = learningSet.Gauges("trainer_figure",
		"Figures of learning as the trainer reported them last, by name: cost, loss, gradient_norm and others are means since the "+
			"report before, score and score_limit are of the last network that the guard judged.",
		"profile", "figure")
)

// anyLearns tells that a profile of this process learns.
var anyLearns atomic.Bool

// NewCurveSampler returns a sampler of the profiles of this process that learn. Without any it takes no samples, and costs nothing.
func NewCurveSampler(c clock.WithTicker) *learningcurve.Sampler {
	return learningcurve.New(func() ([]*dto.MetricFamily, error) {
		if !anyLearns.Load() {
			return nil, nil
		}
		return legacyregistry.DefaultGatherer.Gather()
	}, c)
}

// learnMetrics are the metrics of one profile that learns.
type learnMetrics struct {
	sent, dropped, unbound metrics.CounterMetric
	explored, restarts     metrics.CounterMetric
	epsilon                metrics.GaugeMetric
	profile                string
	last                   experience.Report // of the trainer that runs
}

// learnMetricsOf registers the metrics if need be.
func learnMetricsOf(profile string) *learnMetrics {
	learningSet.Register()
	anyLearns.Store(true)
	return &learnMetrics{
		profile:  profile,
		sent:     learningSteps.WithLabelValues(profile, learningcurve.Sent),
		dropped:  learningSteps.WithLabelValues(profile, learningcurve.Dropped),
		unbound:  learningSteps.WithLabelValues(profile, learningcurve.Unbound),
		explored: exploredTotal.WithLabelValues(profile),
		restarts: trainerRestarts.WithLabelValues(profile), epsilon: epsilonNow.WithLabelValues(profile),
	}
}

// reported adds what the trainer did since its last report.
func (m *learnMetrics) reported(r experience.Report) {
	if r.Read < m.last.Read { // a trainer elsewhere has begun anew
		m.restarted()
	}
	add := func(c metrics.CounterMetric, now, before uint64) {
		if now > before {
			c.Add(float64(now - before))
		}
	}
	add(trainerPlacements.WithLabelValues(m.profile, learningcurve.Read), r.Read, m.last.Read)
	add(trainerPlacements.WithLabelValues(m.profile, learningcurve.Missing), r.Missing, m.last.Missing)
	add(trainerUpdates.WithLabelValues(m.profile), r.Updates, m.last.Updates)
	add(trainerNetworks.WithLabelValues(m.profile, learningcurve.Passed), r.Passed, m.last.Passed)
	add(trainerNetworks.WithLabelValues(m.profile, learningcurve.Refused), r.Refused, m.last.Refused)
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
