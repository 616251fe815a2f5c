package server

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	componentconfig "k8s.io/component-base/config/v1alpha1"
	schedulerconfig "k8s.io/kube-scheduler/config/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"gnnsched/scheduler/plugin"
	"gnnsched/scheduler/policy/heuristic"
)

// DefaultProfile is upstream's own profile; asked for by this name it scores as upstream ships
// it.
const DefaultProfile = "default-scheduler"

// Variants are the learned profiles, each named after its shipped checkpoint.
var Variants = plugin.Variants

// Profile is one scheduler name and how it scores.
type Profile struct {
	SchedulerName string        // pods name it in spec.schedulerName
	Variant       string        // one of plugin.Networks, or DefaultProfile; empty with Policy
	Policy        string        // one of heuristic.List, which decides in a network's place
	Checkpoint    string        // file; empty for the shipped one
	Deadline      time.Duration // of one network pass; 0 for the plugin's default; none with Policy
	// Workload is a pod list of the openb format, by which a policy for GPUs knows what pods
	// usually ask for; empty for what came so far.
	Workload string
	// Blend adds upstream score plugins to the network's or the heuristic's scores, by name and
	// weight. Their own weight is 1 and each score is in 0 to 100. Empty means theirs alone.
	Blend map[string]int32
	// Learn makes the profile explore and learn; it needs a Checkpoint. nil means neither.
	Learn *plugin.LearnArgs
}

// ProfileNames are the names that ProfileNamed knows.
func ProfileNames() []string {
	return slices.Concat(plugin.Networks(), heuristics(), []string{DefaultProfile})
}

// heuristics are the names of those for any cluster and for GPUs.
func heuristics() []string {
	return append(heuristic.Names(), heuristic.GPUNames()...)
}

// ProfileNamed is the profile that schedules pods under the name of what decides: a variant,
// a heuristic or DefaultProfile. The error for another name lists those that there are.
func ProfileNamed(name string) (Profile, error) {
	switch {
	case !slices.Contains(ProfileNames(), name):
		return Profile{}, fmt.Errorf("no profile is called %q; there are %s", name, strings.Join(ProfileNames(), ", "))
	case slices.Contains(heuristics(), name):
		return Profile{SchedulerName: name, Policy: name}, nil
	}
	return Profile{SchedulerName: name, Variant: name}, nil
}

// Config is what a scheduler process needs to know.
type Config struct {
	Kubeconfig               string
	Profiles                 []Profile
	QPS                      float32 // of the client; burst is twice that
	Parallelism              int32   // goroutines for filtering; 0 for upstream's 16
	PercentageOfNodesToScore int32   // 0 for upstream's adaptive share
	LeaderElect              bool
}

// Validate checks the values.
func (c Config) Validate() error {
	if len(c.Profiles) == 0 {
		return fmt.Errorf("no scheduler profile is asked for")
	}
	if c.QPS <= 0 {
		return fmt.Errorf("client QPS is %v, want more than 0", c.QPS)
	}
	if p := c.PercentageOfNodesToScore; p < 0 || p > 100 {
		return fmt.Errorf("percentage of nodes to score is %d, want 0 (adaptive) to 100", p)
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

// validate checks that exactly one thing decides.
func (p Profile) validate() error {
	if p.Learn != nil {
		return p.validateLearn()
	}
	if p.Policy == "" {
		if p.Variant != DefaultProfile && !slices.Contains(plugin.Networks(), p.Variant) {
			return fmt.Errorf("variant %q is not known; there are %s, %s", p.Variant, strings.Join(plugin.Networks(), ", "), DefaultProfile)
		}
		return nil
	}
	if p.Variant != "" || p.Checkpoint != "" {
		return fmt.Errorf("policy %s and a network (variant or checkpoint) exclude each other", p.Policy)
	}
	_, err := heuristic.Find(p.Policy)
	return err
}

func (p Profile) validateLearn() error {
	switch {
	case !slices.Contains(Variants, p.Variant) || p.Policy != "":
		return fmt.Errorf("only a network can learn, one of %s", strings.Join(Variants, ", "))
	case p.Checkpoint == "":
		return fmt.Errorf("a network that learns needs a checkpoint file of its own")
	}
	return p.Learn.Validate()
}

// lease names the lock that replicas take turns with: those that serve the same schedulers,
// and no others.
func (c Config) lease() string {
	names := make([]string, len(c.Profiles))
	for i, p := range c.Profiles {
		names[i] = p.SchedulerName
	}
	slices.Sort(names)
	return "gnnsched-" + strings.Join(names, "-")
}

// YAML renders the KubeSchedulerConfiguration, without the fields that say nothing: people
// print it to edit it.
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
		LeaderElection: componentconfig.LeaderElectionConfiguration{
			LeaderElect: ptr.To(c.LeaderElect), ResourceName: c.lease(), ResourceNamespace: metav1.NamespaceSystem,
		},
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
	return yaml.Marshal(said(tree))
}

// said returns v without the empty objects, empty strings and zero durations in it, and nil
// where nothing is left. To Kubernetes they all mean the default.
func said(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			if v[k] = said(x); v[k] == nil {
				delete(v, k)
			}
		}
		if len(v) == 0 {
			return nil
		}
	case []any:
		for i := range v {
			v[i] = said(v[i])
		}
	case string:
		if v == "" || v == "0s" {
			return nil
		}
	}
	return v
}

