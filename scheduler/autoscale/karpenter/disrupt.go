//go:build !service && !k136

package karpenter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
	"sigs.k8s.io/karpenter/pkg/utils/pdb"

	"gnnsched/scheduler/autoscale"
)

// refresh is the time after which Karpenter examines even a cluster that did not change.
const refresh = 5 * time.Minute

// loop is Karpenter's loop over its methods of disruption.
type loop struct {
	poll     time.Duration
	methods  []consolidation
	singles  singles
	captured capture

	next      time.Time // of the ticks at which Karpenter looks
	proposal  *proposal // what waits to be validated; nothing else is proposed meanwhile
	examined  int       // generation of the last look that found nothing
	reason    time.Time // since when, or from when on, a look may find something else; zero: never
	again     bool      // whether that is for Karpenter's refresh only
	nominated time.Time // until when machines are kept since pods are expected on them
}

// consolidation is one of Karpenter's methods of disruption.
type consolidation interface {
	disruption.Method
	disruption.NodePoolTotalsSetter
	IsConsolidated() bool // whether nothing changed since the method found nothing
}

// capture takes a command instead of the validator, which would wait.
type capture struct {
	command *disruption.Command
	delay   time.Duration
}

// Validate implements disruption.Validator.
func (c *capture) Validate(_ context.Context, cmd disruption.Command, delay time.Duration) (disruption.Command, error) {
	c.command, c.delay = &cmd, delay
	return disruption.Command{}, disruption.NewValidationError(errors.New("it is validated later"))
}

// proposal is a command of a method that is validated at a time.
type proposal struct {
	disruption.Command
	method int
	due    time.Time
}

// methods returns Karpenter's methods in its order, as a view its validators. Nothing drifts here, and no pool has a fixed size.
func (s *scaler) methods() []consolidation {
	s.loop.singles.SingleNodeConsolidation, s.loop.singles.scaler = s.whole.single(), s
	return []consolidation{s.whole.empty, &multis{s.whole.multi(), search{scaler: s}}, &s.loop.singles}
}

// Yield implements autoscale.Yielder.
func (s *scaler) Yield() {
	s.yielded = s.loop.methods[1]
	s.loop.methods = s.loop.methods[:1]
}

// MayGo implements autoscale.Yielder: Karpenter's candidates for consolidation, and the budgets of its pools.
func (s *scaler) MayGo(ctx context.Context, _ *autoscale.Cluster) (nodes []string, most map[string]int, err error) {
	wellKnown.RLock()
	defer wellKnown.RUnlock()
	ctx, m := s.context(ctx), s.yielded
	for _, x := range s.store.machines {
		if x.claim != nil && !x.leaves {
			s.consolidatable(x)
		}
	}
	all, _, err := s.candidates(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("karpenter: candidates: %w", err)
	}
	for _, c := range all {
		if m.ShouldDisrupt(ctx, c) {
			nodes = append(nodes, c.Name())
		}
	}
	most, err = s.budgets(ctx, m.Reason())
	return nodes, most, err
}

// candidates returns Karpenter's candidates by name, and the totals of pools if it needs any.
func (s *scaler) candidates(ctx context.Context) (out []*disruption.Candidate, totals map[string]disruption.NodePoolTotals, err error) {
	if slices.ContainsFunc(s.store.pools, func(np v1.NodePool) bool { return np.Spec.Disruption.ConsolidationPolicy.IsBalanced() }) {
		out, totals, err = disruption.GetCandidatesWithTotals(ctx, s.cluster, s.store, silent{}, s.clock, s.provider,
			func(context.Context, *disruption.Candidate) bool { return true }, disruption.GracefulDisruptionClass, s.queue, nil)
	} else { // the same without a copy of all nodes
		pools, types, failed := disruption.BuildNodePoolMap(ctx, s.store, s.provider)
		limits, without := pdb.NewLimits(ctx, s.store)
		if err := cmp.Or(failed, without); err != nil {
			return nil, nil, err
		}
		for n := range s.cluster.Nodes() {
			m := s.store.machine(n.Name())
			if !m.isCandidate(n) || len(s.store.budgets) > 0 {
				m.candidate, _ = disruption.NewCandidate(ctx, s.store, silent{}, s.clock, n, limits, pools, types, s.queue,
					disruption.GracefulDisruptionClass)
			}
			if m.candidate != nil && !s.queue.HasAny(n.ProviderID()) && n.ValidateNodeDisruptable(s.clock) == nil {
				out = append(out, m.candidate)
			}
		}
	}
	slices.SortFunc(out, func(a, b *disruption.Candidate) int { return strings.Compare(a.Name(), b.Name()) })
	return out, totals, err
}

