package server

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/kubeconfig"
)

// Configuration is what kube-scheduler is to read: a [Config], or a person's [File].
type Configuration interface {
	// SchedulerNames lists the names by which pods choose the schedulers.
	SchedulerNames() []string
	// YAMLFor returns the KubeSchedulerConfiguration, with that path of a kubeconfig.
	YAMLFor(kubeconfig string) ([]byte, error)
}

// SchedulerNames lists the names by which pods choose the schedulers.
func (c Config) SchedulerNames() []string {
	var names []string
	for _, p := range c.Profiles {
		names = append(names, p.SchedulerName)
	}
	return names
}

// YAMLFor returns YAML, with that path of a kubeconfig.
func (c Config) YAMLFor(kubeconfig string) ([]byte, error) {
	c.Kubeconfig = kubeconfig
	return c.YAML()
}

// WithoutWeights lists the scheduler names of the profiles whose network has no weights: no
// checkpoint is given and none is shipped. Upstream's scores decide in their place.
func (c Config) WithoutWeights() []string {
	var names []string
	for _, p := range c.Profiles {
		if p.Policy == "" && p.Variant != DefaultProfile && p.Checkpoint == "" && !slices.Contains(checkpoint.ShippedNames(), p.Variant) {
			names = append(names, p.SchedulerName)
		}
	}
	return names
}

// WriteTemporary writes a configuration, and a kubeconfig for the target alone, to temporary
// files, and returns the path of the configuration. The caller must call remove: the files hold
// credentials. kube-scheduler reads them only when it starts.
func WriteTemporary(c Configuration, target kubeconfig.Target) (path string, remove func(), err error) {
	config, removeKubeconfig, err := target.File()
	if err != nil {
		return "", nil, err
	}
	remove = removeKubeconfig
	defer func() {
		if err != nil {
			remove()
		}
	}()
	text, err := c.YAMLFor(config)
	if err != nil {
		return "", nil, err
	}
	f, err := os.CreateTemp("", "gnnsched-*.yaml")
	if err != nil {
		return "", nil, fmt.Errorf("write the scheduler configuration: %w", err)
	}
	remove = func() { removeKubeconfig(); os.Remove(f.Name()) }
	_, err = f.Write(text)
	return f.Name(), remove, errors.Join(err, f.Close())
}
