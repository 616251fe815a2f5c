package plugin

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	configlatest "k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"

	"gnnsched/scheduler/plugin/dra"
)

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
func (u *upstream) score(ctx context.Context, state fwk.CycleState, s *scoring) error {
	clear(s.raw)
	var failed []error
	for _, p := range u.plugins {
		list, err := u.run(ctx, p, state, s)
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
func (u *upstream) run(ctx context.Context, p weighted, state fwk.CycleState, s *scoring) (fwk.NodeScoreList, error) {
	if pre, ok := p.ScorePlugin.(fwk.PreScorePlugin); ok {
		st := pre.PreScore(ctx, state, s.pod, s.nodes)
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
		score, statuses[i] = p.Score(ctx, state, s.pod, s.nodes[i])
		list[i] = fwk.NodeScore{Name: s.name(i), Score: score}
	}, "gnnsched/fallback")
	for _, st := range statuses {
		if !st.IsSuccess() {
			return nil, st.AsError()
		}
	}
	if ext := p.ScoreExtensions(); ext != nil {
		if st := ext.NormalizeScore(ctx, state, s.pod, list); !st.IsSuccess() {
			return nil, st.AsError()
		}
	}
	return list, nil
}

// choice returns the index in ours.feasible of the node with upstream's highest total score, and the number of nodes
// that have it. Of tied ones it is the node that ours scored best, and the first by name of those. It leaves state and ours as they are.
func (u *upstream) choice(state fwk.CycleState, ours *scoring) (at, ties int, err error) {
	theirs := &scoring{pod: ours.pod, nodes: ours.feasible, raw: make([]float32, len(ours.feasible))}
	if err := u.score(context.Background(), state.Clone(), theirs); err != nil {
		return 0, 0, err
	}
	worth := make([]float64, len(ours.feasible))
	for i := range worth {
		worth[i] = math.Inf(-1) // the preferences kept the node from the decider
	}
	for i, v := range ours.raw {
		worth[ours.feasibleIndex(int32(i))] = float64(v)
	}
	at, most := -1, slices.Max(theirs.raw)
	for i, v := range theirs.raw {
		if v < most {
			continue
		}
		ties++
		// The filters run in parallel, so the order of the feasible nodes is not always the same.
		if at < 0 || worth[i] > worth[at] || worth[i] == worth[at] && ours.feasible[i].Node().Name < ours.feasible[at].Node().Name {
			at = i
		}
	}
	return at, ties, nil
}

// allowance is a share of the time, which asking the default profile may take.
type allowance struct {
	share  float64 // 0 for none, 1 for all
	earned time.Duration
	until  time.Time // that it is earned for
}

// maxEarned bounds what an idle scheduler saves up, and so the share of a busy time.
const maxEarned = 50 * time.Millisecond

// open reports whether something may be spent now.
func (a *allowance) open(now time.Time) bool {
	if a.share >= 1 {
		return true
	}
	if !a.until.IsZero() {
		a.earned = min(a.earned+time.Duration(a.share*float64(now.Sub(a.until))), maxEarned)
	}
	a.until = now
	return a.share > 0 && a.earned >= 0
}

// spend takes what was spent off what was earned.
func (a *allowance) spend(took time.Duration) { a.earned -= took }
