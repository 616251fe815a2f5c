package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	configlatest "k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"gnnsched/scheduler/plugin/canary"
	"gnnsched/scheduler/plugin/dra"
	"gnnsched/scheduler/policy/preference"
)

// narrow leaves the nodes that may be chosen for the pod: those that are held for it or, if there are none, those that the preferences of
// manifests leave. It settles on one of the alternatives of the pod's claims, among the nodes that are left. All nodes are left to a pod of
// the canary's rest.
func (p *learnedScore) narrow(ctx context.Context, s *scoring) {
	if s.group != canary.Rest {
		p.prefer(ctx, s)
	}
	s.view.claims = s.view.claims.Among(ctx, s.names)
	s.view.claims.Apply(s.view.pod)
}

// prefer removes the nodes that are not held for the pod, if any is, or that preferences do not leave.
func (p *learnedScore) prefer(ctx context.Context, s *scoring) {
	if held := p.nodeReservations.For(s.pod, s.nodes); len(held) > 0 {
		if len(held) < len(s.nodes) {
			s.keep(make([]int64, len(s.nodes)), held)
		}
		return
	}
	if p.preferences == nil || len(s.nodes) == 0 {
		return
	}
	for _, f := range p.preferences.narrow(ctx, s) {
		preferencesFailed.WithLabelValues(p.profile, f.plugin).Inc()
		p.complain(ctx, s, "preference "+f.plugin, f.err, "A preference does not count, because upstream's plugin for it failed")
	}
	p.metrics.preferred.Observe(float64(len(s.nodes)))
}

// keep removes all nodes but those with the given indices, and sets the priority of the feasible nodes.
func (s *scoring) keep(priority []int64, indices []int32) {
	nodes, left := make([]fwk.NodeInfo, 0, len(indices)), make([]int32, 0, len(indices))
	for _, i := range indices {
		nodes, left = append(nodes, s.nodes[i]), append(left, s.feasibleIndex(i))
	}
	s.nodes, s.left, s.priority, s.raw = nodes, left, priority, s.raw[:len(nodes)]
}

// feasibleIndex returns the index of s.nodes[i] in s.feasible.
func (s *scoring) feasibleIndex(i int32) int32 {
	if s.left == nil {
		return i
	}
	return s.left[i]
}

// names yields the names of the nodes that the preferences leave.
func (s *scoring) names(yield func(string) bool) {
	for _, n := range s.nodes {
		if !yield(n.Node().Name) {
			return
		}
	}
}

// name returns the name of a feasible node.
func (s *scoring) name(i int) string { return s.nodes[i].Node().Name }

