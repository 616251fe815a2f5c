//go:build !service && !k136

package karpenter

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	disruptionutils "sigs.k8s.io/karpenter/pkg/utils/disruption"
	podutils "sigs.k8s.io/karpenter/pkg/utils/pod"
	"sigs.k8s.io/karpenter/pkg/utils/resources"

	"gnnsched/internal/cluster"
)

// view is a state of Karpenter and its code that works on it. Each simulation copies all nodes of the state.
type view struct {
	store       *store
	cluster     *state.Cluster
	provisioner *provisioning.Provisioner
	empty       *disruption.Emptiness
	single      func() *disruption.SingleNodeConsolidation
	multi       func() *disruption.MultiNodeConsolidation
	validators  []disruption.Validator // by method

	// Of an excerpt:
	has        map[string]bool // machines
	at         time.Time
	generation int
}

// newView returns a view of a state that reads a store.
func (s *scaler) newView(from *store, c *state.Cluster) *view {
	v := &view{store: from, cluster: c, provisioner: provisioning.NewProvisioner(from, silent{}, s.provider, c, s.clock, nil, nil)}
	x := disruption.MakeConsolidation(s.clock, c, from, v.provisioner, s.provider, silent{}, s.queue)
	later := disruption.WithValidator(&s.loop.captured)
	v.empty = disruption.NewEmptiness(x, later)
	v.single = func() *disruption.SingleNodeConsolidation { return disruption.NewSingleNodeConsolidation(x, later) }
	v.multi = func() *disruption.MultiNodeConsolidation { return disruption.NewMultiNodeConsolidation(x, later) }
	v.validators = []disruption.Validator{
		disruption.NewEmptinessValidator(x), disruption.NewMultiConsolidationValidator(x), disruption.NewSingleConsolidationValidator(x),
	}
	return v
}

// around returns a view on which Karpenter decides the same about candidates and waiting pods as on the whole cluster. If only room decides
// where the pods go, it lacks the machines that get none of them. left is how many nodes of each pool may go, for validators. The view is
// valid until the next call.
func (s *scaler) around(ctx context.Context, left map[string]int, candidates ...*disruption.Candidate) (*view, error) {
	goes := map[string]bool{}
	for _, c := range candidates {
		goes[c.Name()] = true
	}
	pods := slices.Clone(s.store.waiting)
	for _, m := range s.store.machines {
		if m.apart {
			return s.whole, nil
		}
		if goes[m.name] || m.leaves {
			goes[m.name] = true
			pods = append(pods, m.pods...)
		}
	}
	pods = slices.DeleteFunc(pods, func(e *entry) bool { return podutils.IsOwnedByDaemonSet(e.pod) })
	sizes := map[cluster.Resources]bool{}
	for _, e := range pods {
		if sizes[e.size] = true; !e.plain {
			return s.whole, nil
		}
	}
	in := maps.Clone(goes)
	for size := range sizes {
		s.hosts(size, len(pods), goes, in)
	}
	return s.fill(ctx, in, left)
}

// hosts adds the machines to which a pod of a size may go. Karpenter takes the first that has room, those that boot last. Each of the
// other pods takes the room of one machine at most, so that one of as many as there are pods is sure to be left.
func (s *scaler) hosts(size cluster.Resources, pods int, goes, in map[string]bool) {
	least := size.Plus(cluster.Resources{MilliCPU: 1, Memory: 1}) // quantities are rounded up
	sure := true
	for _, d := range s.store.daemons {
		least, sure = least.Plus(sizeOf(d)), sure && sized(d)
	}
	for _, booted := range []bool{true, false} {
		for _, m := range s.store.machines {
			if (m.node != nil) != booted || goes[m.name] || !size.Within(m.free) {
				continue
			}
			if in[m.name] = true; sure && m.plain && least.Within(m.free) && !disruptionutils.IsUnderConsolidateAfter(m.pool, m.claim, s.clock) {
				if pods--; pods == 0 {
					return
				}
			}
		}
	}
}

// fill makes the excerpt of some machines. Its pools may have as many more machines, and lose as many, as those of the whole. What it has
// from the same time is kept.
func (s *scaler) fill(ctx context.Context, in map[string]bool, left map[string]int) (*view, error) {
	v, c := s.part, s.part.cluster
	*v.store = *s.store
	if now := s.clock.Now(); left != nil || s.generation != v.generation || !now.Equal(v.at) {
		c.Reset()
		v.has, v.at, v.generation = map[string]bool{}, now, s.generation
	}
	for name := range v.has {
		if !in[name] {
			c.DeleteNode(name)
			c.DeleteNodeClaim(name)
			delete(v.has, name)
		}
	}
	for name := range in {
		if m := s.store.machine(name); m != nil && !v.has[name] {
			v.has[name] = true
			if err := s.show(ctx, c, m); err != nil {
				return nil, err
			}
		}
	}
	v.store.pools = slices.Clone(s.store.pools)
	_, going := disruption.NodePoolStatsFromNodes(slices.Collect(c.Nodes()), "")
	for i := range v.store.pools {
		np := &v.store.pools[i]
		others := resources.Subtract(s.cluster.NodePoolResourcesFor(np.Name), c.NodePoolResourcesFor(np.Name))
		np.Spec.Limits = v1.Limits(resources.Subtract(corev1.ResourceList(np.Spec.Limits), others))
		if left != nil {
			np.Spec.Disruption.Budgets = []v1.Budget{{Nodes: strconv.Itoa(left[np.Name] + going[np.Name])}}
		}
	}
	return v, nil
}

// show adds a machine to a state.
func (s *scaler) show(ctx context.Context, c *state.Cluster, m *machine) error {
	if m.claim != nil {
		c.UpdateNodeClaim(m.claim)
	}
	if m.node != nil {
		if err := c.UpdateNode(ctx, m.node); err != nil {
			return err
		}
	}
	if m.leaves {
		c.MarkForDeletion(m.providerID())
	}
	if s.cluster.IsNodeNominated(m.providerID()) {
		c.NominateNodeForPod(ctx, m.providerID())
	}
	return nil
}
