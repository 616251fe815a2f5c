package server

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	schedulerconfig "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/choice"
	"gnnsched/scheduler/plugin"
	"gnnsched/scheduler/plugin/canary"
	"gnnsched/scheduler/plugin/dra"
	"gnnsched/scheduler/plugin/traffic"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/preference"
	"gnnsched/scheduler/policy/stock"
	"gnnsched/scheduler/policy/wish"
	"gnnsched/scheduler/server/stockconfig"
	"gnnsched/scheduler/usage"
)

// DefaultProfile is the name of upstream's own profile, which scores as upstream ships it.
const DefaultProfile = "default-scheduler"

// Variants are the names of the learned profiles; each is also the name of its shipped checkpoint.
var Variants = plugin.Variants

// Profile says how pods with one scheduler name are scored.
type Profile struct {
	SchedulerName string        // pods name it in spec.schedulerName
	Variant       string        // one of plugin.Networks, or DefaultProfile; empty if there is a Policy
	Policy        string        // a heuristic's name, as heuristic.Find reads it; empty for a network
	Checkpoint    string        // file with the network's weights; empty for the shipped ones
	Deadline      time.Duration // of one pass of the network; 0 for the plugin's default
	// Objective and ObjectiveLimits are those of plugin.Args, for a network of many objectives.
	Objective, ObjectiveLimits string
	// PodsLeave is that of plugin.Args, for networks for GPU clusters.
	PodsLeave bool
	// Workload is a pod list in the openb format, from which policies and networks for GPUs learn
	// what pods typically request. If it is empty, they count the pods that arrive.
	Workload string
	// Preferences says how the preferences of manifests count. If it is empty, they come first, or
	// are blended if Blend is not empty.
	Preferences preference.Mode
	// Blend adds upstream's score plugins, as weights by name. The network or heuristic has weight
	// 1, and each plugin's score is in 0 to 100. It is only for preference.Blend; if it is
	// empty then, upstream's preference plugins have upstream's weights.
	Blend map[string]int32
	// Stock says how upstream's score plugins score in DefaultProfile; nil for upstream's defaults.
	Stock *stock.Profile
	// Usage says where measured usage comes from; nil for nowhere.
	Usage *usage.Config
	// Traffic describes the network between the nodes; nil for none, and traffic does not count.
	Traffic *traffic.Config
	// Learn makes the profile explore and learn; it needs a Checkpoint. If it is nil, the profile
	// does neither.
	Learn *plugin.LearnArgs
	// Share leaves the network or heuristic a share of the pods, and the others to upstream's default scoring; nil
	// for all pods.
	Share *canary.Args
}

// ProfileNames returns the names that ProfileNamed knows.
func ProfileNames() []string {
	return slices.Concat(plugin.Networks(), heuristics(), []string{DefaultProfile})
}

// heuristics returns the names of all heuristics that have a fixed name.
func heuristics() []string {
	return slices.Concat(heuristic.Names(), heuristic.UsageNames(), heuristic.GPUNames())
}

// ProfileNamed returns the profile whose scheduler name is also the name of its network or heuristic, or
// DefaultProfile. The error for an unknown name lists the known ones.
func ProfileNamed(name string) (Profile, error) {
	switch {
	case !slices.Contains(ProfileNames(), name):
		return Profile{}, choice.Unknown("profile", name, ProfileNames())
	case slices.Contains(heuristics(), name):
		return Profile{SchedulerName: name, Policy: name}, nil
	}
	return Profile{SchedulerName: name, Variant: name}, nil
}

// upstreamPreferences are upstream's plugins that score by preferences, with upstream's weights.
var upstreamPreferences = map[string]int32{"TaintToleration": 3, "NodeAffinity": 2, "PodTopologySpread": 2, "InterPodAffinity": 2, "ImageLocality": 1}

// preferences returns how preferences count.
func (p Profile) preferences() preference.Mode {
	switch {
	case p.Preferences != "":
		return p.Preferences
	case len(p.Blend) > 0:
		return preference.Blend
	}
	return preference.First
}

// blend returns the weights of upstream's plugins that score beside ours.
func (p Profile) blend() map[string]int32 {
	if p.preferences() == preference.Blend && len(p.Blend) == 0 {
		return upstreamPreferences
	}
	return p.Blend
}

// validate checks that the profile has either a network or a heuristic, and one way in which
// preferences count.
func (p Profile) validate() error {
	if err := p.preferences().Validate(); err != nil {
		return err
	}
	if len(p.Blend) > 0 && p.preferences() != preference.Blend {
		return fmt.Errorf("preferences %s and weights to blend exclude each other; choose preferences %s or leave the weights out", p.Preferences, preference.Blend)
	}
	if err := p.validateObjective(); err != nil {
		return err
	}
	if p.Stock != nil {
		if p.Variant != DefaultProfile || p.Policy != "" {
			return fmt.Errorf("only %s scores by upstream's score plugins", DefaultProfile)
		}
		return p.Stock.Validate()
	}
	if p.Share != nil {
		if err := p.validateShare(); err != nil {
			return err
		}
	}
	if p.Learn != nil {
		return p.validateLearn()
	}
	if p.PodsLeave && !p.HasReserve() {
		return fmt.Errorf("podsLeave is for networks for GPU clusters and mixed ones, one of %s", strings.Join(withReserve(), ", "))
	}
	if p.Policy == "" {
		if p.Variant != DefaultProfile && !slices.Contains(plugin.Networks(), p.Variant) {
			return choice.Unknown("variant", p.Variant, append(plugin.Networks(), DefaultProfile))
		}
		return nil
	}
	if p.Variant != "" || p.Checkpoint != "" {
		return fmt.Errorf("policy %s and a network (variant or checkpoint) exclude each other; choose one", p.Policy)
	}
	_, err := heuristic.Find(p.Policy)
	return err
}

