package kube_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
)

// A pod for half a GPU of model T4 or A10, read as kube-scheduler's plugin reads it.
func ExamplePod() {
	object := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "half",
			Annotations: map[string]string{
				kube.GPUMilliAnnotation: "500",
				kube.GPUModelAnnotation: "T4|A10",
			},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("250m"),
			}},
		}}},
	}
	pod, err := kube.Pod(object)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(pod.Requests.MilliCPU, pod.Requests.GPUMilli, pod.GPUModels)
	// Output: 250 500 [T4 A10]
}

// A cluster of one node, written as Kubernetes objects and read back.
func ExampleSnapshot() {
	offers := cluster.Resources{MilliCPU: 4000, Memory: 16 << 30, GPU: 2, Pods: 110}
	node := corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu-0", Labels: map[string]string{kube.GPUModelLabel: "T4"}},
		Status:     corev1.NodeStatus{Allocatable: kube.Capacity(offers)},
	}
	requests := cluster.Resources{MilliCPU: 500, Memory: 1 << 30, GPUMilli: 300}
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "share", Annotations: kube.GPUAnnotations(requests, nil)},
		Spec: corev1.PodSpec{NodeName: "gpu-0", Containers: []corev1.Container{{
			Resources: corev1.ResourceRequirements{Requests: kube.ResourceList(requests), Limits: kube.GPUResourceList(requests)},
		}}},
	}
	pod.Annotations[kube.GPUIndexAnnotation] = kube.FormatDevices(cluster.Device(1))

	snapshot, unbound, err := kube.Snapshot([]corev1.Node{node}, []corev1.Pod{pod})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, n := range snapshot.Nodes {
		fmt.Printf("%s (%s): %d m CPU used, GPUs %v\n", n.Name, n.GPUModel, n.Requested.MilliCPU, n.GPUs)
	}
	fmt.Println(unbound, "pods without a node")
	// Output:
	// gpu-0 (T4): 500 m CPU used, GPUs [0 300]
	// 0 pods without a node
}
