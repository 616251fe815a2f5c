package observe

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Time is a time that an object has, in milliseconds since 1970.
type Time struct {
	At int64
	Of string // the object, such as shop/web-1
}

// newer returns the newer one of two times, the first of equal ones.
func newer(a, b Time) Time {
	if b.At > a.At {
		return b
	}
	return a
}

// newest returns the newest time that an object has of something that has happened: its creation, changes of its fields, conditions,
// heartbeats and states of containers.
func newest(x metav1.Object) Time {
	out := millis(x.GetCreationTimestamp())
	for _, f := range x.GetManagedFields() {
		if f.Time != nil {
			out = max(out, millis(*f.Time))
		}
	}
	switch x := x.(type) {
	case *corev1.Pod:
		out = max(out, newestOfPod(x))
	case *corev1.Node:
		for _, c := range x.Status.Conditions {
			out = max(out, millis(c.LastHeartbeatTime), millis(c.LastTransitionTime))
		}
		for _, t := range x.Spec.Taints {
			if t.TimeAdded != nil {
				out = max(out, millis(*t.TimeAdded))
			}
		}
	case *policyv1.PodDisruptionBudget:
		for _, c := range x.Status.Conditions {
			out = max(out, millis(c.LastTransitionTime))
		}
	}
	name := x.GetName()
	if space := x.GetNamespace(); space != "" {
		name = space + "/" + name
	}
	return Time{out, name}
}

func newestOfPod(p *corev1.Pod) (out int64) {
	if t := p.Status.StartTime; t != nil {
		out = millis(*t)
	}
	for _, c := range p.Status.Conditions {
		out = max(out, millis(c.LastTransitionTime), millis(c.LastProbeTime))
	}
	s := p.Status
	for _, c := range slices.Concat(s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses) {
		for _, s := range []corev1.ContainerState{c.State, c.LastTerminationState} {
			if s.Running != nil {
				out = max(out, millis(s.Running.StartedAt))
			}
			if s.Terminated != nil {
				out = max(out, millis(s.Terminated.StartedAt), millis(s.Terminated.FinishedAt))
			}
		}
	}
	return out
}