// budgets returns how many nodes of each pool may go.
func (s *scaler) budgets(ctx context.Context, why v1.DisruptionReason) (map[string]int, error) {
	pools, _, err := disruption.BuildNodePoolMap(ctx, s.store, s.provider)
	nodes, going := disruption.NodePoolStatsFromNodes(slices.Collect(s.cluster.Nodes()), why)
	return disruption.NodePoolBudgetMap(ctx, s.clock, pools, nodes, going, why), err
}

// due returns when the loop has something to do, or zero.
func (l *loop) due() time.Time {
	switch {
	case l.proposal != nil:
		return l.proposal.due
	case l.reason.IsZero():
		return l.reason
	}
	return l.tick()
}

// tick returns the first tick from the reason on.
func (l *loop) tick() time.Time {
	if late := l.reason.Sub(l.next); late > 0 { // looks before found nothing, as the last one
		return l.next.Add((late + l.poll - 1) / l.poll * l.poll)
	}
	return l.next
}

// disrupt runs the loop as far as it is due.
func (s *scaler) disrupt(ctx context.Context, plan *autoscale.Plan) error {
	l := &s.loop
	if p := l.proposal; p != nil {
		if s.now.Before(p.due) {
			return nil
		}
		l.proposal = nil
		cmd, err := s.validate(ctx, p)
		if err == nil {
			s.execute(ctx, &cmd, plan)
			return s.look(ctx, 0)
		}
		if !disruption.IsValidationError(err) {
			return fmt.Errorf("karpenter: validating a command: %w", err)
		}
		return s.look(ctx, p.method+1)
	}
	if s.generation != l.examined && (l.reason.IsZero() || s.now.Before(l.reason)) {
		l.reason = s.now
	}
	if l.reason.IsZero() || s.now.Before(l.tick()) {
		return nil
	}
	return s.look(ctx, 0)
}

// validate has Karpenter validate a proposal.
func (s *scaler) validate(ctx context.Context, p *proposal) (disruption.Command, error) {
	left, err := s.budgets(ctx, s.loop.methods[p.method].Reason())
	if err != nil {
		return p.Command, err
	}
	v, err := s.around(ctx, left, p.Candidates...)
	if err != nil {
		return p.Command, err
	}
	return v.validators[p.method].Validate(ctx, p.Command, 0)
}

// look tries the methods from one on, until one proposes a command.
func (s *scaler) look(ctx context.Context, from int) error {
	l := &s.loop
	var wake time.Time
	for _, m := range s.store.machines {
		if m.claim != nil && !m.leaves {
			wake = sooner(wake, s.consolidatable(m))
		}
	}
	if l.nominated.After(s.now) {
		wake = sooner(wake, l.nominated)
	}
	seen := &reading{budgets: map[v1.DisruptionReason]map[string]int{}}
	for i := from; i < len(l.methods); i++ {
		cmd, err := s.propose(ctx, l.methods[i], seen)
		if err != nil {
			return fmt.Errorf("karpenter: %s: %w", l.methods[i].Reason(), err)
		}
		if cmd != nil {
			l.proposal = &proposal{*cmd, i, s.now.Add(l.captured.delay)}
			return nil
		}
	}
	if l.singles.after != "" || from > 0 { // the look did not try all
		wake = s.now
	}
	onlyRefresh := l.again && s.generation == l.examined
	if l.again = wake.IsZero() && !onlyRefresh; l.again {
		wake = s.now.Add(refresh)
	}
	l.examined, l.reason, l.next = s.generation, wake, s.now.Add(l.poll)
	return nil
}

