package plugin

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"gnnsched/scheduler/plugin/dra"
	"gnnsched/scheduler/policy/preference"
)

// preferences narrows the feasible nodes down to those that the preferences of manifests leave to
// the decider. Not safe for concurrent use.
//
// The weighted sum of the scores of NodeAffinity, InterPodAffinity, TaintToleration,
// PodTopologySpread and DynamicResources, which knows the alternatives of claims, comes first, and only nodes with the highest sum are
// left; see preference.Best.
//
// ImageLocality cannot be treated like that. Nobody declares it, and a pod that starts on a node
// brings its image there, so the pods of a job would follow the first one until its node is full.
// Upstream prevents this by adding scores for free resources. So of the nodes that are left,
// ImageLocality removes only those that have less of the images than the node that upstream would
// choose.
type preferences struct {
	upstream  *upstream
	summed    []weighted
	images    []weighted // ImageLocality; empty if it does not count
	resources []weighted // what upstream weighs against it

	sum  []int64 // reused; of each feasible node
	rank []int64 // reused; of each feasible node: the sum first, then its images
	best []int32 // reused; indices of the nodes to keep
}

// newPreferences returns the preferences of a mode; nil if the plugin has nothing to do with them.
func newPreferences(ctx context.Context, mode preference.Mode, u *upstream, h fwk.Handle) (*preferences, error) {
	if mode != preference.First && mode != preference.Declared {
		return nil, nil
	}
	p := &preferences{upstream: u}
	for _, w := range u.plugins {
		switch w.Name() {
		case names.NodeAffinity, names.InterPodAffinity, names.TaintToleration, names.DynamicResources:
			p.summed = append(p.summed, w)
		case names.PodTopologySpread:
			if mode == preference.Declared {
				declared, err := declaredSpread(ctx, h)
				if err != nil {
					return nil, err
				}
				w.ScorePlugin = declared
			}
			p.summed = append(p.summed, w)
		case names.ImageLocality:
			if mode == preference.First {
				p.images = append(p.images, w)
			}
		case names.NodeResourcesFit, names.NodeResourcesBalancedAllocation:
			p.resources = append(p.resources, w)
		}
	}
	return p, nil
}

// declaredSpread returns upstream's PodTopologySpread without default constraints.
func declaredSpread(ctx context.Context, h fwk.Handle) (fwk.ScorePlugin, error) {
	var args runtime.Object = &config.PodTopologySpreadArgs{DefaultingType: config.ListDefaulting}
	made, err := plugins.NewInTreeRegistry()[names.PodTopologySpread](ctx, args, h)
	if err != nil {
		return nil, fmt.Errorf("make upstream's %s without default constraints: %w", names.PodTopologySpread, err)
	}
	return made.(fwk.ScorePlugin), nil
}

// pluginError is the failure of one plugin, which is left out.
type pluginError struct {
	plugin string
	err    error
}

// narrow removes from s.nodes all nodes but those that the decider may choose. It keeps the rank of
// the feasible nodes in s.rank if it removes any.
func (p *preferences) narrow(ctx context.Context, state fwk.CycleState, s *scoring) (failed []pluginError) {
	p.sum = append(p.sum[:0], make([]int64, len(s.nodes))...)
	failed = p.add(ctx, state, s, p.summed, p.sum)
	p.rank = p.rank[:0]
	for _, v := range p.sum {
		p.rank = append(p.rank, v*(fwk.MaxNodeScore+1))
	}
	p.best = preference.Best(p.sum, p.best[:0])
	if len(p.best) < len(s.nodes) {
		s.keep(p.rank, p.best)
	}
	if len(p.images) > 0 && len(s.nodes) > 1 {
		failed = append(failed, p.narrowByImages(ctx, state, s)...)
	}
	return failed
}

// narrowByImages removes the nodes that have less of the pod's images than the node that upstream
// would choose among s.nodes.
func (p *preferences) narrowByImages(ctx context.Context, state fwk.CycleState, s *scoring) (failed []pluginError) {
	images := make([]int64, len(s.nodes))
	failed = p.add(ctx, state, s, p.images, images)
	if slices.Max(images) == slices.Min(images) {
		return failed
	}
	totals := slices.Clone(images)
	failed = append(failed, p.add(ctx, state, s, p.resources, totals)...)
	usual := 0
	for i, v := range totals {
		if v > totals[usual] || v == totals[usual] && images[i] > images[usual] {
			usual = i
		}
	}
	p.best = p.best[:0]
	for i := range images {
		p.rank[s.feasibleIndex(int32(i))] += images[i]
		if images[i] >= images[usual] {
			p.best = append(p.best, int32(i))
		}
	}
	s.keep(p.rank, p.best)
	return failed
}

// add adds the weighted scores of s.nodes to sums. A plugin that fails is left out.
func (p *preferences) add(ctx context.Context, state fwk.CycleState, s *scoring, by []weighted, sums []int64) (failed []pluginError) {
	for _, w := range by {
		if idle(w.Name(), s.nodes) || w.Name() == names.DynamicResources && dra.Asked(state) == nil {
			continue
		}
		list, err := p.upstream.run(ctx, w, state, s)
		if err != nil {
			failed = append(failed, pluginError{w.Name(), err})
			continue
		}
		for i, n := range list {
			sums[i] += n.Score * w.weight
		}
	}
	return failed
}

// idle reports whether a plugin that never skips a pod gives all nodes the same score, because no
// node has anything that it looks at.
func idle(plugin string, nodes []fwk.NodeInfo) bool {
	switch plugin {
	case names.TaintToleration:
		return !slices.ContainsFunc(nodes, func(n fwk.NodeInfo) bool {
			return slices.ContainsFunc(n.Node().Spec.Taints, func(t v1.Taint) bool { return t.Effect == v1.TaintEffectPreferNoSchedule })
		})
	case names.ImageLocality:
		return !slices.ContainsFunc(nodes, func(n fwk.NodeInfo) bool { return len(n.GetImageStates()) > 0 })
	}
	return false
}
