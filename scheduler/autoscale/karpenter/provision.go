//go:build !service && !k136

package karpenter

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	karpenteroptions "sigs.k8s.io/karpenter/pkg/operator/options"
	podutils "sigs.k8s.io/karpenter/pkg/utils/pod"

	"gnnsched/scheduler/autoscale"
)

// retrigger is how often a pod that waits asks for a batch.
const retrigger = 10 * time.Second

// batch is Karpenter's window in which pods are collected.
type batch struct {
	opened  time.Time // zero: no pod asked
	last    time.Time // when a pod asked that had not asked in this window
	solved  int       // generation of the last scheduling run
	expects []string  // identities of the machines that the last run gave pods to
}

// due returns when the window ends, or zero.
func (b *batch) due(o *karpenteroptions.Options) time.Time {
	if b.opened.IsZero() {
		return time.Time{}
	}
	full, idle := b.opened.Add(o.BatchMaxDuration), b.last.Add(o.BatchIdleDuration)
	if idle.Before(full) {
		return idle
	}
	return full
}

// ask opens the window, or extends it.
func (b *batch) ask(now time.Time) {
	if b.opened.IsZero() {
		b.opened = now
	}
	b.last = now
}

// provision starts machines for pods if a batch is complete. Requests extend it that came before its end.
func (s *scaler) provision(ctx context.Context, plan *autoscale.Plan) error {
	for _, at := range s.asks() {
		if err := s.complete(ctx, at, plan); err != nil {
			return err
		}
		s.batch.ask(at)
	}
	return s.complete(ctx, s.now, plan)
}

// complete ends the batch if it is complete at a time.
func (s *scaler) complete(ctx context.Context, at time.Time, plan *autoscale.Plan) error {
	due := s.batch.due(&s.options)
	if due.IsZero() || at.Before(due) {
		return nil
	}
	s.batch.opened = time.Time{}
	return s.schedule(ctx, plan)
}

// asks returns the times since the last step at which pods that wait and machines that leave asked for a batch. A new pod asks as it comes.
func (s *scaler) asks() (out []time.Time) {
	ask := func(trigger *time.Time, at time.Time) {
		if !trigger.IsZero() {
			at = *trigger
		}
		if s.now.Before(at) {
			return
		}
		out = append(out, at)
		if *trigger = at.Add(retrigger); !s.now.Before(*trigger) {
			*trigger = s.now.Add(retrigger)
		}
	}
	for _, p := range s.store.waiting {
		switch came := p.pod.CreationTimestamp.Time; {
		case !podutils.IsProvisionable(p.pod):
			p.trigger = time.Time{}
		case !s.before.IsZero() && came.After(s.before) && came.Before(s.now):
			ask(&p.trigger, came)
		default:
			ask(&p.trigger, s.now)
		}
	}
	for _, m := range s.store.machines {
		if m.claim != nil && m.leaves {
			ask(&m.trigger, s.now)
		}
	}
	slices.SortFunc(out, time.Time.Compare)
	return out
}

// schedule has Karpenter find places for all waiting pods and the pods of machines that leave.
func (s *scaler) schedule(ctx context.Context, plan *autoscale.Plan) error {
	if s.generation == s.batch.solved { // the result would be the same
		for _, id := range s.batch.expects {
			s.cluster.NominateNodeForPod(ctx, id)
		}
		s.nominated()
		return nil
	}
	v, err := s.around(ctx, nil)
	if err != nil {
		return err
	}
	results, err := v.provisioner.Schedule(ctx)
	if err != nil {
		return fmt.Errorf("karpenter: scheduling pods: %w", err)
	}
	s.batch.solved, s.batch.expects = s.generation, nil
	for _, n := range results.ExistingNodes {
		if len(n.Pods) > 0 {
			s.batch.expects = append(s.batch.expects, n.ProviderID())
			s.cluster.NominateNodeForPod(ctx, n.ProviderID())
		}
	}
	if len(s.batch.expects) > 0 {
		s.nominated()
	}
	s.note(results.PodErrors)
	for _, n := range results.NewNodeClaims {
		if _, err := s.launch(n, plan); err != nil {
			s.notes["pool "+n.NodePoolName+": "+err.Error()]++
		}
	}
	return nil
}

// nominated notes that machines may not be disrupted for a while, since pods are expected on them.
func (s *scaler) nominated() {
	s.loop.nominated = s.now.Add(max(2*s.options.BatchMaxDuration, 10*time.Second))
}

// launch starts the machine of a NodeClaim. It returns its name.
func (s *scaler) launch(n *scheduling.NodeClaim, plan *autoscale.Plan) (string, error) {
	np := s.store.pool(n.NodePoolName)
	if err := np.Spec.Limits.ExceededBy(s.cluster.NodePoolResourcesFor(np.Name)); err != nil {
		return "", err
	}
	wanted := n.ToNodeClaim()
	l, err := s.provider.cheapest(wanted)
	if err != nil {
		return "", err
	}
	for l.Name == "" || s.store.machine(l.Name) != nil {
		s.launched[np.Name]++
		l.Name = fmt.Sprintf("%s-%06d", np.Name, s.launched[np.Name])
	}
	l.Pool = np.Name
	claim := s.newClaim(np, l, s.now)
	for key, value := range requirementLabels(wanted.Spec.Requirements) {
		claim.Labels[key] = value
	}
	m := &machine{name: l.Name, pool: np, claim: claim}
	m.measure()
	i, _ := slices.BinarySearchFunc(s.store.machines, m.name, func(m *machine, name string) int { return cmp.Compare(m.name, name) })
	s.store.machines = slices.Insert(s.store.machines, i, m)
	s.cluster.UpdateNodeClaim(claim)
	s.changed()
	plan.Start = append(plan.Start, l)
	return l.Name, nil
}

// notes counts pods by why they found no machine.
type notes map[string]int

// maxNotes bounds the number of different reasons.
const maxNotes = 200

// note counts the pods that Karpenter finds no place for, each once.
func (s *scaler) note(failed map[*corev1.Pod]error) {
	reasons := make(map[types.UID]error, len(failed))
	for p, err := range failed {
		reasons[p.UID] = err
	}
	for _, e := range s.store.waiting {
		err := reasons[e.pod.UID]
		if err == nil || e.noted {
			continue
		}
		e.noted = true
		reason := err.Error()
		if _, is := s.notes[reason]; !is && len(s.notes) >= maxNotes {
			reason = "further reasons"
		}
		s.notes[reason]++
	}
}

// Notes says why pods found no machine when they first asked, the most frequent reason first.
func (s *scaler) Notes() []string {
	reasons := slices.SortedFunc(maps.Keys(s.notes), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.notes[b], s.notes[a]), cmp.Compare(a, b))
	})
	for i, r := range reasons {
		reasons[i] = fmt.Sprintf("%d pods: %s", s.notes[r], r)
	}
	return reasons
}
