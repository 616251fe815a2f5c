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
	daemons  []appsv1.DaemonSet
	budgets  []policyv1.PodDisruptionBudget
	machines []*machine // by name
	waiting  []*pending // the longest waiting first
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
		list.Items = slices.Clone(s.budgets)
	case *appsv1.DaemonSetList:
		list.Items = nil
		for i := range s.daemons {
			list.Items = append(list.Items, *s.daemons[i].DeepCopy())
		}
	case *corev1.PodList:
		o := (&client.ListOptions{}).ApplyOptions(opts)
		list.Items = s.pods(o)
	case *corev1.NamespaceList:
		list.Items = nil // a record has no labels of namespaces
	default:
		return fmt.Errorf("karpenter: nothing is known about %T", list)
	}
	return nil
}

// pods returns the pods that options select.
func (s *store) pods(o *client.ListOptions) []corev1.Pod {
	var out []corev1.Pod
	add := func(p *corev1.Pod) {
		if o.Namespace != "" && p.Namespace != o.Namespace || o.LabelSelector != nil && !o.LabelSelector.Matches(labelsOf(p)) {
			return
		}
		if slices.ContainsFunc(p.Spec.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool { return len(c.MatchLabelKeys) > 0 }) {
			p = p.DeepCopy() // Karpenter adds to its selectors
		}
		out = append(out, *p)
	}
	node, byNode := "", false
	if o.FieldSelector != nil {
		node, byNode = o.FieldSelector.RequiresExactMatch("spec.nodeName")
	}
	if byNode && node != "" {
		if m := s.machine(node); m != nil {
			out = make([]corev1.Pod, 0, len(m.pods))
			for _, p := range m.pods {
				add(p)
			}
		}
		return out
	}
	for _, p := range s.waiting {
		add(p.pod)
	}
	if byNode {
		return out
	}
	for _, m := range s.machines {
		for _, p := range m.pods {
			add(p)
		}
	}
	return out
}
