package shadow

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"gnnsched/internal/blocks"
	"gnnsched/scheduler/advise"
)

// Comparison is a pod that the other scheduler bound, with what the profile would have chosen for it.
type Comparison struct {
	Time   time.Time `json:"time"`
	Pod    string    `json:"pod"`
	What   outcome   `json:"what"`
	Theirs string    `json:"theirs"`         // the node that it got
	Node   string    `json:"node,omitempty"` // the one that the profile chooses; empty if none fits
	Gained float64   `json:"gained"`         // cost after their choice minus cost after ours; over 0 if ours is better
	Took   float64   `json:"took"`           // seconds
	Why    string    `json:"why,omitempty"`  // of a failure
}

// Live is what a running Watcher has found so far. Its report has no batches.
type Live struct {
	Report
	Recent []Comparison `json:"recent"` // the last ones, the newest first
	Course []Block      `json:"course"` // the time so far, in blocks of equal length
}

const (
	// keptComparisons is how many comparisons are kept for Live.
	keptComparisons = 100
	// mostCourse is how many blocks a Live has at most. Of more, each two become one.
	mostCourse = 240
)

// Live asks a Watcher that runs what it has found so far. It waits until the events at hand are worked off, or ctx ends.
func (w *Watcher) Live(ctx context.Context) (Live, error) {
	reply := make(chan Live, 1)
	for asked := w.asked; ; {
		select {
		case asked <- reply:
			asked = nil
		case l := <-reply:
			return l, nil
		case <-ctx.Done():
			return Live{}, fmt.Errorf("ask the watcher: %w", ctx.Err())
		}
	}
}

// live answers Live.
func (w *Watcher) live() Live {
	l := Live{Report: w.Report(), Recent: append([]Comparison{}, w.recent...), Course: append([]Block{}, w.blocks.full...)} // lists in JSON, also without elements
	slices.Reverse(l.Recent)
	l.Batches = nil
	for len(l.Course) > mostCourse {
		l.Course = blocks.Pairs(l.Course)
	}
	return l
}

// note keeps a comparison for Live.
func (w *Watcher) note(p *v1.Pod, j judgement) {
	w.recent = append(w.recent, Comparison{
		Time: w.config.Clock.Now(), Pod: advise.Shorten(p.Namespace+"/"+p.Name, maxText), What: j.outcome, Theirs: advise.Shorten(p.Spec.NodeName, maxText),
		Node: advise.Shorten(j.Node, maxText), Gained: j.gained, Took: j.Took.Seconds(), Why: advise.Shorten(j.why, maxText),
	})
	if len(w.recent) > keptComparisons {
		w.recent = slices.Delete(w.recent, 0, 1)
	}
}
