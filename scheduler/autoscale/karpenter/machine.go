//go:build !service && !k136

package karpenter

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	disruptionutils "sigs.k8s.io/karpenter/pkg/utils/disruption"
	podutils "sigs.k8s.io/karpenter/pkg/utils/pod"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/scheduler/autoscale"
)

// machine is a node of the cluster. Its NodeClaim and its Node have one name.
type machine struct {
	name   string
	object *corev1.Node  // as the cluster has it; nil: not yet
	node   *corev1.Node  // as Karpenter reads it; nil while a machine of a pool boots
	claim  *v1.NodeClaim // nil: no pool owns it
	pool   *v1.NodePool
	ready  bool
	closed bool

	leaves  bool      // whether Karpenter takes it away
	trigger time.Time // when it asks for a batch again, while it leaves

	pods  []*entry
	fresh bool // whether Karpenter's state lacks some of the pods

	free  cluster.Resources // at most
	plain bool              // whether it takes every plain pod for which it has room
	apart bool              // whether one of its pods keeps others away

	candidate *disruption.Candidate // if it may go, apart from disruption budgets; nil: not known
}

// providerID returns the identity of a machine that Karpenter's state goes by.
func (m *machine) providerID() string { return "gnnsched:///" + m.name }

// update takes over what changed about a machine besides its pods.
func (s *scaler) update(ctx context.Context, m *machine, n *autoscale.Node) error {
	if m.object == n.Object && m.ready == n.Ready && m.closed == n.Closed {
		return nil
	}
	s.changed()
	if m.claim == nil {
		if m.pool = s.store.pool(n.Launch.Pool); m.pool != nil {
			m.claim = s.newClaim(m.pool, n.Launch, n.Started)
			m.claim.Name = m.name
			if n.Launch.Type == "" {
				m.claim.Status.Capacity, m.claim.Status.Allocatable = n.Object.Status.Capacity, n.Object.Status.Allocatable
			}
		}
	}
	m.object, m.ready, m.closed = n.Object, n.Ready, n.Closed
	if m.claim != nil {
		if n.Ready && !m.claim.StatusConditions().Get(v1.ConditionTypeInitialized).IsTrue() {
			m.claim.StatusConditions(status.WithClock(s.clock)).SetTrue(v1.ConditionTypeRegistered)
			m.claim.StatusConditions(status.WithClock(s.clock)).SetTrue(v1.ConditionTypeInitialized)
		}
		s.cluster.UpdateNodeClaim(m.claim)
	}
	if m.claim == nil || n.Ready || m.node != nil {
		m.node = nodeOf(m, n)
		if err := s.cluster.UpdateNode(ctx, m.node); err != nil {
			return err
		}
	}
	m.measure()
	return nil
}

// measure notes what room there is for pods.
func (m *machine) measure() {
	var all corev1.ResourceList
	switch {
	case m.node != nil:
		all = m.node.Status.Allocatable
	case m.claim != nil:
		all = m.claim.Status.Allocatable
	}
	m.free, m.apart, m.candidate = resourcesOf(kube.AmountsIn(all)), false, nil
	m.plain = m.node != nil && m.claim != nil && len(m.node.Spec.Taints) == 0
	for _, e := range m.pods {
		m.free, m.plain = m.free.Minus(e.size), m.plain && e.sized
		m.apart = m.apart || podutils.HasRequiredPodAntiAffinity(e.pod)
	}
}

// isCandidate reports whether m.candidate was made of the node as it is now.
func (m *machine) isCandidate(n *state.StateNode) bool {
	return m.candidate != nil && m.candidate.StateNode == n
}

