package userconfig

import (
	"fmt"
	"slices"
	"strings"

	schedulerconfig "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/yaml"
)

// removed are plugins that earlier versions of the configuration had, and what v1 has instead.
var removed = map[string]string{
	"NodeResourcesLeastAllocated": "NodeResourcesFit with the scoringStrategy LeastAllocated",
	"NodeResourcesMostAllocated":  "NodeResourcesFit with the scoringStrategy MostAllocated",
	"RequestedToCapacityRatio":    "NodeResourcesFit with the scoringStrategy RequestedToCapacityRatio",
	"SelectorSpread":              "PodTopologySpread with its default constraints",
	"NodeLabel":                   "NodeAffinity",
	"ServiceAffinity":             "InterPodAffinity",
	"NodePreferAvoidPods":         "taints",
	"AzureDiskLimits":             "NodeVolumeLimits",
	"CinderLimits":                "NodeVolumeLimits",
	"EBSLimits":                   "NodeVolumeLimits",
	"GCEPDLimits":                 "NodeVolumeLimits",
}

// outline is the part of a configuration of any version that tells whether it is outdated.
type outline struct {
	APIVersion string `json:"apiVersion"`
	Profiles   []struct {
		Plugins      map[string]struct{ Enabled, Disabled []named } `json:"plugins"`
		PluginConfig []named                                        `json:"pluginConfig"`
	} `json:"profiles"`
}

type named struct {
	Name string `json:"name"`
}

// CheckVersion returns an error if a configuration is of another version than v1, or enables plugins that v1 lacks. It names those plugins
// and what there is instead. What is no YAML, has no version or is of another group is left to the decoder.
func CheckVersion(text []byte) error {
	var o outline
	if yaml.Unmarshal(text, &o) != nil {
		return nil
	}
	group, _, grouped := strings.Cut(o.APIVersion, "/")
	if o.APIVersion != "" && (!grouped || group != schedulerconfig.GroupName) {
		return nil
	}
	v1 := schedulerconfig.SchemeGroupVersion.String()
	other := o.APIVersion != "" && o.APIVersion != v1
	gone := map[string]bool{}
	note := func(all []named) {
		for _, p := range all {
			if removed[p.Name] != "" {
				gone[p.Name] = true
			}
		}
	}
	for _, p := range o.Profiles {
		for _, set := range p.Plugins {
			note(set.Enabled)
			if other {
				note(set.Disabled)
			}
		}
		note(p.PluginConfig)
	}
	var instead []string
	for name := range gone {
		instead = append(instead, name+" (now "+removed[name]+")")
	}
	slices.Sort(instead)
	plugins := ""
	if len(instead) > 0 {
		plugins = "v1 has no plugins " + strings.Join(instead, ", ")
	}
	switch {
	case other && plugins != "":
		return fmt.Errorf("its apiVersion is %s, and only %s is read; %s", o.APIVersion, v1, plugins)
	case other:
		return fmt.Errorf("its apiVersion is %s, and only %s is read; all its plugins are still there", o.APIVersion, v1)
	case plugins != "":
		return fmt.Errorf("%s", plugins)
	}
	return nil
}

// VersionHint is the next step after an error of CheckVersion.
const VersionHint = "replace plugins that are gone, and write apiVersion: kubescheduler.config.k8s.io/v1, " +
	"which kube-scheduler has read since Kubernetes 1.25"
