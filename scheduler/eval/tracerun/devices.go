package tracerun

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
)

// place is the node and devices of a pod. A pod without a node has the zero value.
type place struct {
	node    string
	devices cluster.DeviceSet
}

// checkDevices reads nodes, pods and claims from the API server. It returns each pod's place and the errors of checkAllocation.
func checkDevices(ctx context.Context, client kubernetes.Interface) (map[string]place, error) {
	all := metav1.ListOptions{}
	nodes, err := client.CoreV1().Nodes().List(ctx, all)
	if err != nil {
		return nil, fmt.Errorf("list the nodes: %w", err)
	}
	pods, err := client.CoreV1().Pods(namespace).List(ctx, all)
	if err != nil {
		return nil, fmt.Errorf("list the pods: %w", err)
	}
	claims, err := client.ResourceV1().ResourceClaims(namespace).List(ctx, all)
	if err != nil {
		return nil, fmt.Errorf("list the resource claims: %w", err)
	}
	slices, err := client.ResourceV1().ResourceSlices().List(ctx, all)
	if err != nil {
		return nil, fmt.Errorf("list the resource slices: %w", err)
	}
	l := ledger{nodes: map[string]*cluster.Node{}, claims: map[string]*resourceapi.ResourceClaim{}, at: map[string]place{}}
	inSlices := kube.GPUsInSlices(slices.Items)
	for i := range nodes.Items {
		n := kube.Node(&nodes.Items[i])
		if gpus := inSlices[n.Name]; gpus > 0 && n.GPUs == nil {
			n.GPUs = make([]int64, gpus)
		}
		l.nodes[n.Name] = n
	}
	for i := range claims.Items {
		l.claims[claims.Items[i].Name] = &claims.Items[i]
	}
	return l.at, l.checkAllocation(pods.Items)
}

// ledger counts what pods hold of the devices of nodes, by their annotations and claims.
type ledger struct {
	nodes  map[string]*cluster.Node
	claims map[string]*resourceapi.ResourceClaim // of one namespace
	at     map[string]place                      // of the pods, by name
}

// checkAllocation notes the places of pods. It returns an error for each device with more than its capacity allocated, and for each pod on
// a node whose annotation or claim names another number of devices than it requests.
func (l ledger) checkAllocation(pods []corev1.Pod) error {
	var errs []error
	for i := range pods {
		p := &pods[i]
		n := l.nodes[p.Spec.NodeName]
		if n == nil {
			continue
		}
		on, err := l.add(n, p)
		if err != nil {
			errs = append(errs, fmt.Errorf("pod %s on %s: %w", p.Name, n.Name, err))
		}
		l.at[p.Name] = place{n.Name, on}
	}
	for _, n := range l.nodes {
		for i, used := range n.GPUs {
			if used > cluster.DeviceMilli {
				errs = append(errs, fmt.Errorf("%d thousandths of GPU %d of %s are allocated", used, i, n.Name))
			}
		}
	}
	return errors.Join(errs...)
}

// add adds the devices of a pod to its node's.
func (l ledger) add(n *cluster.Node, p *corev1.Pod) (cluster.DeviceSet, error) {
	if names := kube.ClaimNames(p); len(names) > 0 {
		return l.addClaims(n, names)
	}
	r, err := kube.Running(p)
	if err != nil {
		return 0, err
	}
	devices := max(r.Requests.GPU, min(r.Requests.GPUMilli, 1))
	if int64(r.Devices.Len()) != devices || r.Devices>>len(n.GPUs) != 0 {
		return 0, fmt.Errorf("it asks for %d GPUs and is on %q", devices, p.Annotations[kube.GPUIndexAnnotation])
	}
	n.AddOn(r.Requests, r.Devices)
	return r.Devices, nil
}

func (l ledger) addClaims(n *cluster.Node, names []string) (on cluster.DeviceSet, err error) {
	for _, name := range names {
		c := l.claims[name]
		if c == nil {
			return 0, fmt.Errorf("its claim %s does not exist", name)
		}
		got, err := kube.ReadClaimed(c)
		want := int64(0)
		for _, r := range c.Spec.Devices.Requests {
			want += r.Exactly.Count
		}
		switch {
		case err != nil:
			return 0, err
		case got.Pool != n.Name || got.Devices>>len(n.GPUs) != 0 || int64(got.Devices.Len()) != want:
			return 0, fmt.Errorf("claim %s for %d devices has %b of %s", name, want, got.Devices, got.Pool)
		}
		for i := range n.GPUs {
			if got.Devices.Has(i) {
				n.GPUs[i] += got.Milli
			}
		}
		on |= got.Devices
	}
	return on, nil
}
