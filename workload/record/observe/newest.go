package observe

import (
	"fmt"
	"slices"
	"time"

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
	created := x.GetCreationTimestamp()
	out := millis(created)
	for _, t := range times(x) {
		out = max(out, millis(*t))
	}
	name := x.GetName()
	if space := x.GetNamespace(); space != "" {
		name = space + "/" + name
	}
	return Time{out, name}
}

// times returns an object's times without its creation.
func times(x metav1.Object) (out []*metav1.Time) {
	for _, f := range x.GetManagedFields() {
		out = append(out, f.Time)
	}
	switch x := x.(type) {
	case *corev1.Pod:
		out = append(out, timesOfPod(x)...)
	case *corev1.Node:
		for i := range x.Status.Conditions {
			out = append(out, &x.Status.Conditions[i].LastHeartbeatTime, &x.Status.Conditions[i].LastTransitionTime)
		}
		for _, t := range x.Spec.Taints {
			out = append(out, t.TimeAdded)
		}
	case *policyv1.PodDisruptionBudget:
		for i := range x.Status.Conditions {
			out = append(out, &x.Status.Conditions[i].LastTransitionTime)
		}
	}
	return slices.DeleteFunc(out, func(t *metav1.Time) bool { return t == nil })
}

func timesOfPod(p *corev1.Pod) []*metav1.Time {
	out := []*metav1.Time{p.Status.StartTime}
	for i := range p.Status.Conditions {
		out = append(out, &p.Status.Conditions[i].LastTransitionTime, &p.Status.Conditions[i].LastProbeTime)
	}
	s := p.Status
	for _, c := range slices.Concat(s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses) {
		for _, s := range []corev1.ContainerState{c.State, c.LastTerminationState} {
			if s.Running != nil {
				out = append(out, &s.Running.StartedAt)
			}
			if s.Terminated != nil {
				out = append(out, &s.Terminated.StartedAt, &s.Terminated.FinishedAt)
			}
		}
	}
	return out
}

// Doubt removes times of nodes and pods that are more than a day after the file's time, because the machine's clock was wrong. If half of
// the objects have such times, the file's own time is wrong. It returns these objects.
func (f *File) Doubt() (out Few) {
	last := f.At + int64(24*time.Hour/time.Millisecond)
	var all []metav1.Object
	for _, n := range f.Nodes {
		all = append(all, n)
	}
	for _, p := range f.Pods {
		all = append(all, p)
	}
	var late []metav1.Object
	for _, x := range all {
		if newest(x).At > last {
			late = append(late, x)
		}
	}
	if len(late) == 0 || 2*len(late) >= len(all) {
		return out
	}
	for _, x := range late {
		t := newest(x)
		out.add(t.Of, fmt.Errorf("it has a time of %s", time.UnixMilli(t.At).UTC().Format(time.RFC3339)))
		if millis(x.GetCreationTimestamp()) > last {
			x.SetCreationTimestamp(metav1.Time{})
		}
		for _, t := range times(x) {
			if millis(*t) > last {
				*t = metav1.Time{}
			}
		}
	}
	for k, at := range f.scope.listed {
		if at > last {
			f.scope.listed[k] = 0
		}
	}
	f.Newest = Time{}
	for _, x := range all {
		f.Newest = newer(f.Newest, newest(x))
	}
	return out
}
