package server

import (
	"cmp"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	componentconfig "k8s.io/component-base/config/v1alpha1"
	schedulerconfig "k8s.io/kube-scheduler/config/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"gnnsched/scheduler/plugin/userconfig"
)

// Config describes a kube-scheduler process with our plugins.
type Config struct {
	Kubeconfig               string
	Profiles                 []Profile
	QPS                      float32 // requests a second of the client; the burst is twice as much
	Parallelism              int32   // number of goroutines that filter; 0 for upstream's 16
	PercentageOfNodesToScore int32   // 0 for upstream's adaptive percentage
	LeaderElect              bool
	Lease                    string // name of the leader election's lease in kube-system; empty for the shared one of all gnnsched processes
	Profiling                bool   // serve profiles of the process, which need a token like the metrics
}

// Validate returns an error for the first invalid value.
func (c Config) Validate() error {
	if len(c.Profiles) == 0 {
		return fmt.Errorf("there is no scheduler profile")
	}
	if c.QPS <= 0 {
		return fmt.Errorf("client QPS is %v, must be more than 0", c.QPS)
	}
	if p := c.PercentageOfNodesToScore; p < 0 || p > 100 {
		return fmt.Errorf("percentage of nodes to score is %d, must be from 0 (adaptive) to 100", p)
	}
	if problems := validation.IsDNS1123Subdomain(c.Lease); c.Lease != "" && len(problems) > 0 {
		return fmt.Errorf("lease %q: %s", c.Lease, problems[0])
	}
	names := map[string]bool{}
	for _, p := range c.Profiles {
		if p.SchedulerName == "" || names[p.SchedulerName] {
			return fmt.Errorf("scheduler name %q is empty or there twice", p.SchedulerName)
		}
		names[p.SchedulerName] = true
		if err := p.validate(); err != nil {
			return fmt.Errorf("scheduler %s: %w", p.SchedulerName, err)
		}
	}
	return nil
}

// election returns the settings of the leader election. Times are upstream's: shorter ones lose the lease on a loaded machine, and each
// request gets half of the time to renew. [announcedLock] makes a standby follow a killed leader sooner where it can.
func (c Config) election() componentconfig.LeaderElectionConfiguration {
	return componentconfig.LeaderElectionConfiguration{
		LeaderElect: ptr.To(c.LeaderElect), ResourceName: cmp.Or(c.Lease, userconfig.LeaseName), ResourceNamespace: metav1.NamespaceSystem,
	}
}

// YAML renders the KubeSchedulerConfiguration. It leaves empty fields out, because people print it to
// edit it.
func (c Config) YAML() ([]byte, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	k := schedulerconfig.KubeSchedulerConfiguration{
		TypeMeta:                 metav1.TypeMeta{APIVersion: schedulerconfig.SchemeGroupVersion.String(), Kind: "KubeSchedulerConfiguration"},
		PercentageOfNodesToScore: ptr.To(c.PercentageOfNodesToScore),
		ClientConnection: componentconfig.ClientConnectionConfiguration{
			Kubeconfig: c.Kubeconfig, QPS: c.QPS, Burst: int32(2 * c.QPS), ContentType: runtime.ContentTypeProtobuf,
		},
		LeaderElection:         c.election(),
		DebuggingConfiguration: componentconfig.DebuggingConfiguration{EnableProfiling: ptr.To(c.Profiling)},
	}
	if c.Parallelism > 0 {
		k.Parallelism = ptr.To(c.Parallelism)
	}
	for _, p := range c.Profiles {
		profile, err := p.build()
		if err != nil {
			return nil, err
		}
		k.Profiles = append(k.Profiles, profile)
	}
	b, err := yaml.Marshal(k)
	if err != nil {
		return nil, fmt.Errorf("encode the scheduler configuration: %w", err)
	}
	var tree map[string]any
	if err := yaml.Unmarshal(b, &tree); err != nil {
		return nil, fmt.Errorf("encode the scheduler configuration: %w", err)
	}
	return yaml.Marshal(nonEmpty(tree))
}

// nonEmpty returns v without empty objects, empty strings and zero durations, which all mean the default
// to Kubernetes. It returns nil if nothing is left.
func nonEmpty(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			if v[k] = nonEmpty(x); v[k] == nil {
				delete(v, k)
			}
		}
		if len(v) == 0 {
			return nil
		}
	case []any:
		for i := range v {
			v[i] = nonEmpty(v[i])
		}
	case string:
		if v == "" || v == "0s" {
			return nil
		}
	}
	return v
}
