package userconfig

import (
	"fmt"
	"slices"

	schedulerconfig "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/yaml"
)

// LearnedScore is the name of the plugin that scores by a network or a heuristic.
const LearnedScore = "LearnedScore"

// HasCanary reports whether a profile leaves its network or heuristic a share of the pods only.
func (f *File) HasCanary() bool {
	return slices.ContainsFunc(f.content.Profiles, hasCanary)
}

func hasCanary(p schedulerconfig.KubeSchedulerProfile) bool {
	for _, c := range p.PluginConfig {
		var args struct {
			Share any `json:"share"`
		}
		if c.Name == LearnedScore && yaml.Unmarshal(c.Args.Raw, &args) == nil && args.Share != nil {
			return true
		}
	}
	return false
}

// checkCanary checks that LearnedScore alone scores in a profile with a share, because other scores would count for the
// rest of the pods a second time, and that it hears what becomes of the pods.
func (f *File) checkCanary() error {
	for i, p := range f.content.Profiles {
		if !hasCanary(p) {
			continue
		}
		name := f.SchedulerNames()[i]
		if p.Plugins == nil {
			return fmt.Errorf("profile %s has a share, but does not enable %s", name, LearnedScore)
		}
		s := p.Plugins.Score
		if len(s.Enabled) != 1 || s.Enabled[0].Name != LearnedScore || !has(s.Disabled, "*") {
			return fmt.Errorf("profile %s has a share, so %s must be the only plugin at score", name, LearnedScore)
		}
		for _, at := range []struct {
			point string
			set   schedulerconfig.PluginSet
		}{{"preScore", p.Plugins.PreScore}, {"reserve", p.Plugins.Reserve}, {"postBind", p.Plugins.PostBind}} {
			if !has(at.set.Enabled, LearnedScore) && !has(p.Plugins.MultiPoint.Enabled, LearnedScore) {
				return fmt.Errorf("profile %s has a share, so it needs %s at %s", name, LearnedScore, at.point)
			}
		}
	}
	return nil
}
