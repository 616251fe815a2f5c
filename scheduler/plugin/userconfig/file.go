// Package userconfig reads a user's own KubeSchedulerConfiguration and checks what the plugins demand of it.
//
// It knows upstream's configuration types, but not upstream's scheduler, so that its fuzzer is built in
// a minute.
package userconfig

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
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
