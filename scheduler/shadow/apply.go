package shadow

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"gnnsched/internal/cluster/kube"
	"gnnsched/scheduler/advise"
)

// backlog is the number of events that may wait. Beyond it, pods are not compared until the queue is
// shorter: the state must not fall behind for ever.
const backlog = 20_000

// Reasons why a pod is not compared. It is then on its real node in both clusters.
const (
	lateReason    = "it was bound when it was first seen"
	volumeReason  = "it has volumes, which tie it to the node that it got"
	claimReason   = "it has resource claims, which were allocated on the node that it got"
	gpuReason     = "it names GPU devices or shares of one"
	staticReason  = "a kubelet made it"
	backlogReason = "too many events waited"
)

// maxText bounds a reason in bytes, because it may quote text of a pod's owner.
const maxText = 200

func (w *Watcher) behind(events int) {
	w.counts.behind = events > backlog
	backlogGauge.Set(float64(events))
}

// apply takes an event over into both clusters.
func (w *Watcher) apply(ctx context.Context, e event) error {
	switch {
	case e.now != nil || e.was != nil:
		return errors.Join(w.theirs.Node(e.was, e.now), w.ours.Node(e.was, e.now))
	case e.pod == nil:
		return w.deleted(e.old)
	case e.old == nil:
		return w.added(ctx, e.pod, e.initial)
	case e.old.UID != e.pod.UID: // the watch missed that one was deleted and another one made
		if err := w.deleted(e.old); err != nil {
			return err
		}
		return w.added(ctx, e.pod, false)
	}
	return w.updated(ctx, e.old, e.pod)
}

func (w *Watcher) added(ctx context.Context, p *v1.Pod, initial bool) error {
	if p.Spec.NodeName == "" {
		return w.pending(ctx, p)
	}
	if err := w.theirs.AddPod(w.log, p); err != nil {
		return fmt.Errorf("add a pod: %w", err)
	}
	if w.watched(p) && !initial {
		w.counts.Bound++
		if why := tied(p); why != "" {
			w.skip(why)
		} else {
			w.skip(lateReason)
		}
	}
	if !w.ours.Has(p.UID) {
		w.ours.Fix(p)
	}
	return nil
}

func (w *Watcher) updated(ctx context.Context, old, p *v1.Pod) error {
	switch {
	case p.Spec.NodeName == "":
		w.ours.Update(p)
		return w.pending(ctx, p)
	case old.Spec.NodeName == "":
		return w.bound(ctx, p)
	}
	if err := w.theirs.UpdatePod(w.log, old, p); err != nil {
		return fmt.Errorf("update a pod: %w", err)
	}
	w.ours.Update(p)
	return nil
}

func (w *Watcher) deleted(p *v1.Pod) error {
	w.waiting.Delete(p.UID)
	w.ours.Remove(p.UID)
	if p.Spec.NodeName == "" {
		return nil
	}
	if err := w.theirs.RemovePod(w.log, p); err != nil {
		return fmt.Errorf("remove a pod: %w", err)
	}
	return nil
}

// pending notes whether the other scheduler has found no node for a pod. The profile tries then too.
func (w *Watcher) pending(ctx context.Context, p *v1.Pod) error {
	if !w.watched(p) || !unschedulable(p) {
		return nil
	}
	if !w.waiting.Has(p.UID) {
		w.waiting.Insert(p.UID)
		w.counts.Waited++
	}
	if tied(p) != "" || w.ours.Has(p.UID) {
		return nil
	}
	return w.place(ctx, p)
}

// place lets the profile place a pod in its cluster in memory, after the pods that wait there. If one fits nowhere, the remaining ones are
// tried after the events.
func (w *Watcher) place(ctx context.Context, p *v1.Pod) error {
	w.ours.Wait(p)
	return w.ours.Retry(ctx, 1)
}

// unschedulable reports whether a scheduler has said that it found no node.
func unschedulable(p *v1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodScheduled {
			return c.Status == v1.ConditionFalse && c.Reason == v1.PodReasonUnschedulable
		}
	}
	return false
}

// tied returns why the profile had no free choice of a node for a pod; "" if it had.
func tied(p *v1.Pod) string {
	if _, static := p.Annotations[v1.MirrorPodAnnotationKey]; static {
		return staticReason
	}
	if len(kube.VolumeClaims(p)) > 0 {
		return volumeReason
	}
	if len(p.Spec.ResourceClaims) > 0 {
		return claimReason
	}
	if gpu, err := kube.GPURequestOf(p.Annotations, kube.Requests(p)); err != nil || gpu.GPUMilli > 0 || gpu.WantsIndex {
		return gpuReason
	}
	return ""
}

// bound compares the profile with the scheduler that has just bound a pod.
func (w *Watcher) bound(ctx context.Context, p *v1.Pod) error {
	defer w.waiting.Delete(p.UID)
	if !w.watched(p) {
		if err := w.theirs.AddPod(w.log, p); err != nil {
			return fmt.Errorf("add a pod: %w", err)
		}
		w.ours.Fix(p)
		return nil
	}
	w.counts.Bound++
	why := tied(p)
	if why == "" && w.counts.behind {
		why = backlogReason
	}
	var judged error
	if why != "" {
		w.skip(why)
	} else {
		judged = w.compare(ctx, p)
	}
	if err := w.theirs.AddPod(w.log, p); err != nil {
		return fmt.Errorf("add a pod: %w", err)
	}
	switch {
	case w.ours.Has(p.UID): // it was tried when the other scheduler found no node
		w.ours.Update(p)
	case why != "" || judged != nil:
		w.ours.Fix(p)
	default:
		return w.place(ctx, p)
	}
	return judged
}

func (w *Watcher) skip(why string) {
	w.counts.NotCompared[why]++
	notCompared.WithLabelValues(why).Inc()
}

// compare judges a pod's binding and counts the result.
func (w *Watcher) compare(ctx context.Context, p *v1.Pod) error {
	j, err := judge(ctx, w.theirs, p)
	if err != nil {
		return fmt.Errorf("decide about %s/%s: %w", p.Namespace, p.Name, err)
	}
	w.counts.Compared++
	w.counts.Results[j.outcome]++
	decisions.WithLabelValues(string(j.outcome)).Inc()
	duration.Observe(j.Took.Seconds())
	w.times.add(j.Took)
	if j.Fallback {
		w.counts.Fallbacks++
	}
	if j.skewed {
		w.counts.Skewed++
	}
	switch j.outcome {
	case unschedulableForUs, infeasible:
		j.why = cmp.Or(j.why, "the filters refuse every node")
		w.fail(p, j)
	case same, equal, different:
		w.gains.add(j)
	}
	w.note(p, j)
	w.record(p, j.Decision)
	return nil
}

// maxFailures is the number of failures that a report names.
const maxFailures = 20

func (w *Watcher) fail(p *v1.Pod, j judgement) {
	w.failures = append(w.failures, Failure{
		Pod: advise.Shorten(p.Namespace+"/"+p.Name, maxText), Theirs: advise.Shorten(p.Spec.NodeName, maxText),
		What: j.outcome, Node: advise.Shorten(j.Node, maxText), Why: advise.Shorten(j.why, maxText),
	})
	if len(w.failures) > maxFailures {
		w.failures = w.failures[1:]
	}
}