// reading is Karpenter's candidates at one time, which the methods share.
type reading struct {
	candidates []*disruption.Candidate // nil: not yet read
	totals     map[string]disruption.NodePoolTotals
	budgets    map[v1.DisruptionReason]map[string]int
}

// propose returns the command that a method would validate, or nil.
func (s *scaler) propose(ctx context.Context, m consolidation, seen *reading) (cmd *disruption.Command, err error) {
	if m.IsConsolidated() {
		return nil, nil
	}
	if seen.candidates == nil { // all methods are of one class
		if seen.candidates, seen.totals, err = s.candidates(ctx); err != nil {
			return nil, err
		}
	}
	var candidates []*disruption.Candidate
	for _, c := range seen.candidates {
		if m.ShouldDisrupt(ctx, c) {
			candidates = append(candidates, c)
		}
	}
	if len(candidates) == 0 {
		return nil, nil
	}
	budgets := seen.budgets[m.Reason()]
	if budgets == nil {
		if budgets, err = s.budgets(ctx, m.Reason()); err != nil {
			return nil, err
		}
		seen.budgets[m.Reason()] = budgets
	}
	m.SetNodePoolTotals(seen.totals)
	s.loop.captured.command = nil
	_, err = m.ComputeCommands(ctx, maps.Clone(budgets), candidates...)
	return s.loop.captured.command, err
}

// command is a command of Karpenter that waits for its replacements.
type command struct {
	disruption.Command
	replacements []string
}

// execute starts the replacements of a command and closes its candidates. Without replacements, the candidates go at once.
func (s *scaler) execute(ctx context.Context, cmd *disruption.Command, plan *autoscale.Plan) {
	c := &command{Command: *cmd}
	c.CreationTimestamp = s.now
	slices.SortFunc(c.Candidates, func(a, b *disruption.Candidate) int { return strings.Compare(a.Name(), b.Name()) })
	for _, r := range c.Replacements {
		name, err := s.launch(r.NodeClaim, plan)
		if err != nil { // a command has one replacement at most: nothing has to be taken back
			s.notes["pool "+r.NodePoolName+": replacing nodes: "+err.Error()]++
			return
		}
		c.replacements = append(c.replacements, name)
	}
	for _, n := range c.Candidates {
		if m := s.store.machine(n.Name()); m != nil {
			s.close(m, plan)
			s.queue.ProviderIDToCommand[m.providerID()] = &c.Command
		}
	}
	c.Results.Record(ctx, silent{}, s.cluster)
	s.nominated()
	s.commands = append(s.commands, c)
	s.finish(plan)
}

// finish removes the candidates of commands whose replacements are ready. Candidates of a command that lost a replacement, or waited too
// long for it, take pods again.
func (s *scaler) finish(plan *autoscale.Plan) {
	s.commands = slices.DeleteFunc(s.commands, func(c *command) bool {
		failed := s.now.Sub(c.CreationTimestamp) > s.queue.GetMaxRetryDuration()
		for _, name := range c.replacements {
			m := s.store.machine(name)
			if failed = failed || m == nil; failed {
				break
			}
			if !m.claim.StatusConditions().Get(v1.ConditionTypeInitialized).IsTrue() {
				return false
			}
		}
		for _, n := range c.Candidates {
			m := s.store.machine(n.Name())
			switch {
			case m == nil:
			case failed:
				m.leaves = false
				plan.Open = append(plan.Open, m.name)
			default:
				plan.Remove = append(plan.Remove, m.name)
			}
		}
		c.Succeeded = !failed
		s.queue.CompleteCommand(&c.Command)
		s.changed()
		return true
	})
}