// newClaim returns the NodeClaim of a machine that was started as l says, without a name.
func (s *scaler) newClaim(np *v1.NodePool, l autoscale.Launch, started time.Time) *v1.NodeClaim {
	t := np.Spec.Template
	claim := t.ToNodeClaim()
	claim.Name, claim.UID, claim.CreationTimestamp = l.Name, types.UID("nodeclaim/"+l.Name), metav1.Time{Time: started}
	claim.Annotations = maps.Clone(t.Annotations)
	claim.Spec.Requirements = nil // nothing reads them of a machine that exists, and Karpenter copies all claims many times a look
	claim.Labels = requirementLabels(t.Spec.Requirements)
	maps.Copy(claim.Labels, t.Labels)
	if typ := s.provider.catalog[l.Type]; typ != nil {
		maps.Copy(claim.Labels, typ.Labels)
		claim.Status.Capacity, claim.Status.Allocatable = typ.Capacity, s.provider.pool(np.Name).Allocatable(typ)
		claim.Labels[corev1.LabelInstanceTypeStable] = l.Type
	}
	claim.Labels[corev1.LabelTopologyZone] = l.Zone // empty for a catalog without zones
	claim.Labels[v1.CapacityTypeLabelKey] = capacityType(l.Spot)
	claim.Labels[v1.NodePoolLabelKey] = np.Name
	claim.Labels[corev1.LabelHostname] = l.Name
	claim.Labels[v1.NodeClassLabelKey(t.Spec.NodeClassRef.GroupKind())] = t.Spec.NodeClassRef.Name
	claim.Status.NodeName, claim.Status.ProviderID = l.Name, "gnnsched:///"+l.Name
	claim.StatusConditions(status.WithClock(s.clock)).SetTrue(v1.ConditionTypeLaunched)
	return claim
}

// priced are the labels by which Karpenter finds the price of a node. A recorded node may have other names in them than the catalog.
var priced = []string{corev1.LabelInstanceTypeStable, corev1.LabelTopologyZone, v1.CapacityTypeLabelKey}

// nodeOf returns the Node of a machine as Karpenter would find it.
func nodeOf(m *machine, n *autoscale.Node) *corev1.Node {
	node := *n.Object
	node.Labels = maps.Clone(node.Labels)
	if node.Labels == nil {
		node.Labels = map[string]string{}
	}
	node.Spec.ProviderID = m.providerID()
	taint := func(key string) {
		node.Spec.Taints = append(node.Spec.Taints[:len(node.Spec.Taints):len(node.Spec.Taints)],
			corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
	}
	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue}
	if !n.Ready {
		ready.Status = corev1.ConditionFalse
		taint(corev1.TaintNodeNotReady)
	}
	node.Status.Conditions = []corev1.NodeCondition{ready}
	if n.Closed {
		taint(corev1.TaintNodeUnschedulable)
	}
	if m.claim == nil {
		return &node
	}
	for key, value := range m.claim.Labels {
		if _, is := node.Labels[key]; !is || slices.Contains(priced, key) {
			node.Labels[key] = value
		}
	}
	node.Labels[v1.NodeRegisteredLabelKey] = "true"
	node.Labels[v1.NodeInitializedLabelKey] = "true"
	return &node
}

// consolidatable brings the condition Consolidatable of a machine up to date. It returns when it will come, or zero.
func (s *scaler) consolidatable(m *machine) time.Time {
	after := m.pool.Spec.Disruption.ConsolidateAfter.Duration
	conditions := m.claim.StatusConditions(status.WithClock(s.clock))
	initialized := conditions.Get(v1.ConditionTypeInitialized)
	has := conditions.Get(v1.ConditionTypeConsolidatable) != nil
	wait := after != nil && disruptionutils.IsUnderConsolidateAfter(m.pool, m.claim, s.clock)
	switch want := after != nil && initialized.IsTrue() && !wait; {
	case want && !has:
		conditions.SetTrue(v1.ConditionTypeConsolidatable)
	case !want && has:
		_ = conditions.Clear(v1.ConditionTypeConsolidatable) // it is not one of those that must stay
	}
	if !wait || !initialized.IsTrue() {
		return time.Time{}
	}
	since := m.claim.Status.LastPodEventTime.Time
	if since.IsZero() {
		since = initialized.LastTransitionTime.Time
	}
	return since.Add(*after)
}
