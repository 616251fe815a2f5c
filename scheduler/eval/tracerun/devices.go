package tracerun

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
)

// checkDevices reads nodes and pods from the API server. It returns each pod's node, empty if it has
// none, and the errors of checkAllocation.
func checkDevices(ctx context.Context, client kubernetes.Interface, namespace string) (at map[string]string, err error) {
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the nodes: %w", err)
	}
	pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the pods: %w", err)
	}
	at = map[string]string{}
	for _, p := range pods.Items {
		at[p.Name] = p.Spec.NodeName
	}
	return at, checkAllocation(nodes.Items, pods.Items)
}

// checkAllocation returns an error for each device with more than its capacity allocated, and for
// each pod on a node whose annotation does not name as many devices as it asks for.
func checkAllocation(nodes []corev1.Node, pods []corev1.Pod) error {
	at := map[string]*cluster.Node{}
	for i := range nodes {
		at[nodes[i].Name] = kube.Node(&nodes[i])
	}
	var errs []error
	for i := range pods {
		p := &pods[i]
		n := at[p.Spec.NodeName]
		if n == nil {
			continue
		}
		r, err := kube.Running(p)
		if err != nil {
			errs = append(errs, fmt.Errorf("pod %s: %w", p.Name, err))
			continue
		}
		devices := max(r.Requests.GPU, min(r.Requests.GPUMilli, 1))
		if int64(r.Devices.Len()) != devices || r.Devices>>len(n.GPUs) != 0 {
			errs = append(errs, fmt.Errorf("pod %s asks for %d GPUs and is on %q of %s", p.Name, devices, p.Annotations[kube.GPUIndexAnnotation], n.Name))
			continue
		}
		n.AddOn(r.Requests, r.Devices)
	}
	for _, n := range at {
		for i, used := range n.GPUs {
			if used > cluster.DeviceMilli {
				errs = append(errs, fmt.Errorf("%d thousandths of GPU %d of %s are allocated", used, i, n.Name))
			}
		}
	}
	return errors.Join(errs...)
}
