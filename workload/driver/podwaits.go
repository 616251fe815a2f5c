package driver

import (
	"time"

	"k8s.io/utils/clock"
)

// podWaits notes the waiting times of a fill's pods for their first node. A nil one notes nothing.
type podWaits struct {
	clock clock.PassiveClock
	of    map[string]*podWait // by pod.who
}

// podWait is the wait of one pod.
type podWait struct {
	deployment string
	since      time.Time // when it was seen first
	wait       time.Duration
	placed     bool
}

func newPodWaits(c clock.PassiveClock) *podWaits {
	return &podWaits{clock: c, of: map[string]*podWait{}}
}

// see notes a pod, and whether it has a node now.
func (w *podWaits) see(p pod, bound bool) {
	if w == nil {
		return
	}
	x := w.of[p.who]
	if x == nil {
		x = &podWait{deployment: p.deployment, since: w.clock.Now()}
		w.of[p.who] = x
	}
	if bound && !x.placed {
		x.wait, x.placed = w.clock.Since(x.since), true
	}
}

// takeWaits returns the waits of all pods since the last call. Those without a node have waited until now.
func (w *podWatch) takeWaits() (out []podWait) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waits == nil {
		return nil
	}
	for _, x := range w.waits.of {
		if !x.placed {
			x.wait = w.waits.clock.Since(x.since)
		}
		out = append(out, *x)
	}
	clear(w.waits.of)
	return out
}

// tellWaits calls Waited with the fill's pods, without recorded pods that no scheduler had to place.
func (r *runner) tellWaits() {
	for _, x := range r.pods.takeWaits() {
		d, known := r.existing[x.deployment]
		if !known {
			d, known = r.left[x.deployment]
		}
		if !known || r.stage != nil && r.Replay.Parts[x.deployment].Node != "" {
			continue
		}
		r.Waited(d.Shape.Requests, x.wait, x.placed)
	}
}