// preferences narrows the feasible nodes down to those that the preferences of manifests leave to
// the decider. Not safe for concurrent use.
//
// The weighted sum of the scores of NodeAffinity, InterPodAffinity, TaintToleration,
// PodTopologySpread and DynamicResources, which knows the alternatives of claims, comes first, and only nodes with the highest sum are
// left; see preference.Best. The default topology spread of pods that declare none is weighed against the decider's scores; see
// preference.Weigh. Where a network learns from its own choices, it is part of the sum.
//
// ImageLocality cannot be treated like that. Nobody declares it, and a pod that starts on a node
// brings its image there, so the pods of a job would follow the first one until its node is full.
// Upstream prevents this by adding scores for free resources. So of the nodes that are left,
// ImageLocality removes only those that have less of the images than the node that upstream would
// choose.
type preferences struct {
	upstream  *upstream
	summed    []weighted
	spread    []weighted // PodTopologySpread for pods that declare none; empty if it does not count or is summed
	images    []weighted // ImageLocality; empty if it does not count
	resources []weighted // what upstream weighs against it

	sum      []int64 // reused; of each feasible node
	priority []int64 // reused; of each feasible node: the sum first, then its images
	best     []int32 // reused; indices of the nodes to keep
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
			if mode == preference.First {
				p.spread = []weighted{{w.ScorePlugin, 1}}
			}
			declared, err := declaredSpread(ctx, h)
			if err != nil {
				return nil, err
			}
			w.ScorePlugin = declared
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

// narrow removes from s.nodes all nodes but those that the decider may choose. It keeps the priority of
// the feasible nodes in s.priority if it removes any.
func (p *preferences) narrow(ctx context.Context, s *scoring) (failed []pluginError) {
	if len(s.pod.Spec.TopologySpreadConstraints) == 0 && len(p.spread) > 0 {
		s.spread = make([]int64, len(s.nodes))
		failed = p.add(ctx, s, p.spread, s.spread)
		if slices.Max(s.spread) == slices.Min(s.spread) {
			s.spread = nil
		}
	}
	p.sum = append(p.sum[:0], make([]int64, len(s.nodes))...)
	failed = append(failed, p.add(ctx, s, p.summed, p.sum)...)
	p.priority = p.priority[:0]
	for _, v := range p.sum {
		p.priority = append(p.priority, v*(fwk.MaxNodeScore+1))
	}
	p.best = preference.Best(p.sum, p.best[:0])
	if len(p.best) < len(s.nodes) {
		s.keep(p.priority, p.best)
	}
	if len(p.images) > 0 && len(s.nodes) > 1 {
		failed = append(failed, p.narrowByImages(ctx, s)...)
	}
	return failed
}

// narrowByImages removes the nodes that have less of the pod's images than the node that upstream
// would choose among s.nodes.
func (p *preferences) narrowByImages(ctx context.Context, s *scoring) (failed []pluginError) {
	images := make([]int64, len(s.nodes))
	failed = p.add(ctx, s, p.images, images)
	if slices.Max(images) == slices.Min(images) {
		return failed
	}
	totals := slices.Clone(images)
	failed = append(failed, p.add(ctx, s, p.resources, totals)...)
	usual := 0
	for i, v := range totals {
		if v > totals[usual] || v == totals[usual] && images[i] > images[usual] {
			usual = i
		}
	}
	p.best = p.best[:0]
	for i := range images {
		p.priority[s.feasibleIndex(int32(i))] += images[i]
		if images[i] >= images[usual] {
			p.best = append(p.best, int32(i))
		}
	}
	s.keep(p.priority, p.best)
	return failed
}

// add adds the weighted scores of s.nodes to sums. A plugin that fails is left out.
func (p *preferences) add(ctx context.Context, s *scoring, by []weighted, sums []int64) (failed []pluginError) {
	for _, w := range by {
		if idle(w.Name(), s.nodes) || w.Name() == names.DynamicResources && dra.Asked(s.state) == nil {
			continue
		}
		list, err := p.upstream.run(ctx, w, s)
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

// upstream holds the score plugins of kube-scheduler's default profile with their weights. They
// score the nodes if the network or the heuristic fails.
type upstream struct {
	parallel fwk.Parallelizer
	plugins  []weighted
}

type weighted struct {
	fwk.ScorePlugin
	weight int64
}

// newUpstream makes the default profile's score plugins with their default arguments. It makes no second DynamicResources beside the
// profile's own.
func newUpstream(ctx context.Context, h fwk.Handle) (*upstream, error) {
	cfg, err := configlatest.Default()
	if err != nil {
		return nil, fmt.Errorf("default scheduler configuration: %w", err)
	}
	profile := cfg.Profiles[0]
	args := map[string]runtime.Object{}
	for _, c := range profile.PluginConfig {
		args[c.Name] = c.Args
	}
	registry := plugins.NewInTreeRegistry()
	u := &upstream{parallel: h.Parallelizer()}
	for _, p := range profile.Plugins.MultiPoint.Enabled {
		if p.Weight == 0 { // it does not score; VolumeBinding does only with an alpha feature
			continue
		}
		if p.Name == dynamicresources.Name {
			u.plugins = append(u.plugins, weighted{&profileDevices{find: sync.OnceValues(func() (fwk.ScorePlugin, error) { return devicesOf(h) })},
				int64(p.Weight)})
			continue
		}
		made, err := registry[p.Name](ctx, args[p.Name], h)
		if err != nil {
			return nil, fmt.Errorf("make upstream's %s: %w", p.Name, err)
		}
		score, ok := made.(fwk.ScorePlugin)
		if !ok {
			return nil, fmt.Errorf("upstream's %s has a weight but does not score", p.Name)
		}
		u.plugins = append(u.plugins, weighted{score, int64(p.Weight)})
	}
	return u, nil
}

// profileDevices scores with the profile's own DynamicResources, which is LearnedDevices if the profile has it. Upstream's plugin adds an
// index of pods with the profile's name, so a profile can have one instance only. The framework has it once all its plugins are made.
type profileDevices struct {
	find func() (fwk.ScorePlugin, error)
}

var _ fwk.ScorePlugin = &profileDevices{}

// devicesOf returns the instance of the profile that h belongs to.
func devicesOf(h fwk.Handle) (fwk.ScorePlugin, error) {
	if f, is := h.(framework.Framework); is {
		for _, e := range f.EnqueueExtensions() {
			if score, is := e.(fwk.ScorePlugin); is && (e.Name() == dra.Name || e.Name() == dynamicresources.Name) {
				return score, nil
			}
		}
	}
	return nil, fmt.Errorf("the profile has neither %s nor %s", dynamicresources.Name, dra.Name)
}

// Name implements fwk.Plugin.
func (p *profileDevices) Name() string { return dynamicresources.Name }

// Score implements fwk.ScorePlugin.
func (p *profileDevices) Score(ctx context.Context, state fwk.CycleState, pod *v1.Pod, info fwk.NodeInfo) (int64, *fwk.Status) {
	of, err := p.find()
	if err != nil {
		return 0, fwk.AsStatus(err)
	}
	return of.Score(ctx, state, pod, info)
}

// ScoreExtensions implements fwk.ScorePlugin.
func (p *profileDevices) ScoreExtensions() fwk.ScoreExtensions {
	of, err := p.find()
	if err != nil {
		return nil
	}
	return of.ScoreExtensions()
}

// score writes upstream's total score of every node to s.raw. A plugin that fails is left out and
// named in the error: it fails if the profile has its PreFilter part switched off.
func (u *upstream) score(ctx context.Context, s *scoring) error {
	clear(s.raw)
	var failed []error
	for _, p := range u.plugins {
		list, err := u.run(ctx, p, s)
		if err != nil {
			failed = append(failed, fmt.Errorf("upstream's %s: %w", p.Name(), err))
			continue
		}
		for i, n := range list {
			s.raw[i] += float32(n.Score * p.weight)
		}
	}
	return errors.Join(failed...)
}

// run returns one plugin's scores of the nodes, in 0 to 100; nil if the plugin skips the pod.
func (u *upstream) run(ctx context.Context, p weighted, s *scoring) (fwk.NodeScoreList, error) {
	if pre, ok := p.ScorePlugin.(fwk.PreScorePlugin); ok {
		st := pre.PreScore(ctx, s.state, s.pod, s.nodes)
		if st.IsSkip() {
			return nil, nil
		}
		if !st.IsSuccess() {
			return nil, st.AsError()
		}
	}
	list := make(fwk.NodeScoreList, len(s.nodes))
	statuses := make([]*fwk.Status, len(s.nodes))
	u.parallel.Until(ctx, len(s.nodes), func(i int) {
		var score int64
		score, statuses[i] = p.Score(ctx, s.state, s.pod, s.nodes[i])
		list[i] = fwk.NodeScore{Name: s.name(i), Score: score}
	}, "gnnsched/fallback")
	for _, st := range statuses {
		if !st.IsSuccess() {
			return nil, st.AsError()
		}
	}
	if ext := p.ScoreExtensions(); ext != nil {
		if st := ext.NormalizeScore(ctx, s.state, s.pod, list); !st.IsSuccess() {
			return nil, st.AsError()
		}
	}
	return list, nil
}
