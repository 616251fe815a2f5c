package kube

import corev1 "k8s.io/api/core/v1"

// NodeTerms returns the terms about nodes of an affinity, which may be nil: the required ones, then the preferred ones.
func NodeTerms(a *corev1.Affinity) (out []*corev1.NodeSelectorTerm) {
	if a == nil || a.NodeAffinity == nil {
		return nil
	}
	if r := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution; r != nil {
		for i := range r.NodeSelectorTerms {
			out = append(out, &r.NodeSelectorTerms[i])
		}
	}
	preferred := a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	for i := range preferred {
		out = append(out, &preferred[i].Preference)
	}
	return out
}

// PodTerms returns the terms about other pods of an affinity, which may be nil: affinity before anti-affinity, and of each the required
// ones first.
func PodTerms(a *corev1.Affinity) (out []*corev1.PodAffinityTerm) {
	if a == nil {
		return nil
	}
	add := func(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
		for i := range required {
			out = append(out, &required[i])
		}
		for i := range preferred {
			out = append(out, &preferred[i].PodAffinityTerm)
		}
	}
	if p := a.PodAffinity; p != nil {
		add(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if p := a.PodAntiAffinity; p != nil {
		add(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	return out
}
