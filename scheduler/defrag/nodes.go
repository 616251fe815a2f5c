package defrag

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"gnnsched/internal/cluster/kube"
	"gnnsched/scheduler/plugin/nodereservation"
)

// emptied is the value of kube.DefragAnnotation on the nodes that a Mover cordoned and emptied.
const emptied = "emptied"

// nodes are the nodes that a run cordons, and those that it holds for the pods that move.
type nodes struct {
	client kubernetes.Interface
	closed []string                          // by this run
	held   map[string][]nodereservation.Hold // by node
}

// Release gives nodes back that a run cordoned or held which was killed, and returns the names of the cordoned ones.
func Release(ctx context.Context, c kubernetes.Interface) ([]string, error) {
	list, err := c.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	n := nodes{client: c, held: map[string][]nodereservation.Hold{}}
	for i := range list.Items {
		name, marks := list.Items[i].Name, list.Items[i].Annotations
		if marks[kube.DefragAnnotation] == kube.DefragMoving {
			n.closed = append(n.closed, name)
		}
		if marks[kube.HoldsAnnotation] != "" {
			n.held[name] = nil
		}
	}
	names := n.closed
	return names, n.open(ctx, nil)
}

// close cordons nodes. Those that are cordoned already stay as they are.
func (n *nodes) close(ctx context.Context, names []string) error {
	for _, name := range names {
		node, err := n.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("cordon node %s: %w", name, err)
		}
		if node.Spec.Unschedulable {
			continue
		}
		n.closed = append(n.closed, name)
		if err := n.cordon(ctx, name, kube.DefragMoving, true); err != nil {
			return err
		}
	}
	return nil
}

// open gives the nodes back, but keeps those closed that are emptied.
func (n *nodes) open(ctx context.Context, keep []string) error {
	var errs []error
	for _, name := range n.closed {
		if slices.Contains(keep, name) {
			errs = append(errs, n.cordon(ctx, name, emptied, true))
		} else {
			errs = append(errs, n.cordon(ctx, name, nil, nil))
		}
	}
	for name := range n.held {
		errs = append(errs, n.patch(ctx, name, map[string]any{kube.HoldsAnnotation: nil}, nil))
	}
	n.closed, n.held = nil, nil
	return errors.Join(errs...)
}

// hold adds h to a node's reservations. If its owner has a reservation there, that grows by one pod.
func (n *nodes) hold(ctx context.Context, name string, h nodereservation.Hold) error {
	list := slices.Clone(n.held[name])
	if i := slices.IndexFunc(list, func(x nodereservation.Hold) bool { return x.Owner == h.Owner }); i >= 0 {
		list[i].Pods, list[i].Until, list[i].GPUs = list[i].Pods+1, h.Until, slices.Concat(list[i].GPUs, h.GPUs)
	} else {
		list = append(list, h)
	}
	text, err := json.Marshal(list)
	if err != nil {
		return err
	}
	if n.held == nil {
		n.held = map[string][]nodereservation.Hold{}
	}
	n.held[name] = list
	return n.patch(ctx, name, map[string]any{kube.HoldsAnnotation: string(text)}, nil)
}

// cordon sets a node's mark and whether it is cordoned; nil removes either.
func (n *nodes) cordon(ctx context.Context, name string, value, closed any) error {
	return n.patch(ctx, name, map[string]any{kube.DefragAnnotation: value}, map[string]any{"unschedulable": closed})
}

func (n *nodes) patch(ctx context.Context, name string, annotations, spec map[string]any) error {
	change := map[string]any{"metadata": map[string]any{"annotations": annotations}}
	if spec != nil {
		change["spec"] = spec
	}
	patch, err := json.Marshal(change)
	if err != nil {
		return err
	}
	_, err = n.client.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if err != nil && !passes(err) {
		return fmt.Errorf("mark node %s: %w", name, err)
	}
	return nil
}

// empty returns which of the nodes have no pods but those of DaemonSets, static pods and pods that have ended.
func (n *nodes) empty(ctx context.Context, names []string) (out []string, err error) {
	for _, name := range names {
		pods, err := n.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + name})
		if err != nil {
			return out, fmt.Errorf("list the pods of node %s: %w", name, err)
		}
		if !slices.ContainsFunc(pods.Items, counts) {
			out = append(out, name)
		}
	}
	return out, nil
}

// counts reports whether a pod keeps its node in use.
func counts(p v1.Pod) bool {
	owner := metav1.GetControllerOf(&p)
	return p.Status.Phase != v1.PodSucceeded && p.Status.Phase != v1.PodFailed &&
		(owner == nil || owner.Kind != "DaemonSet" && owner.Kind != "Node")
}
