package driver

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gnnsched/workload"
)

// noteGone looks for pods that others have deleted, such as a scheduler that preempted them. Pods of a record whose owner
// would create them again come again. All others are lost. Pods of Deployments are left to their controllers.
func (r *runner) noteGone(ctx context.Context) error {
	for _, p := range r.pods.takeGone() {
		d, planned := r.existing[p.deployment]
		if !r.Bare || !planned {
			continue
		}
		err := withRetry(ctx, func(call context.Context) error {
			_, err := r.Client.CoreV1().Pods(p.namespace).Get(call, p.name, metav1.GetOptions{})
			return err
		})
		if err == nil { // a later one under the same name
			continue
		}
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("look for pod %s: %w", p.name, err)
		}
		again := false
		if r.stage != nil {
			if again, err = r.stage.replace(ctx, d.Name); err != nil {
				return err
			}
		}
		if again {
			r.fill.Replaced++
		} else {
			r.lose(d, 1)
		}
	}
	return nil
}

// lose takes n pods of a Deployment out of the fill.
func (r *runner) lose(d workload.Deployment, n int) {
	r.take(d, n)
	r.fill.Lost += n
}

// leave deletes a Deployment because the plan does. Its missing pods are lost.
func (r *runner) leave(ctx context.Context, d workload.Deployment) error {
	before, here := r.existing[d.Name]
	if !here { // it was left out, or is lost
		return nil
	}
	removed, err := r.remove(ctx, d)
	if err != nil {
		return err
	}
	removed = min(removed, before.Replicas)
	if lost := before.Replicas - removed; lost > 0 {
		r.lose(before, lost)
	}
	if removed > 0 {
		r.take(r.existing[d.Name], removed)
		r.fill.Deleted++
		r.fill.Left += removed
	}
	return nil
}

// take removes n of the existing pods.
func (r *runner) take(d workload.Deployment, n int) {
	gone := d
	gone.Replicas = n
	r.requested = r.requested.Minus(gone.Requests())
	r.fill.Pods -= n
	r.gone += n
	if d.Replicas -= n; d.Replicas > 0 {
		r.existing[d.Name] = d
		return
	}
	delete(r.existing, d.Name)
	r.left[d.Name] = d
}

// replace creates a pod of the record again that others have deleted. It returns false if its owner would not, because it
// has none, or if the API server does not accept it.
func (s *stage) replace(ctx context.Context, name string) (again bool, err error) {
	part := s.Replay.Parts[name]
	if part.Row.OwnerKind == "" {
		return false, nil
	}
	p := s.pod(name)
	if p.Spec.NodeName = ""; part.Row.Daemon && part.Node != "" {
		p.Spec.Affinity = onNode(p.Spec.Affinity, s.node(part.Node))
	}
	return s.submit(ctx, p)
}

// onNode restricts an affinity to a node, as the controller of DaemonSets does. The pod waits until the node has room for it.
func onNode(a *corev1.Affinity, node string) *corev1.Affinity {
	if a == nil {
		a = &corev1.Affinity{}
	}
	if a.NodeAffinity == nil {
		a.NodeAffinity = &corev1.NodeAffinity{}
	}
	terms := &a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if *terms == nil {
		*terms = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{}}}
	}
	for i := range (*terms).NodeSelectorTerms {
		t := &(*terms).NodeSelectorTerms[i]
		t.MatchFields = append(t.MatchFields, corev1.NodeSelectorRequirement{
			Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node},
		})
	}
	return a
}
