package kube

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"

	"gnnsched/internal/cluster"
)

// Pod translates a pod: its requests, the GPU models it accepts, its node selector and its tolerations. Node affinity is left out, and so
// are tolerations with an operator other than Equal or Exists.
//
// The error describes the fault of the pod's GPU request. The pod then holds the request's trustworthy part; see GPURequestOf.
func Pod(p *corev1.Pod) (cluster.Pod, error) {
	requests := Requests(p)
	gpu, err := GPURequestOf(p.Annotations, requests)
	return cluster.Pod{
		Name:         p.Name,
		Namespace:    p.Namespace,
		Requests:     podResources(requests, gpu),
		Limits:       Limits(p),
		NodeSelector: p.Spec.NodeSelector,
		Tolerations:  FromTolerations(p.Spec.Tolerations),
		GPUModels:    gpu.Models,
	}, err
}

// podResources returns the requests of one pod.
func podResources(requests Amounts, gpu GPURequest) cluster.Resources {
	return cluster.Resources{MilliCPU: requests.MilliCPU, Memory: requests.Memory, GPU: gpu.GPU, GPUMilli: gpu.GPUMilli, Pods: 1}
}

// Limits returns the limits of a pod's CPU and memory, resizes in progress included; 0 for a resource without one.
func Limits(p *corev1.Pod) cluster.Resources {
	limits := resource.PodLimits(p, counted)
	return cluster.Resources{MilliCPU: limits.Cpu().MilliValue(), Memory: limits.Memory().Value()}
}

// FromTolerations translates tolerations. Those with an operator other than Equal or Exists are left out.
func FromTolerations(list []corev1.Toleration) []cluster.Toleration {
	var out []cluster.Toleration
	for _, t := range list {
		exists := t.Operator == corev1.TolerationOpExists
		if exists || t.Operator == corev1.TolerationOpEqual || t.Operator == "" {
			out = append(out, cluster.Toleration{Key: t.Key, Value: t.Value, Exists: exists, Effect: cluster.Effect(t.Effect)})
		}
	}
	return out
}

// Finished reports whether a pod has succeeded or failed, so that it holds no resources any more.
func Finished(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}
