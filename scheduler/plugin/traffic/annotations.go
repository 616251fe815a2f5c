package traffic

import (
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/metric"
)

const (
	maxKnown = 1024 // texts whose flows are kept
	logAgain = time.Minute
)

var set metric.Set

var refused = set.Counters("traffic_annotations_refused_total",
	"Annotations of pods with traffic that are malformed or too large, and count as none. The same text counts once while it is remembered.",
	"profile")

var capped = set.Counters("traffic_annotations_capped_total",
	"Annotations of pods with more traffic than the link of a node carries, which count as so much. "+
		"The same text counts once while it is remembered.",
	"profile")

var polls = set.Counters("traffic_polls_total", "Measurements of traffic between workloads, by result: ok or error.", "result")

var ignoredSamples = set.Counters("traffic_samples_ignored_total",
	"Samples of measured traffic without effect, by reason: faulty, or unknown where a workload has no pods. "+
		"Each measurement counts them again.",
	"reason")

// annotations parses annotations for one profile. Whoever may create a pod can write any text there.
type annotations struct {
	profile string
	log     klog.Logger
	clock   clock.PassiveClock
	most    float64                // bytes a second that all flows of a pod together may have; 0: not limited
	known   map[string][]kube.Flow // by the beginning of the text; nil for an invalid one
	logged  time.Time              // when an invalid or a capped one was last logged
}

// read returns the annotation of a pod and its flows; "" and nil if there is no valid one.
func (a *annotations) read(p *v1.Pod) (string, []kube.Flow) {
	text, has := p.Annotations[kube.TrafficAnnotation]
	if !has {
		return "", nil
	}
	begin := text[:min(len(text), kube.MaxTraffic+1)] // a text that is too long is not kept whole
	flows, known := a.known[begin]
	if !known {
		var err error
		if flows, err = kube.Traffic(text); err != nil {
			refused.WithLabelValues(a.profile).Inc()
			a.tell("An annotation with traffic is ignored", p, err.Error())
		}
		a.cap(p, flows)
		if len(a.known) >= maxKnown {
			clear(a.known)
		}
		a.known[strings.Clone(begin)] = flows
	}
	if flows == nil {
		return "", nil
	}
	return text, flows
}

// cap lessens flows that together have more than a node's link carries, each by the same factor.
func (a *annotations) cap(p *v1.Pod, flows []kube.Flow) {
	var all float64
	for _, f := range flows {
		all += f.Rate
	}
	if a.most == 0 || all <= a.most {
		return
	}
	for i := range flows {
		flows[i].Rate *= a.most / all
	}
	capped.WithLabelValues(a.profile).Inc()
	a.tell("An annotation with traffic counts as what the link of a node carries",
		p, fmt.Sprintf("%g bytes a second are more than %g", all, a.most))
}

// tell logs what becomes of an annotation, at most once in a while.
func (a *annotations) tell(what string, p *v1.Pod, reason string) {
	if now := a.clock.Now(); a.logged.IsZero() || now.Sub(a.logged) >= logAgain {
		a.logged = now
		a.log.Info(what, "profile", a.profile, "pod", klog.KObj(p), "reason", reason)
	}
}

// forget forgets all texts.
func (a *annotations) forget() { a.known = map[string][]kube.Flow{} }
