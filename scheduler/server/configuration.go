package server

import (
	"fmt"
	"slices"

	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/choice"
	"gnnsched/internal/files"
	"gnnsched/internal/kubeconfig"
)

// Configuration is a kube-scheduler's configuration: a [Config] or a user's [userconfig.File].
type Configuration interface {
	// SchedulerNames returns the scheduler names of the profiles, in order.
	SchedulerNames() []string
	// Elects reports whether the scheduler waits for the lease of the leader election.
	Elects() bool
	// YAMLFor renders the KubeSchedulerConfiguration with the path of another kubeconfig.
	YAMLFor(kubeconfig string) ([]byte, error)
}

// SchedulerNames implements Configuration.
func (c Config) SchedulerNames() []string {
	return choice.Names(c.Profiles, func(p Profile) string { return p.SchedulerName })
}

// Elects implements Configuration.
func (c Config) Elects() bool { return c.LeaderElect }

// YAMLFor implements Configuration.
func (c Config) YAMLFor(kubeconfig string) ([]byte, error) {
	c.Kubeconfig = kubeconfig
	return c.YAML()
}

// WithoutWeights returns the scheduler names of the profiles whose network has no weights, because no
// checkpoint is given and none is shipped. Upstream's scoring decides for them.
func (c Config) WithoutWeights() []string {
	var names []string
	for _, p := range c.Profiles {
		if p.Policy == "" && p.Variant != DefaultProfile && p.Checkpoint == "" && !slices.Contains(checkpoint.ShippedNames(), p.Variant) {
			names = append(names, p.SchedulerName)
		}
	}
	return names
}

// WriteTemporary makes a file of the configuration and a kubeconfig for the target, and returns the path
// of the configuration. kube-scheduler reads them only when it starts. They are in memory where the
// system allows it (see files.InMemory), since a kubeconfig contains credentials. The caller must call remove.
func WriteTemporary(c Configuration, target kubeconfig.Target) (path string, remove func(), err error) {
	config, removeKubeconfig, err := target.File()
	if err != nil {
		return "", nil, err
	}
	text, err := c.YAMLFor(config)
	if err != nil {
		removeKubeconfig()
		return "", nil, err
	}
	path, removeConfig, err := files.InMemory("scheduler.yaml", text)
	if err != nil {
		removeKubeconfig()
		return "", nil, fmt.Errorf("write the scheduler configuration: %w", err)
	}
	return path, func() { removeConfig(); removeKubeconfig() }, nil
}

// Decode returns upstream's form of the configuration, as kube-scheduler reads it.
func (c Config) Decode() (*schedulerconfig.KubeSchedulerConfiguration, error) {
	y, err := c.YAML()
	if err != nil {
		return nil, err
	}
	obj, _, err := scheme.Codecs.UniversalDecoder().Decode(y, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("decode the profile: %w", err)
	}
	return obj.(*schedulerconfig.KubeSchedulerConfiguration), nil // the only kind that YAML writes
}
