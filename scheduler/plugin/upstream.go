package plugin

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	configlatest "k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
)

// upstream is the score plugins of kube-scheduler's default profile with their weights, run
// in place of the network when that has nothing to say.
type upstream struct {
	parallel fwk.Parallelizer
	plugins  []weighted
}

type weighted struct {
	fwk.ScorePlugin
	weight int64
}

// newUpstream makes the default profile's score plugins. They are of this instance alone,
// with the default arguments.
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
		if p.Weight == 0 { // it does not score, or (VolumeBinding) scores nothing unless an alpha feature is on
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

// score writes upstream's total score of every node to raw. A plugin that fails is left out
// of it, and is part of the error: a profile may have that plugin's other half switched off.
func (u *upstream) score(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo, raw []float32) error {
	clear(raw)
	var failed []error
	for _, p := range u.plugins {
		list, err := u.run(ctx, p, state, pod, nodes)
		if err != nil {
			failed = append(failed, fmt.Errorf("upstream's %s: %w", p.Name(), err))
			continue
		}
		for i, s := range list {
			raw[i] += float32(s.Score * p.weight)
		}
	}
	return errors.Join(failed...)
}

// run returns one plugin's scores of nodes, in 0 to 100; nil where it has nothing to say.
func (u *upstream) run(ctx context.Context, p weighted, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (fwk.NodeScoreList, error) {
	if pre, ok := p.ScorePlugin.(fwk.PreScorePlugin); ok {
		st := pre.PreScore(ctx, state, pod, nodes)
		if st.IsSkip() {
			return nil, nil
		}
		if !st.IsSuccess() {
			return nil, st.AsError()
		}
	}
	list := make(fwk.NodeScoreList, len(nodes))
	statuses := make([]*fwk.Status, len(nodes))
	u.parallel.Until(ctx, len(nodes), func(i int) {
		var s int64
		s, statuses[i] = p.Score(ctx, state, pod, nodes[i])
		list[i] = fwk.NodeScore{Name: nodes[i].Node().Name, Score: s}
	}, "gnnsched/fallback")
	for _, st := range statuses {
		if !st.IsSuccess() {
			return nil, st.AsError()
		}
	}
	if ext := p.ScoreExtensions(); ext != nil {
		if st := ext.NormalizeScore(ctx, state, pod, list); !st.IsSuccess() {
			return nil, st.AsError()
		}
	}
	return list, nil
}
