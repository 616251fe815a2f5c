package advise

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// promise is a pod that counts on a node before the cluster shows it there.
type promise struct {
	pod   *v1.Pod // a copy, with the node
	until time.Time
}

// promise counts a pod on a node, unless it has no UID, or the cluster already shows it on one.
func (a *Advisor) promise(pod *v1.Pod, node string) {
	if a.window <= 0 || pod.UID == "" {
		return
	}
	p := pod.DeepCopy()
	p.Spec.NodeName = node
	if err := a.cache.AssumePod(a.log, p); err != nil {
		return // the cache has it: it is bound
	}
	a.promised[p.UID] = promise{p, a.clock.Now().Add(a.window)}
}

// expire takes back expired promises. Pods that the cluster shows as bound stay.
func (a *Advisor) expire() {
	now := a.clock.Now()
	for uid, p := range a.promised {
		if now.After(p.until) {
			a.unpromise(uid)
		}
	}
}

// unpromise takes back the promise for a pod and reports whether there was one.
func (a *Advisor) unpromise(uid types.UID) bool {
	p, promised := a.promised[uid]
	if !promised {
		return false
	}
	delete(a.promised, uid)
	if assumed, err := a.cache.IsAssumedPod(p.pod); err != nil || !assumed {
		return false
	}
	if err := a.cache.ForgetPod(a.log, p.pod); err != nil {
		a.log.V(4).Info("A pod was bound just before its promise was taken back", "err", err)
	}
	return true
}
