package nodepool

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
)

// parallel is the number of nodes that Reconcile writes at the same time. More would not be faster with one API server.
const parallel = 16

// Result counts what Reconcile did.
type Result struct{ Created, Updated, Deleted, Unchanged int }

// Reconcile makes the cluster's nodes match the pools. It creates missing nodes, updates labels, taints and capacity of nodes whose pool
// changed, and deletes nodes that are in no pool any more. Foreign additions to a node stay. It touches only nodes that this package made;
// a foreign node with a name from a pool is an error.
func Reconcile(ctx context.Context, cs kubernetes.Interface, pools []Pool) (Result, error) {
	var res Result
	have, err := existingNodes(ctx, cs)
	if err != nil {
		return res, err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	nodes := cs.CoreV1().Nodes()
	for _, p := range pools {
		for i := range p.Count {
			name := p.NodeName(i)
			old, ok := have[name]
			delete(have, name)
			switch {
			case !ok:
				res.Created++
				g.Go(func() error { return create(gctx, cs, p.Node(i)) })
			case old.Annotations[annotationSpec] == p.spec(i).json():
				res.Unchanged++
			default:
				res.Updated++
				g.Go(func() error { return update(gctx, cs, old, p.spec(i)) })
			}
		}
	}
	for name := range have {
		res.Deleted++
		g.Go(func() error {
			if err := nodes.Delete(gctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("delete node %s, which is in no pool: %w", name, err)
			}
			return nil
		})
	}
	return res, g.Wait()
}

// existingNodes returns the nodes that this package made, by name.
func existingNodes(ctx context.Context, cs kubernetes.Interface) (map[string]*corev1.Node, error) {
	list, err := cs.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: managedSelector})
	if err != nil {
		return nil, fmt.Errorf("list the nodes: %w", err)
	}
	have := make(map[string]*corev1.Node, len(list.Items))
	for i := range list.Items {
		have[list.Items[i].Name] = &list.Items[i]
	}
	return have, nil
}

func create(ctx context.Context, cs kubernetes.Interface, n *corev1.Node) error {
	_, err := cs.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{})
	switch {
	case apierrors.IsAlreadyExists(err):
		return fmt.Errorf("node %s already exists without the label %s=%s, so kwokcluster did not make it; delete it or rename the pool",
			n.Name, LabelManagedBy, ManagedBy)
	case err != nil:
		return fmt.Errorf("create node %s: %w", n.Name, err)
	}
	return nil
}

// update changes a node to want with two writes, because the API server ignores the status in an
// ordinary update. The status comes first: the second write has the annotation that marks the node
// as up to date.
func update(ctx context.Context, cs kubernetes.Interface, n *corev1.Node, want spec) error {
	nodes := cs.CoreV1().Nodes()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		n.Status.Capacity, n.Status.Allocatable = want.Capacity, want.Capacity.DeepCopy()
		stored, err := nodes.UpdateStatus(ctx, n, metav1.UpdateOptions{})
		if err == nil {
			merge(stored, want)
			if stored, err = nodes.Update(ctx, stored, metav1.UpdateOptions{}); err == nil {
				n = stored
				return nil
			}
		}
		if apierrors.IsConflict(err) {
			if fresh, getErr := nodes.Get(ctx, n.Name, metav1.GetOptions{}); getErr == nil {
				n = fresh
			}
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("update node %s: %w", n.Name, err)
	}
	return nil
}

// merge applies want to n and removes what only the node's last spec has. Everything else stays,
// such as taints of the node controller and labels of users.
func merge(n *corev1.Node, want spec) {
	var last spec
	// Without a valid annotation, last stays empty and nothing is removed.
	_ = json.Unmarshal([]byte(n.Annotations[annotationSpec]), &last)
	if n.Labels == nil {
		n.Labels = map[string]string{}
	}
	for k := range last.Labels {
		if _, keep := want.Labels[k]; !keep {
			delete(n.Labels, k)
		}
	}
	maps.Copy(n.Labels, want.Labels)
	ours := append(slices.Clone(last.Taints), want.Taints...)
	kept := slices.DeleteFunc(slices.Clone(n.Spec.Taints), func(t corev1.Taint) bool {
		return slices.ContainsFunc(ours, func(o corev1.Taint) bool { return o.MatchTaint(&t) })
	})
	n.Spec.Taints = append(kept, want.Taints...)
	if n.Annotations == nil {
		n.Annotations = map[string]string{}
	}
	n.Annotations[AnnotationFake], n.Annotations[annotationSpec] = "fake", want.json()
}
