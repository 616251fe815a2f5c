package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/mig"
	"gnnsched/scheduler/plugin/canary"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/neural"
	"gnnsched/scheduler/policy/preference"
)

// decide lets the decider write the raw scores. If it fails, it sets s.reason. The time of a decision is that of seeing and of the
// decider; what narrows the nodes is upstream's.
func (p *learnedScore) decide(ctx context.Context, s *scoring) error {
	v := &s.view
	v.began, p.asked = time.Now().Add(-v.took), v.claims
	raw := p.raw[:len(s.feasible)]
	v.rows = p.rows
	p.mirror.snapshot.Preferred = len(s.nodes)
	defer p.mirror.closeCards(ctx, v.rows, p.asked)()
	if err := s.decider.score(*v, raw); err != nil {
		s.reason = reasonOf(err)
		return err
	}
	p.active.latest.Keep(neural.Decision{Snapshot: v.snapshot, Pod: v.pod, Candidates: v.rows, Typical: v.typical}, v.began)
	if len(raw) > len(s.raw) {
		for i, l := range s.left { // in order, so none is overwritten before it is read
			s.raw[i] = raw[l]
		}
	}
	s.weigh()
	v.took = time.Since(v.began)
	p.metrics.duration.Observe(v.took.Seconds())
	p.observer.scored(s)
	p.metrics.spread.Observe(spread(s.raw))
	return nil
}

// weigh sets the total, by which nodes are ranked, from the raw scores and default spreading.
func (s *scoring) weigh() {
	if s.total = s.raw; s.spread == nil {
		return
	}
	s.total = slices.Clone(s.raw)
	spread := s.spread
	if s.left != nil {
		spread = make([]int64, len(s.left))
		for i, l := range s.left {
			spread[i] = s.spread[l]
		}
	}
	preference.Weigh(s.total, nil, spread)
}

// fallbackMessage begins the log line about decisions of upstream's scoring. It is logged at most every
// ten seconds for each reason; Fallbacks counts them all.
const fallbackMessage = "Upstream's scoring decides instead of the "

// scoreUpstream lets upstream's scoring decide among all feasible nodes, because the decider failed with failed, or the pod is of the
// canary's rest. Preferences are part of upstream's scores.
func (p *learnedScore) scoreUpstream(ctx context.Context, s *scoring, failed error) {
	s.nodes, s.left, s.priority, s.raw, s.spread = s.feasible, nil, nil, s.raw[:len(s.feasible)], nil // undoes keep
	s.upstream = true
	if s.group == canary.Rest {
		s.reason = "" // upstream decides in any case
	} else {
		p.failed(ctx, s, failed)
	}
	if err := p.upstream.score(ctx, s); err != nil {
		p.complain(ctx, s, "upstream", err, "A part of upstream's scoring is left out")
	}
	s.weigh()
	p.observer.scored(s)
}

// failed counts and logs a decider's failure.
func (p *learnedScore) failed(ctx context.Context, s *scoring, err error) {
	fallbacks.WithLabelValues(p.profile, s.reason).Inc()
	p.complain(ctx, s, s.reason, err, fallbackMessage+s.decider.label())
}

// chooseDecider makes the heuristic or the network of args the active decider.
func (p *learnedScore) chooseDecider(ctx context.Context, args Args) (err error) {
	if args.Policy == "" {
		if p.demand, err = newDemandTracker(p.profile, args.Workload); err != nil {
			return err
		}
		p.demand.beginWith(ctx, args)
		m := openModel(ctx, args, p.profile, &p.active)
		if m.kinds {
			if p.arrivals, err = watchArrivals(p.handle, p.profile); err != nil {
				return err
			}
		}
		go m.watch(ctx, args.ReloadInterval.Duration)
		return nil
	}
	h, err := heuristic.Find(args.Policy)
	if err != nil {
		return err
	}
	workload := ""
	if h.GPU { // also for those that need no typical pods: a wrong file is an error of the configuration
		workload = args.Workload
	}
	seed, _ := ctx.Value(seedKey{}).(uint64)
	p.active.store(&heuristicDecider{Heuristic: h, seed: seed})
	if h.Kinds {
		if p.arrivals, err = watchArrivals(p.handle, p.profile); err != nil {
			return err
		}
	}
	if p.demand, err = newDemandTracker(p.profile, workload); err != nil || h.Network == "" {
		return err
	}
	p.demand.beginWith(ctx, Args{Variant: h.Network})
	return nil
}

// devices lets the active decider choose devices on the node that was chosen for a pod, of which v has no more than the pod and its
// claims. It returns none if the decider cannot, or does not decide about the pod. cycle holds the scores of the pod's nodes, and is
// nil if only one is feasible. When the pods of a group are reserved, others have been scored since, and more pods may be on the node.
func (p *learnedScore) devices(ctx context.Context, v view, node string, cycle *scores) (on cluster.DeviceSet) {
	if p == nil || p.groupOf(v.manifest) == canary.Rest {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	d := p.active.load()
	defer func() {
		if r := recover(); r != nil {
			p.forget(d)
			on = 0
			fallbacks.WithLabelValues(p.profile, reasonPanic).Inc()
			err := fmt.Errorf("%s panicked: %v", d.label(), r)
			p.complainOf(ctx, klog.KObj(v.manifest), reasonPanic, err, "GPUShares chooses the devices instead of the "+d.label())
		}
	}()
	if p.look(ctx, &v, true) != nil {
		return 0
	}
	p.count(&v, d, cycle == nil)
	v.began = time.Now()
	row, known := p.mirror.row[node]
	if !known {
		return 0
	}
	changed := p.mirror.before(row, v.manifest.UID)
	v.rows = []int32{row}
	defer p.mirror.closeCards(ctx, v.rows, v.claims)()
	on, err := d.devices(v, cycle != nil && cycle.pod == p.scored && !changed && v.claims == p.asked)
	if err != nil && !errors.Is(err, errNoNetwork) { // without a network nothing is damaged
		p.forget(d)
	}
	return on
}

// partition returns the memory slices on which the active decider puts a MIG partition on a card with some slices in use; none if it does
// not fit.
func (p *learnedScore) partition(used mig.Slices, profile mig.Profile) mig.Slices {
	p.mu.Lock()
	defer p.mu.Unlock()
	start := profile.BestStart(used)
	if h, is := p.active.load().(*heuristicDecider); is && h.made != nil {
		start = policy.Start(h.made, used, profile)
	}
	if start < 0 {
		return 0
	}
	return profile.On(start)
}
