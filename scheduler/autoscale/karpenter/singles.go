//go:build !service && !k136

package karpenter

import (
	"context"
	"maps"
	"slices"
	"sort"
	"time"

	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
)

// search holds what singles and multis share.
type search struct {
	*scaler
	totals map[string]disruption.NodePoolTotals
	done   time.Time // Karpenter's state of the cluster in which nothing could be consolidated
}

// IsConsolidated says whether nothing changed since nothing could be consolidated.
func (x *search) IsConsolidated() bool { return x.done.Equal(x.cluster.ConsolidationState()) }

// SetNodePoolTotals implements disruption.NodePoolTotalsSetter.
func (x *search) SetNodePoolTotals(t map[string]disruption.NodePoolTotals) { x.totals = t }

// singles is Karpenter's consolidation of single nodes in a certain order. Karpenter alternates between pools in a random order; here it is
// that of their names. Within a pool it is Karpenter's.
type singles struct {
	*disruption.SingleNodeConsolidation
	search
	limit int    // how many nodes a look tries; 0: all
	after string // the node that the last look ended with, if it reached the limit
}

// ComputeCommands gives Karpenter one candidate at a time, until it has a command to validate.
func (x *singles) ComputeCommands(ctx context.Context, budgets map[string]int, all ...*disruption.Candidate) ([]disruption.Command, error) {
	ordered := x.order(ctx, all)
	constrained, tried := false, 0
	for i, c := range ordered {
		if budgets[c.NodePool.Name] == 0 {
			constrained = true
			continue
		}
		if tried++; x.limit > 0 && tried > x.limit {
			x.after = ordered[i-1].Name()
			return nil, nil
		}
		if x.forbids(ordered[i : i+1]) {
			continue
		}
		v, err := x.around(ctx, nil, c)
		if err != nil {
			return nil, err
		}
		one := v.single()
		one.SetNodePoolTotals(x.totals)
		if cmds, err := one.ComputeCommands(ctx, maps.Clone(budgets), c); err != nil || x.loop.captured.command != nil {
			return cmds, err
		}
	}
	if x.after = ""; !constrained {
		x.done = x.cluster.ConsolidationState()
	}
	return nil, nil
}

// order alternates between the pools, and begins after the node that the last look ended with.
func (x *singles) order(ctx context.Context, all []*disruption.Candidate) []*disruption.Candidate {
	pools := map[string][]*disruption.Candidate{}
	for _, c := range all {
		pools[c.NodePool.Name] = append(pools[c.NodePool.Name], c)
	}
	for name, candidates := range pools {
		pools[name] = x.SortCandidates(ctx, candidates)
	}
	names := slices.Sorted(maps.Keys(pools))
	out := make([]*disruption.Candidate, 0, len(all))
	for i := 0; len(out) < len(all); i++ {
		for _, name := range names {
			if i < len(pools[name]) {
				out = append(out, pools[name][i])
			}
		}
	}
	if i := slices.IndexFunc(out, func(c *disruption.Candidate) bool { return c.Name() == x.after }); i >= 0 {
		out = slices.Concat(out[i+1:], out[:i+1])
	}
	return out
}

// multis is Karpenter's consolidation of several nodes into one, without the first tries of its search that are sure to fail.
type multis struct {
	*disruption.MultiNodeConsolidation
	search
}

// mostMulti is the number of nodes that Karpenter's search begins with, at most.
const mostMulti = 100

// ComputeCommands gives Karpenter the candidates with which its binary search goes on after the tries that are sure to fail.
func (x *multis) ComputeCommands(ctx context.Context, budgets map[string]int, all ...*disruption.Candidate) ([]disruption.Command, error) {
	sort.Slice(all, func(i, j int) bool { return all[i].SavingsRatio() > all[j].SavingsRatio() }) // as Karpenter does
	left, constrained := maps.Clone(budgets), false
	able := slices.DeleteFunc(all, func(c *disruption.Candidate) bool {
		if left[c.NodePool.Name] == 0 {
			constrained = true
			return true
		}
		left[c.NodePool.Name]--
		return false
	})
	last := min(mostMulti, len(able)-1)
	for last >= 1 && x.forbids(able[:(1+last)/2+1]) {
		last = (1+last)/2 - 1
	}
	if last >= 1 {
		v, err := x.around(ctx, nil, able[:last+1]...)
		if err != nil {
			return nil, err
		}
		several := v.multi()
		several.SetNodePoolTotals(x.totals)
		if cmds, err := several.ComputeCommands(ctx, budgets, able[:last+1]...); err != nil || x.loop.captured.command != nil {
			return cmds, err
		}
	}
	if !constrained {
		x.done = x.cluster.ConsolidationState()
	}
	return nil, nil
}
