//go:build !service && !k136

package karpenter

import (
	"context"
	"slices"
	"strings"

	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"

	"gnnsched/scheduler/autoscale"
)

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
				m.ours, m.leaves = false, false
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
