package plugin

import (
	"cmp"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/watched"
)

// arrivals counts the pods of a profile that arrive and wait, by kind. Pods count from their creation on, so those that fit nowhere, which
// are never scored, count too. The pods that run when a scheduler starts are its history. Of a namespace at most mostOpen pods count that
// have not got a node, deleted ones included; the others count when they get one. So nobody has nodes kept for pods that only wait.
type arrivals struct {
	profile string
	shown   cluster.Demand // what decisions see

	mu     sync.Mutex
	demand cluster.Demand
	waits  map[types.UID]waitingPod // pods without a node
	open   map[string]int           // by namespace: pods that have counted and got no node; nil: all count

	claims  corelisters.PersistentVolumeClaimLister // nil: volumes are not known
	volumes corelisters.PersistentVolumeLister
}

// mostOpen is the largest number of pods of a namespace that count before they have a node.
const mostOpen = 32

// waitingPod is a pod without a node.
type waitingPod struct {
	cluster.Pod
	counts bool
}

// watchArrivals counts the pods of a profile from now on.
func watchArrivals(h fwk.Handle, profile string) (*arrivals, error) {
	core := h.SharedInformerFactory().Core().V1()
	a := &arrivals{profile: profile, waits: map[types.UID]waitingPod{}, open: map[string]int{}, claims: core.PersistentVolumeClaims().Lister(),
		volumes: core.PersistentVolumes().Lister()}
	_, err := core.Pods().Informer().AddEventHandler(
		watched.Handler(func(was, is *v1.Pod, _ bool) { a.change(was, is) }))
	return a, err
}

// change records that a pod has come (was is nil), changed, or gone (is is nil).
func (a *arrivals) change(was, is *v1.Pod) {
	pod := cmp.Or(is, was)
	if pod.Spec.SchedulerName != a.profile {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.set(pod, was == nil, is != nil && is.Spec.NodeName == "" && is.DeletionTimestamp == nil)
}

// arrives counts a pod that no informer knows. Before the first one those that run on the nodes count.
func (a *arrivals) arrives(pod *v1.Pod, nodes []fwk.NodeInfo) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.demand.Epoch == 0 {
		for _, n := range nodes {
			for _, p := range n.GetPods() {
				a.set(p.GetPod(), true, false)
			}
		}
	}
	a.set(pod, true, true)
}

// leaves counts a pod of arrives no longer as one that waits.
func (a *arrivals) leaves(pod *v1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.set(pod, false, false)
}

// set records whether a pod waits. One that is new counts as an arrival, unless it waits already.
func (a *arrivals) set(pod *v1.Pod, isNew, waits bool) {
	p, waited := a.waits[pod.UID]
	if waited == waits && (waited || !isNew) {
		return
	}
	if !waited {
		p = waitingPod{convertPod(pod), !waits || a.open == nil || a.open[pod.Namespace] < mostOpen}
		p.NodeAffinity = cluster.BothTerms(p.NodeAffinity, a.whereVolumesAre(pod))
	}
	key := cluster.KindKey(&p.Pod)
	runs := waited && pod.Spec.NodeName != ""
	if isNew && !waited && p.counts || runs && !p.counts {
		a.demand.Arrive(key, &p.Pod)
	}
	switch {
	case waits && !waited:
		a.waits[pod.UID] = p
		if p.counts {
			a.demand.Wait(key, &p.Pod, 1)
			a.opens(pod.Namespace, 1)
		}
	case waited && !waits:
		delete(a.waits, pod.UID)
		if p.counts {
			a.demand.Wait(key, &p.Pod, -1)
		}
		if runs {
			a.opens(pod.Namespace, -1)
		}
	}
}

// opens adds n to the open pods of a namespace.
func (a *arrivals) opens(namespace string, n int) {
	if a.open == nil {
		return
	}
	if a.open[namespace] += n; a.open[namespace] <= 0 {
		delete(a.open, namespace)
	}
}

// whereVolumesAre returns the terms of the bound volumes of a pod: it may run only where they can be attached.
func (a *arrivals) whereVolumesAre(pod *v1.Pod) (terms [][]cluster.Requirement) {
	if a.claims == nil {
		return nil
	}
	for _, name := range kube.VolumeClaims(pod) {
		claim, err := a.claims.PersistentVolumeClaims(pod.Namespace).Get(name)
		if err != nil || claim.Spec.VolumeName == "" {
			continue // it is bound where the pod will run
		}
		if volume, err := a.volumes.Get(claim.Spec.VolumeName); err == nil && volume.Spec.NodeAffinity != nil {
			terms = cluster.BothTerms(terms, kube.Terms(volume.Spec.NodeAffinity.Required))
		}
	}
	return terms
}

// now returns the demand, which belongs to the decision until the next call; nil if nobody counts.
func (a *arrivals) now() *cluster.Demand {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.demand.CopyTo(&a.shown)
	return &a.shown
}
