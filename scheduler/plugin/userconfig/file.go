// Package userconfig reads a user's own KubeSchedulerConfiguration and checks what the plugins demand of it.
//
// It knows upstream's configuration types, but not upstream's scheduler, so that its fuzzer is built in
// a minute.
package userconfig

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	schedulerconfig "k8s.io/kube-scheduler/config/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"gnnsched/internal/choice"
	"gnnsched/internal/exit"
	"gnnsched/internal/files"
)

// GPUShares is the name of the plugin that assigns devices.
const GPUShares = "GPUShares"

// LearnedDevices is the name of the plugin that allocates the devices of claims, in place of upstream's.
const LearnedDevices = "LearnedDevices"

const upstreamDevices = "DynamicResources"

// File is a user's own KubeSchedulerConfiguration.
type File struct {
	content schedulerconfig.KubeSchedulerConfiguration
}

// Read reads a configuration and rejects unknown fields. Errors have the exit code exit.Usage.
func Read(path string) (*File, error) {
	b, err := files.Read(path, files.Text)
	if err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("scheduler configuration: %w", err), "print one to start from with --print-config")
	}
	return parse(path, b)
}

// parse is Read with the content of the file.
func parse(path string, b []byte) (*File, error) {
	f := &File{}
	for _, x := range []struct {
		check func() error
		hint  string
	}{
		{func() error { return CheckVersion(b) }, VersionHint},
		{func() error { return yaml.UnmarshalStrict(b, &f.content) }, "compare it with what --print-config prints"},
		{f.checkGPUShares,
			"add to its plugins: {multiPoint: {enabled: [{name: GPUShares}]}, bind: {enabled: [{name: GPUShares}, {name: DefaultBinder}]}}"},
		{f.checkLearnedDevices, "add to its plugins: {multiPoint: {disabled: [{name: DynamicResources}]}}"},
		{f.checkCanary, "compare it with what --share 0.05 --print-config prints"},
	} {
		if err := x.check(); err != nil {
			return nil, exit.New(exit.Usage, fmt.Errorf("scheduler configuration %s: %w", path, err), x.hint)
		}
	}
	return f, nil
}

// checkLearnedDevices checks that a profile has LearnedDevices or upstream's DynamicResources, and not both: each would
// allocate, and the pods with claims would stay pending.
func (f *File) checkLearnedDevices() error {
	for i, p := range f.content.Profiles {
		if p.Plugins == nil || !has(p.Plugins.MultiPoint.Enabled, LearnedDevices) {
			continue
		}
		off := p.Plugins.MultiPoint.Disabled
		if !has(off, upstreamDevices) && !has(off, "*") || has(p.Plugins.MultiPoint.Enabled, upstreamDevices) {
			return fmt.Errorf("profile %s has both %s and %s, which would both allocate the devices of a claim",
				f.SchedulerNames()[i], LearnedDevices, upstreamDevices)
		}
	}
	return nil
}

// checkGPUShares checks that all profiles have GPUShares if one has, because they share the nodes'
// devices. GPUShares must be the first binder: its binding writes the devices, and after another
// binder the pod would have none.
func (f *File) checkGPUShares() error {
	if !slices.ContainsFunc(f.content.Profiles, hasGPUShares) {
		return nil
	}
	for i, p := range f.content.Profiles {
		name, plugins := f.SchedulerNames()[i], p.Plugins
		if plugins == nil || !has(plugins.MultiPoint.Enabled, GPUShares) {
			return fmt.Errorf("profile %s lacks %s at multiPoint; the profiles of one process share devices, so all need it", name, GPUShares)
		}
		if b := plugins.Bind.Enabled; len(b) == 0 || b[0].Name != GPUShares {
			return fmt.Errorf("profile %s lacks %s as the first at bind; after another binder a pod gets no devices", name, GPUShares)
		}
		for _, set := range []schedulerconfig.PluginSet{plugins.PreFilter, plugins.Filter, plugins.Reserve} {
			if (has(set.Disabled, GPUShares) || has(set.Disabled, "*")) && !has(set.Enabled, GPUShares) {
				return fmt.Errorf("profile %s disables %s at preFilter, filter or reserve; enable it there", name, GPUShares)
			}
		}
	}
	return nil
}

// hasGPUShares reports whether a profile enables GPUShares at any extension point.
func hasGPUShares(p schedulerconfig.KubeSchedulerProfile) bool {
	return p.Plugins != nil && slices.ContainsFunc([]schedulerconfig.PluginSet{
		p.Plugins.MultiPoint, p.Plugins.PreFilter, p.Plugins.Filter, p.Plugins.Reserve, p.Plugins.Bind,
	}, func(s schedulerconfig.PluginSet) bool { return has(s.Enabled, GPUShares) })
}

// has reports whether the list contains the plugin.
func has(list []schedulerconfig.Plugin, name string) bool {
	return slices.ContainsFunc(list, func(p schedulerconfig.Plugin) bool { return p.Name == name })
}

// Kubeconfig returns the path in the configuration; empty for none.
func (f *File) Kubeconfig() string { return f.content.ClientConnection.Kubeconfig }

// SchedulerNames returns the scheduler names of the profiles, in order. A profile without a name is the default scheduler.
func (f *File) SchedulerNames() []string {
	return choice.Names(f.content.Profiles, func(p schedulerconfig.KubeSchedulerProfile) string {
		return ptr.Deref(p.SchedulerName, corev1.DefaultSchedulerName)
	})
}

// Elects reports whether the scheduler waits for the lease of the leader election. Without a word about it,
// upstream elects.
func (f *File) Elects() bool { return ptr.Deref(f.content.LeaderElection.LeaderElect, true) }

// YAMLFor renders the configuration with the path of another kubeconfig. Profiling is off unless the file
// turns it on; upstream turns it on by default. The lease is ours unless the file names one; upstream's is
// that of the default scheduler.
func (f *File) YAMLFor(kubeconfig string) ([]byte, error) {
	k := f.content
	k.ClientConnection.Kubeconfig = kubeconfig
	k.EnableProfiling = cmp.Or(k.EnableProfiling, ptr.To(false))
	k.LeaderElection.ResourceName = cmp.Or(k.LeaderElection.ResourceName, LeaseName)
	b, err := yaml.Marshal(k)
	if err != nil {
		return nil, fmt.Errorf("encode the scheduler configuration: %w", err)
	}
	return b, nil
}

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

// LeaseName is the name of the leader election's lease. All schedulers of a cluster share it, whatever
// their profiles, because each keeps books of all the cluster's GPU devices.
const LeaseName = "gnnsched"

// ShareLeaseOf returns the name of the lease in kube-system in whose annotations the canary of a scheduler name keeps its state.
func ShareLeaseOf(schedulerName string) string {
	name := LeaseName + "-" + schedulerName
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return fmt.Sprintf("%s-%x", LeaseName, sha256.Sum256([]byte(schedulerName)))
	}
	return name
}

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
