package gpustep

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Waiting tracks the devices that pods request which found no node. kube-scheduler tries each of them again at least
// every five minutes, so a pod of which nothing was heard for longer was deleted. The zero value is ready. Not safe
// for concurrent use.
type Waiting struct {
	pods  map[types.UID]waitingPod
	milli int64 // of all pods
}

type waitingPod struct {
	milli int64
	heard time.Time
}

const (
	// forgotten is the time after which a pod that was not tried again does not count.
	forgotten = 11 * time.Minute
	// maxWaiting bounds the memory: no more pods are tracked.
	maxWaiting = 1 << 16
)

// Failed notes that a pod that requests so many thousandths of devices found no node.
func (w *Waiting) Failed(pod types.UID, milli int64, now time.Time) {
	if milli <= 0 {
		return
	}
	if w.pods == nil {
		w.pods = map[types.UID]waitingPod{}
	}
	if _, known := w.pods[pod]; !known && len(w.pods) >= maxWaiting {
		return
	}
	w.Placed(pod)
	w.pods[pod] = waitingPod{milli, now}
	w.milli += milli
}

// Placed notes that a pod waits no longer.
func (w *Waiting) Placed(pod types.UID) {
	w.milli -= w.pods[pod].milli
	delete(w.pods, pod)
}

// Milli returns the thousandths of devices that the waiting pods request.
func (w *Waiting) Milli(now time.Time) int64 {
	for pod, p := range w.pods {
		if now.Sub(p.heard) > forgotten {
			w.Placed(pod)
		}
	}
	return w.milli
}
