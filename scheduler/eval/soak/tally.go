package soak

import (
	"fmt"
	"maps"
	"slices"
)

// podState is the current state of a pod in the count.
type podState int

const (
	absent  podState = iota // gone, or not yet seen
	waiting                 // without a node
	running                 // bound
	leaving                 // to be deleted
)

// state returns the state of a pod.
func (b *book) state(name string) podState {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch r := b.live[name]; {
	case r == nil || !r.seen:
		return absent
	case r.deleting || r.evicted != "":
		return leaving
	case r.node == "":
		return waiting
	}
	return running
}

// census counts the pods that exist.
type census struct {
	live, waiting int // waiting: without a node and not to be deleted
	totals        totals
	violations    int
}

func (b *book) census() census {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := census{live: len(b.live), totals: b.totals, violations: len(b.violations)}
	c.totals.evicted, c.totals.collisions = maps.Clone(b.totals.evicted), maps.Clone(b.totals.collisions)
	for _, r := range b.live {
		if r.node == "" && !r.deleting {
			c.waiting++
		}
	}
	return c
}

// unbound returns the pods that exist and wait for a node, in order.
func (b *book) unbound() []string {
	return b.names(func(r *record) bool { return r.node == "" && !r.deleting })
}

// settled reports whether every pod that waits for a node fits on none and was reported as unschedulable.
func (b *book) settled() bool {
	return len(b.names(func(r *record) bool { return r.node == "" && !r.deleting && !(r.tooLarge && r.unschedulable) })) == 0
}

// bound returns the pods that have a node, in order.
func (b *book) bound() []string {
	return b.names(func(r *record) bool { return r.node != "" && !r.deleting })
}

// names returns the names of the live pods for which is returns true, in order.
func (b *book) names(is func(*record) bool) (names []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, r := range b.live {
		if is(r) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// judgeUnbound reports the lost pods, once the cluster has only pods without a node.
func (b *book) judgeUnbound() {
	for _, name := range b.unbound() {
		b.mu.Lock()
		r := b.live[name]
		switch {
		case r == nil:
		case !r.seen:
			b.report(violation{kind: lost, pods: []string{name}, detail: "the API server accepted it, but etcd never had it"})
		case !r.tooLarge && r.forgotten: // see checkClaims; no scheduler can place it
			b.totals.forgotten++
		case !r.tooLarge:
			b.report(violation{kind: lost, pods: []string{name}, detail: "it has no node although the cluster is empty", history: r.history})
		case !r.unschedulable:
			b.report(violation{kind: lost, pods: []string{name}, detail: "it fits nowhere, and no scheduler reported that", history: r.history})
		}
		b.mu.Unlock()
	}
}

// differences compares the pods of a list with the pods that exist by etcd's history.
func (b *book) differences(list []string) (out []violation) {
	b.mu.Lock()
	defer b.mu.Unlock()
	there := map[string]bool{}
	for _, name := range list {
		there[name] = true
		if r := b.live[name]; r == nil || !r.seen {
			out = append(out, violation{
				kind: miscounted, pods: []string{name}, detail: "the API server lists it, but by etcd's history it does not exist",
			})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.live)) {
		if !there[name] {
			out = append(out, violation{
				kind: lost, pods: []string{name}, detail: "the API server accepted it and does not list it", history: b.live[name].history,
			})
		}
	}
	return out
}

// all returns the violations so far.
func (b *book) all() []violation {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.violations)
}

// String names the violation with its pods and their history.
func (v violation) String() string {
	s := v.kind + ": "
	if len(v.pods) > 0 {
		s += v.pods[0] + ": "
	}
	s += v.detail
	if len(v.pods) > 1 {
		s += fmt.Sprintf("; with %v", v.pods[1:])
	}
	for _, h := range v.history {
		s += "\n    " + h
	}
	return s
}

// expects reports whether the API server accepted a pod that etcd's history has not shown yet.
func (b *book) expects(name string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.live[name]
	return r != nil && !r.seen
}
