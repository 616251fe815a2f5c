package plugin

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"gnnsched/scheduler/plugin/dra"
	"gnnsched/scheduler/plugin/nodereservation"
)

// profile lets the plugins of one profile find each other.
type profile struct {
	reserved *reservations                           // those of the profiles with the same snapshot, which are all of a scheduler
	scores   *learnedScore                           // nil without LearnedScore
	taken    func(view *dra.View) map[string][]int64 // of GPUShares, see dra.Host; nil without it
}

// nodeReservations returns the reservations of nodes; nil without LearnedScore.
func (p *profile) nodeReservations() *nodereservation.Nodes {
	if p.scores == nil {
		return nil
	}
	return p.scores.nodeReservations
}

// profiles holds the *profile of each fwk.Handle in this process.
var profiles sync.Map

// profileOf returns the profile of a handle, which is known until ctx is done.
func profileOf(ctx context.Context, h fwk.Handle) *profile {
	found, known := profiles.LoadOrStore(h, &profile{})
	p := found.(*profile)
	if known {
		return p
	}
	context.AfterFunc(ctx, func() { profiles.Delete(h) })
	p.reserved = newReservations(logger(ctx), h.SnapshotSharedLister())
	profiles.Range(func(other, of any) bool {
		same := other != h && other.(fwk.Handle).SnapshotSharedLister() == h.SnapshotSharedLister()
		if same {
			p.reserved = of.(*profile).reserved
		}
		return !same
	})
	return p
}

// knownProfile returns the profile of a handle; one without plugins if there is none.
func knownProfile(h fwk.Handle) *profile {
	if p, known := profiles.Load(h); known {
		return p.(*profile)
	}
	return &profile{}
}

// Attempted tells the canary of h's profile, if it has one, how long an attempt to find a node for a pod took.
func Attempted(h fwk.Handle, pod *v1.Pod, took time.Duration) {
	if p := knownProfile(h).scores; p != nil && p.canary != nil {
		p.canary.Attempted(pod, took)
	}
}
