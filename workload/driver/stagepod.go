package driver

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"gnnsched/internal/cluster/kube"
	"gnnsched/workload"
)

// pod returns a pod of the record as this run creates it.
func (s *stage) pod(name string) *corev1.Pod {
	part := s.Replay.Parts[name]
	p := s.reader.Pod(part.Row)
	meta := metav1.ObjectMeta{
		Name: name, Namespace: s.space(part.Row.Namespace), Labels: s.podLabels(p.Labels), Annotations: map[string]string{},
	}
	for k, v := range p.Annotations {
		if k != corev1.MirrorPodAnnotationKey {
			meta.Annotations[k] = v
		}
	}
	if part.Row.Workload != "" {
		meta.Annotations[kube.WorkloadAnnotation] = part.Row.Workload
	}
	spec := p.Spec
	spec.SchedulerName = s.SchedulerName
	spec.Priority, spec.PreemptionPolicy, spec.PriorityClassName = nil, nil, s.classes[s.priorityOf(part.Row)]
	spec.AutomountServiceAccountToken, spec.EnableServiceLinks = ptr.To(false), ptr.To(false) // the pods never call the API server
	if host := s.hostname(spec.NodeSelector[corev1.LabelHostname]); host != "" {
		spec.NodeSelector[corev1.LabelHostname] = host
	}
	for _, t := range kube.Tolerations(workload.Tolerations(nil)) {
		if !slices.Contains(spec.Tolerations, t) {
			spec.Tolerations = append(spec.Tolerations, t)
		}
	}
	for i := range spec.TopologySpreadConstraints {
		c := &spec.TopologySpreadConstraints[i]
		unmerge(c.LabelSelector, c.MatchLabelKeys, nil, p.Labels)
	}
	s.affinity(spec.Affinity, p.Labels)
	app := &spec.Containers[0]
	app.Name, app.Image, app.Ports = "app", s.Image, hostPorts(app.Ports)
	if part.Node != "" {
		spec.NodeName = s.node(part.Node)
	}
	return &corev1.Pod{ObjectMeta: meta, Spec: spec}
}

// podLabels returns the labels of a pod of the record plus the labels for cleancluster.
func (s *stage) podLabels(own map[string]string) map[string]string {
	out := s.labels()
	out[workload.LabelFill] = "1"
	for k, v := range own {
		if _, set := out[k]; !set {
			out[k] = v
		}
	}
	return out
}

// hostPorts returns ports without repetitions, which Kubernetes refuses, and without the address that stands for all.
func hostPorts(all []corev1.ContainerPort) (out []corev1.ContainerPort) {
	for _, p := range all {
		if p.HostIP == "0.0.0.0" {
			p.HostIP = ""
		}
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// affinity puts the cluster's names of nodes and namespaces into an affinity of the record.
func (s *stage) affinity(a *corev1.Affinity, labels map[string]string) {
	for _, t := range kube.NodeTerms(a) {
		for _, r := range t.MatchExpressions {
			if r.Key == corev1.LabelHostname {
				replace(r.Values, s.hostname)
			}
		}
		for _, r := range t.MatchFields {
			if r.Key == metav1.ObjectNameField {
				replace(r.Values, s.node)
			}
		}
	}
	for _, t := range kube.PodTerms(a) {
		s.podTerm(t, labels)
	}
}

// replace replaces each value that has a replacement.
func replace(values []string, by func(string) string) {
	for i, v := range values {
		if other := by(v); other != "" {
			values[i] = other
		}
	}
}

func (s *stage) podTerm(t *corev1.PodAffinityTerm, labels map[string]string) {
	unmerge(t.LabelSelector, t.MatchLabelKeys, t.MismatchLabelKeys, labels)
	for i, n := range t.Namespaces {
		t.Namespaces[i] = s.space(n)
	}
	if t.NamespaceSelector == nil {
		return
	}
	if n, ok := t.NamespaceSelector.MatchLabels[corev1.LabelMetadataName]; ok {
		t.NamespaceSelector.MatchLabels[corev1.LabelMetadataName] = s.space(n)
	}
	for _, r := range t.NamespaceSelector.MatchExpressions {
		for i, n := range r.Values {
			if r.Key == corev1.LabelMetadataName {
				r.Values[i] = s.space(n)
			}
		}
	}
}

// unmerge removes from a selector the terms that the API server has merged into it from the keys. The API server merges again when the pod
// is created, and refuses a selector that already has them.
func unmerge(selector *metav1.LabelSelector, match, mismatch []string, labels map[string]string) {
	if selector == nil {
		return
	}
	merged := func(r metav1.LabelSelectorRequirement, keys []string, operator metav1.LabelSelectorOperator) bool {
		return r.Operator == operator && slices.Contains(keys, r.Key) && slices.Equal(r.Values, []string{labels[r.Key]})
	}
	selector.MatchExpressions = slices.DeleteFunc(selector.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool {
		return merged(r, match, metav1.LabelSelectorOpIn) || merged(r, mismatch, metav1.LabelSelectorOpNotIn)
	})
}
