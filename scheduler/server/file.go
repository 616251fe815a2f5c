package server

import (
	"fmt"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulerconfig "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/yaml"

	"gnnsched/internal/exit"
	"gnnsched/scheduler/plugin"
)

// File is a user's own KubeSchedulerConfiguration.
type File struct {
	content schedulerconfig.KubeSchedulerConfiguration
}

// ReadFile decodes a configuration strictly; errors carry exit code 2.
func ReadFile(path string) (*File, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("scheduler configuration: %w", err), "print one to start from with --print-config")
	}
	f := &File{}
	if err := yaml.UnmarshalStrict(b, &f.content); err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("scheduler configuration %s: %w", path, err), "compare it with what --print-config prints")
	}
	if err := f.checkShares(); err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("scheduler configuration %s: %w", path, err),
			"add to its plugins: {multiPoint: {enabled: [{name: GPUShares}]}, bind: {enabled: [{name: GPUShares}, {name: DefaultBinder}]}}")
	}
	return f, nil
}

// checkShares checks that where one profile keeps the books of GPU devices, all do: they share
// their nodes. And that it binds before any other binder, which would leave a pod without its
// devices: the binding brings them.
func (f *File) checkShares() error {
	if !slices.ContainsFunc(f.content.Profiles, keepsShares) {
		return nil
	}
	for i, p := range f.content.Profiles {
		name, plugins := f.SchedulerNames()[i], p.Plugins
		if plugins == nil || !has(plugins.MultiPoint.Enabled, plugin.GPUSharesName) {
			return fmt.Errorf("profile %s lacks %s at multiPoint, and the profiles of one process share devices", name, plugin.GPUSharesName)
		}
		if b := plugins.Bind.Enabled; len(b) == 0 || b[0].Name != plugin.GPUSharesName {
			return fmt.Errorf("profile %s lacks %s as the first at bind; after another binder no pod is told its devices", name, plugin.GPUSharesName)
		}
		for _, set := range []schedulerconfig.PluginSet{plugins.PreFilter, plugins.Filter, plugins.Reserve} {
			if (has(set.Disabled, plugin.GPUSharesName) || has(set.Disabled, "*")) && !has(set.Enabled, plugin.GPUSharesName) {
				return fmt.Errorf("profile %s disables %s at preFilter, filter or reserve; leave it on", name, plugin.GPUSharesName)
			}
		}
	}
	return nil
}

// keepsShares tells whether a profile names GPUShares anywhere that matters.
func keepsShares(p schedulerconfig.KubeSchedulerProfile) bool {
	return p.Plugins != nil && slices.ContainsFunc([]schedulerconfig.PluginSet{
		p.Plugins.MultiPoint, p.Plugins.PreFilter, p.Plugins.Filter, p.Plugins.Reserve, p.Plugins.Bind,
	}, func(s schedulerconfig.PluginSet) bool { return has(s.Enabled, plugin.GPUSharesName) })
}

func has(list []schedulerconfig.Plugin, name string) bool {
	return slices.ContainsFunc(list, func(p schedulerconfig.Plugin) bool { return p.Name == name })
}

// Kubeconfig is the file that the configuration names; empty for none.
func (f *File) Kubeconfig() string { return f.content.ClientConnection.Kubeconfig }

// SchedulerNames are the names that pods choose its profiles by.
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

// YAMLFor renders the configuration with the given kubeconfig in place of its own.
func (f *File) YAMLFor(kubeconfig string) ([]byte, error) {
	k := f.content
	k.ClientConnection.Kubeconfig = kubeconfig
	b, err := yaml.Marshal(k)
	if err != nil {
		return nil, fmt.Errorf("encode the scheduler configuration: %w", err)
	}
	return b, nil
}