func (p Profile) build() (schedulerconfig.KubeSchedulerProfile, error) {
	out := schedulerconfig.KubeSchedulerProfile{SchedulerName: ptr.To(p.SchedulerName), Plugins: shares()}
	if p.Variant == DefaultProfile {
		return out, nil
	}
	args := plugin.Args{Variant: p.Variant, Checkpoint: p.Checkpoint, Policy: p.Policy, Workload: p.Workload, Learn: p.Learn}
	if p.Policy == "" { // a heuristic has no deadline
		args.Deadline.Duration = p.Deadline
	}
	raw, err := yaml.Marshal(args)
	if err != nil {
		return out, fmt.Errorf("encode plugin arguments: %w", err)
	}
	if raw, err = yaml.YAMLToJSON(raw); err != nil {
		return out, fmt.Errorf("encode plugin arguments: %w", err)
	}
	ours := schedulerconfig.Plugin{Name: plugin.Name, Weight: ptr.To[int32](1)}
	off := []schedulerconfig.Plugin{{Name: "*"}}
	score := []schedulerconfig.Plugin{ours}
	preScore := []schedulerconfig.Plugin{{Name: plugin.Name}}
	for _, name := range slices.Sorted(maps.Keys(p.Blend)) {
		score = append(score, schedulerconfig.Plugin{Name: name, Weight: ptr.To(p.Blend[name])})
		if name != "ImageLocality" && name != "DynamicResources" { // which have nothing to prepare
			preScore = append(preScore, schedulerconfig.Plugin{Name: name})
		}
	}
	out.Plugins.PreScore = schedulerconfig.PluginSet{Enabled: preScore, Disabled: off}
	out.Plugins.Score = schedulerconfig.PluginSet{Enabled: score, Disabled: off}
	if p.Learn != nil {
		only := schedulerconfig.PluginSet{Enabled: []schedulerconfig.Plugin{{Name: plugin.Name}}}
		out.Plugins.PostFilter, out.Plugins.Reserve, out.Plugins.PostBind = only, only, only
	}
	out.PluginConfig = []schedulerconfig.PluginConfig{{Name: plugin.Name, Args: runtime.RawExtension{Raw: raw}}}
	return out, nil
}

// shares switches the books of GPU devices on, in every profile: those of one process share
// their nodes, so that all must respect them. It binds before upstream's binder, which has what
// it leaves.
func shares() *schedulerconfig.Plugins {
	ours := schedulerconfig.Plugin{Name: plugin.GPUSharesName}
	return &schedulerconfig.Plugins{
		MultiPoint: schedulerconfig.PluginSet{Enabled: []schedulerconfig.Plugin{ours}},
		Bind:       schedulerconfig.PluginSet{Enabled: []schedulerconfig.Plugin{ours, {Name: "DefaultBinder"}}},
	}
}
