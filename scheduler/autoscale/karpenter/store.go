//go:build !service && !k136

package karpenter

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// store holds the objects that Karpenter reads. Embedded methods are nil: Karpenter's code that runs here writes nothing.
//
// Objects of lists are copied as far as Karpenter changes them. The rest is shared.
type store struct {
	client.Client
	pools    []v1.NodePool
	daemons  []*corev1.Pod // one of each DaemonSet
	budgets  []*policyv1.PodDisruptionBudget
	machines []*machine // by name
	waiting  []*entry   // the longest waiting first
}

// machine returns a machine by its name, or nil.
func (s *store) machine(name string) *machine {
	i, found := slices.BinarySearchFunc(s.machines, name, func(m *machine, name string) int { return strings.Compare(m.name, name) })
	if !found {
		return nil
	}
	return s.machines[i]
}

// pool returns a pool by its name, or nil.
func (s *store) pool(name string) *v1.NodePool {
	for i := range s.pools {
		if s.pools[i].Name == name {
			return &s.pools[i]
		}
	}
	return nil
}

// Get implements client.Reader.
func (s *store) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	switch into := into.(type) {
	case *v1.NodePool:
		if np := s.pool(key.Name); np != nil {
			*into = *np
			return nil
		}
	case *corev1.Node:
		if m := s.machine(key.Name); m != nil && m.node != nil {
			*into = *m.node
			return nil
		}
	case *v1.NodeClaim:
		if m := s.machine(key.Name); m != nil && m.claim != nil {
			*into = *m.claim
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: fmt.Sprintf("%T", into)}, key.Name)
}

// List implements client.Reader.
func (s *store) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	switch list := list.(type) {
	case *v1.NodePoolList:
		list.Items = slices.Clone(s.pools)
	case *policyv1.PodDisruptionBudgetList:
		for _, b := range s.budgets {
			list.Items = append(list.Items, policyv1.PodDisruptionBudget{ObjectMeta: b.ObjectMeta, Spec: b.Spec, Status: b.Status})
		}
	case *appsv1.DaemonSetList:
		for _, p := range s.daemons {
			d := appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}}
			d.Spec.Template.Spec = *p.Spec.DeepCopy() // Karpenter changes it
			d.Spec.Template.Spec.NodeName, d.Spec.Template.Spec.Volumes = "", nil
			list.Items = append(list.Items, d)
		}
	case *corev1.PodList:
		list.Items = s.pods((&client.ListOptions{}).ApplyOptions(opts))
	case *corev1.NamespaceList: // a record has no labels of namespaces
	default:
		return fmt.Errorf("karpenter: nothing is known about %T", list)
	}
	return nil
}

// pods returns the pods that options select.
func (s *store) pods(o *client.ListOptions) (out []corev1.Pod) {
	add := func(from []*entry) {
		for _, e := range from {
			p := e.pod
			if o.Namespace != "" && p.Namespace != o.Namespace || o.LabelSelector != nil && !o.LabelSelector.Matches(labels.Set(p.Labels)) {
				continue
			}
			if slices.ContainsFunc(p.Spec.TopologySpreadConstraints, hasLabelKeys) {
				p = p.DeepCopy() // Karpenter adds to its selectors
			}
			out = append(out, *p)
		}
	}
	if o.FieldSelector != nil {
		if node, is := o.FieldSelector.RequiresExactMatch("spec.nodeName"); !is || node == "" {
			add(s.waiting)
		} else if m := s.machine(node); m != nil {
			add(m.pods)
		}
		return out
	}
	add(s.waiting)
	for _, m := range s.machines {
		add(m.pods)
	}
	return out
}

func hasLabelKeys(c corev1.TopologySpreadConstraint) bool { return len(c.MatchLabelKeys) > 0 }
