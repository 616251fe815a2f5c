package plugin

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/feature"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/policy/wish"
)

// annotation is the annotation of a pod or a namespace with an objective, such as "balance=1,energy=0.3". A pod's own
// comes before its namespace's.
const annotation = "gnnsched.io/objective"

const (
	maxText         = 256 // bytes of an annotation that is read
	maxKnown        = 256 // texts whose objective is kept
	logRefusalAgain = time.Minute
)

// objectiveReader reads the annotations for one profile. It is not safe for concurrent use.
type objectiveReader struct {
	profile    string
	limits     wish.Limits
	namespaces listers.NamespaceLister
	clock      clock.PassiveClock
	log        klog.Logger

	of      []checkpoint.Wish // the terms of the network for which answers holds
	answers map[string]answer // by text
	logged  time.Time         // when a refusal was last logged
}

// answer holds the objective that a text asks for, or why it is refused.
type answer struct {
	wishes feature.Wishes
	err    error
}

// newObjectiveReader returns the reader of a profile with limits that wish.ParseLimits reads.
func newObjectiveReader(ctx context.Context, profile, limits string, namespaces listers.NamespaceLister,
	c clock.PassiveClock) (*objectiveReader, error) {
	l, err := wish.ParseLimits(limits)
	if err != nil {
		return nil, err
	}
	return &objectiveReader{profile: profile, limits: l, namespaces: namespaces, clock: c, log: klog.FromContext(ctx),
		answers: map[string]answer{}}, nil
}

// Of returns the objective for a pod: what the annotation asks for, or usual if there is none or it is refused. known are
// the terms that the network knows. A nil reader ignores annotations.
func (r *objectiveReader) Of(pod *v1.Pod, known []checkpoint.Wish, usual feature.Wishes) feature.Wishes {
	if r == nil || pod == nil {
		return usual
	}
	text, has := pod.Annotations[annotation]
	if !has {
		space, err := r.namespaces.Get(pod.Namespace)
		if err != nil { // it is being deleted, or not known yet
			return usual
		}
		if text, has = space.Annotations[annotation]; !has {
			return usual
		}
	}
	a := r.answer(text, known)
	if a.err == nil {
		objectiveAnnotations.WithLabelValues(r.profile, "served").Inc()
		return a.wishes
	}
	objectiveAnnotations.WithLabelValues(r.profile, "refused").Inc()
	if now := r.clock.Now(); r.logged.IsZero() || now.Sub(r.logged) >= logRefusalAgain {
		r.logged = now
		r.log.Info("An annotation with an objective is ignored; the profile's objective counts", "profile", r.profile, "pod", klog.KObj(pod),
			"annotation", annotation, "reason", exit.Clean(a.err.Error(), 300))
	}
	return usual
}

// answer parses a text, once for most.
func (r *objectiveReader) answer(text string, known []checkpoint.Wish) answer {
	if len(text) > maxText {
		return answer{err: fmt.Errorf("it has %d bytes, more than %d", len(text), maxText)}
	}
	if len(r.of) != len(known) || len(known) > 0 && &r.of[0] != &known[0] || len(r.answers) >= maxKnown { // another network, or too many texts
		clear(r.answers)
		r.of = known
	}
	a, found := r.answers[text]
	if !found {
		a.wishes, a.err = wish.Parse(text, known)
		a.err = errors.Join(a.err, a.check(r.limits))
		r.answers[text] = a
	}
	return a
}

// check returns an error if the answer is outside of the limits.
func (a answer) check(l wish.Limits) error {
	if a.err != nil {
		return nil
	}
	return l.Check(a.wishes)
}
