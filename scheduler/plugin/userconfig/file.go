package server

import (
	"fmt"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulerconfig "k8s.io/kube-scheduler/config/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"gnnsched/internal/exit"
	"gnnsched/scheduler/plugin"
)

// File is a user's own KubeSchedulerConfiguration.
type File struct {
	content schedulerconfig.KubeSchedulerConfiguration
}

// ReadFile reads a configuration and rejects unknown fields. Errors have the exit code exit.Usage.
func ReadFile(path string) (*File, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("scheduler configuration: %w", err), "print one to start from with --print-config")
	}
	return parseFile(path, b)
}

// parseFile is ReadFile with the content of the file.
func parseFile(path string, b []byte) (*File, error) {
	f := &File{}
	if err := yaml.UnmarshalStrict(b, &f.content); err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("scheduler configuration %s: %w", path, err), "compare it with what --print-config prints")
	}
	if err := f.checkGPUShares(); err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("scheduler configuration %s: %w", path, err),
			"add to its plugins: {multiPoint: {enabled: [{name: GPUShares}]}, bind: {enabled: [{name: GPUShares}, {name: DefaultBinder}]}}")
	}
	return f, nil
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
		if plugins == nil || !has(plugins.MultiPoint.Enabled, plugin.GPUSharesName) {
			return fmt.Errorf("profile %s lacks %s at multiPoint; the profiles of one process share devices, so all need it", name, plugin.GPUSharesName)
		}
		if b := plugins.Bind.Enabled; len(b) == 0 || b[0].Name != plugin.GPUSharesName {
			return fmt.Errorf("profile %s lacks %s as the first at bind; after another binder a pod gets no devices", name, plugin.GPUSharesName)
		}
		for _, set := range []schedulerconfig.PluginSet{plugins.PreFilter, plugins.Filter, plugins.Reserve} {
			if (has(set.Disabled, plugin.GPUSharesName) || has(set.Disabled, "*")) && !has(set.Enabled, plugin.GPUSharesName) {
				return fmt.Errorf("profile %s disables %s at preFilter, filter or reserve; enable it there", name, plugin.GPUSharesName)
			}
		}
	}
	return nil
}

// hasGPUShares reports whether a profile enables GPUShares at any extension point.
func hasGPUShares(p schedulerconfig.KubeSchedulerProfile) bool {
	return p.Plugins != nil && slices.ContainsFunc([]schedulerconfig.PluginSet{
		p.Plugins.MultiPoint, p.Plugins.PreFilter, p.Plugins.Filter, p.Plugins.Reserve, p.Plugins.Bind,
	}, func(s schedulerconfig.PluginSet) bool { return has(s.Enabled, plugin.GPUSharesName) })
}

// has reports whether the list contains the plugin.
func has(list []schedulerconfig.Plugin, name string) bool {
	return slices.ContainsFunc(list, func(p schedulerconfig.Plugin) bool { return p.Name == name })
}

// Kubeconfig returns the path in the configuration; empty for none.
func (f *File) Kubeconfig() string { return f.content.ClientConnection.Kubeconfig }

// SchedulerNames implements Configuration. A profile without a name is the default scheduler.
func (f *File) SchedulerNames() []string {
	var names []string
	for _, p := range f.content.Profiles {
		name := corev1.DefaultSchedulerName
		if p.SchedulerName != nil {
			name = *p.SchedulerName
		}
		names = append(names, name)
	}
	return names
}

// YAMLFor implements Configuration. Profiling is off unless the file turns it on; upstream turns it on
// by default.
func (f *File) YAMLFor(kubeconfig string) ([]byte, error) {
	k := f.content
	k.ClientConnection.Kubeconfig = kubeconfig
	if k.EnableProfiling == nil {
		k.EnableProfiling = ptr.To(false)
	}
	b, err := yaml.Marshal(k)
	if err != nil {
		return nil, fmt.Errorf("encode the scheduler configuration: %w", err)
	}
	return b, nil
}