// validateObjective checks a profile with an objective, or with limits of those that annotations may choose: its
// network must serve them.
func (p Profile) validateObjective() error {
	if p.Objective == "" && p.ObjectiveLimits == "" {
		return nil
	}
	if p.Policy != "" || p.Variant == DefaultProfile || p.Learn != nil {
		return fmt.Errorf("objectives are for a network of many that does not learn")
	}
	if p.ObjectiveLimits != "" {
		if _, err := wish.ParseLimits(p.ObjectiveLimits); err != nil {
			return err
		}
	}
	c, err := p.network()
	if err != nil {
		return err
	}
	if p.Objective == "" {
		return wish.Serves(c, c.Manifest.Objective)
	}
	return wish.Serves(c, p.Objective)
}

// HasReserve reports whether the profile's network keeps room for pods that only some nodes can serve: those for GPU
// clusters and mixed ones do. A file is not read: it may have such a network.
func (p Profile) HasReserve() bool {
	return p.Policy == "" && (p.Checkpoint != "" || slices.Contains(withReserve(), p.Variant))
}

// withReserve returns the names of the shipped networks with a reserve.
func withReserve() []string {
	return slices.Concat(checkpoint.ShippedFor(checkpoint.GPUGraph), checkpoint.ShippedFor(checkpoint.MixedGraph))
}

// network reads the checkpoint of the profile.
func (p Profile) network() (*checkpoint.Checkpoint, error) {
	if p.Checkpoint != "" {
		return LoadCheckpoint(p.Checkpoint)
	}
	return checkpoint.Shipped(p.Variant)
}

// validateLearn checks a profile that learns.
func (p Profile) validateLearn() error {
	switch {
	case !slices.Contains(plugin.Networks(), p.Variant) || p.Policy != "":
		return fmt.Errorf("only a network can learn, one of %s", strings.Join(plugin.Networks(), ", "))
	case p.Checkpoint == "":
		return fmt.Errorf("a network that learns needs a checkpoint file of its own")
	}
	return p.Learn.Validate()
}

// validateShare checks a profile whose network or heuristic has a share of the pods.
func (p Profile) validateShare() error {
	switch {
	case p.Variant == DefaultProfile:
		return fmt.Errorf("%s has no network or policy that could have a share of the pods", DefaultProfile)
	case p.Learn != nil:
		return fmt.Errorf("a profile that learns decides about all its pods; leave the share out")
	case p.preferences() == preference.Blend:
		return fmt.Errorf("blended scores would count for the rest of the pods too; leave the share or the blend out")
	}
	args := *p.Share
	return args.Default()
}

// build renders the profile.
func (p Profile) build() (schedulerconfig.KubeSchedulerProfile, error) {
	out := schedulerconfig.KubeSchedulerProfile{SchedulerName: ptr.To(p.SchedulerName), Plugins: gpuShares()}
	if p.Variant == DefaultProfile {
		if p.Stock == nil {
			return out, nil
		}
		return out, stockconfig.AddTo(&out, *p.Stock)
	}
	args := plugin.Args{Variant: p.Variant, Checkpoint: p.Checkpoint, Policy: p.Policy, Workload: p.Workload, Preferences: p.preferences(), Usage: p.Usage, Traffic: p.Traffic, Learn: p.Learn, Share: p.Share, Objective: p.Objective, ObjectiveLimits: p.ObjectiveLimits, PodsLeave: p.PodsLeave}
	if p.Policy == "" { // heuristics ignore the deadline
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
	blend := p.blend()
	for _, name := range slices.Sorted(maps.Keys(blend)) {
		score = append(score, schedulerconfig.Plugin{Name: name, Weight: ptr.To(blend[name])})
		if name != "ImageLocality" && name != "DynamicResources" { // these two have no PreScore
			preScore = append(preScore, schedulerconfig.Plugin{Name: name})
		}
	}
	out.Plugins.PreScore = schedulerconfig.PluginSet{Enabled: preScore, Disabled: off}
	out.Plugins.Score = schedulerconfig.PluginSet{Enabled: score, Disabled: off}
	only := schedulerconfig.PluginSet{Enabled: []schedulerconfig.Plugin{{Name: plugin.Name}}}
	if p.Learn != nil {
		out.Plugins.PostFilter = only
	}
	if p.Learn != nil || p.Share != nil {
		out.Plugins.Reserve = only
		out.Plugins.PostBind = only
	}
	out.PluginConfig = []schedulerconfig.PluginConfig{{Name: plugin.Name, Args: runtime.RawExtension{Raw: raw}}}
	return out, nil
}

// upstreamWeight is the weight of upstream's DynamicResources in the default profile.
const upstreamWeight = 2

// gpuShares enables GPUShares, and LearnedDevices in place of upstream's DynamicResources. Every profile has
// them, because the profiles of one process share the nodes' devices. GPUShares comes before upstream's binder,
// which binds the pods that GPUShares skips.
func gpuShares() *schedulerconfig.Plugins {
	ours := schedulerconfig.Plugin{Name: plugin.GPUSharesName}
	return &schedulerconfig.Plugins{
		MultiPoint: schedulerconfig.PluginSet{
			Enabled:  []schedulerconfig.Plugin{ours, {Name: dra.Name, Weight: ptr.To[int32](upstreamWeight)}},
			Disabled: []schedulerconfig.Plugin{{Name: names.DynamicResources}},
		},
		Bind: schedulerconfig.PluginSet{Enabled: []schedulerconfig.Plugin{ours, {Name: "DefaultBinder"}}},
	}
}
