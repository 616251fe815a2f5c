package server

import (
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	schedulerconfig "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/yaml"

	"gnnsched/internal/exit"
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
	return f, nil
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

// YAML renders the configuration with the given kubeconfig in place of its own.
func (f *File) YAML(kubeconfig string) ([]byte, error) {
	k := f.content
	k.ClientConnection.Kubeconfig = kubeconfig
	b, err := yaml.Marshal(k)
	if err != nil {
		return nil, fmt.Errorf("encode the scheduler configuration: %w", err)
	}
	return b, nil
}
