package server

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	componentconfig "k8s.io/component-base/config/v1alpha1"
	schedulerconfig "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"gnnsched/internal/choice"
	"gnnsched/scheduler/plugin"
	"gnnsched/scheduler/plugin/dra"
	"gnnsched/scheduler/plugin/userconfig"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/preference"
	"gnnsched/scheduler/policy/stock"
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

// DefaultProfile is the name of upstream's own profile, which scores as upstream ships it.
const DefaultProfile = "default-scheduler"

// Variants are the names of the learned profiles; each is also the name of its shipped checkpoint.
var Variants = plugin.Variants

// Args are the arguments of LearnedScore.
type Args = plugin.Args

// Profile says how pods with one scheduler name are scored: by the arguments of LearnedScore, or as upstream's own profile does if
// Variant is DefaultProfile, which has no other arguments.
type Profile struct {
	SchedulerName string // pods name it in spec.schedulerName
	Args
	// Blend adds upstream's score plugins, as weights by name. The network or heuristic has weight
	// 1, and each plugin's score is in 0 to 100. It is only for preference.Blend, which it implies; if it is
	// empty then, upstream's preference plugins have upstream's weights.
	Blend map[string]int32
	// Stock says how upstream's score plugins score in DefaultProfile; nil for upstream's defaults.
	Stock *stock.Profile
}

// ProfileNames returns the names that ProfileNamed knows.
func ProfileNames() []string {
	return slices.Concat(plugin.Networks(), heuristic.Names(), heuristic.UsageNames(), heuristic.GPUNames(), []string{DefaultProfile})
}

// simulated says, by the prefix of their names, why policies of gnnsched eval have no profile.
var simulated = map[string]string{
	"first-fit":   "with --claims, kube-scheduler takes the first devices that fit",
	"clairvoyant": "schedulers do not know what is to come",
	"defrag":      "schedulers do not move pods; gnnsched defrag does",
}

// plain replaces what separates the parts of a policy's name.
var plain = strings.NewReplacer(":", "-", "=", "-", "+", "-")

// ProfileNamed returns the profile that decides as the policy of a name does in gnnsched eval: one of ProfileNames, a heuristic that
// heuristic.Find knows, running:NETWORK or stock:FILE. The profile's scheduler name is the name, or that of a network with a prefix in
// plain characters.
func ProfileNamed(name string) (Profile, error) {
	prefix, of, _ := strings.Cut(name, ":")
	kind, _, _ := strings.Cut(prefix, "=")
	p := Profile{SchedulerName: name}
	_, notHeuristic := heuristic.Find(name)
	switch {
	case notHeuristic == nil:
		p.Policy = name
	case slices.Contains(ProfileNames(), name):
		p.Variant = name
	case prefix == "stock":
		s, err := ReadStockConfig(of)
		p.Variant, p.Stock = DefaultProfile, &s
		return p, err
	case prefix == "running":
		network, err := ProfileNamed(of)
		if err != nil {
			return p, err
		}
		if !slices.Contains(plugin.Networks(), network.Variant) {
			return p, fmt.Errorf("%s has no profile on a cluster: schedulers count running pods for networks only", name)
		}
		p.Args, p.SchedulerName = network.Args, plain.Replace(name)
	case simulated[kind] != "":
		return p, fmt.Errorf("%s has no profile on a cluster: %s", name, simulated[kind])
	case prefix == name:
		return p, choice.Unknown("profile", name, ProfileNames())
	default:
		return p, notHeuristic
	}
	return p, nil
}

// upstreamPreferences are upstream's plugins that score by preferences, with upstream's weights.
var upstreamPreferences = map[string]int32{"TaintToleration": 3, "NodeAffinity": 2, "PodTopologySpread": 2, "InterPodAffinity": 2,
	"ImageLocality": 1}

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

// arguments returns the arguments of LearnedScore to render. Heuristics ignore the deadline.
func (p Profile) arguments() plugin.Args {
	a := p.Args
	a.Preferences = p.preferences()
	if a.Policy != "" {
		a.Deadline.Duration = 0
	}
	return a
}

// validate checks the arguments as the plugin does, and that one way is chosen in which preferences count.
func (p Profile) validate() error {
	upstreams := p.Variant == DefaultProfile && p.Policy == ""
	switch {
	case len(p.Blend) > 0 && p.preferences() != preference.Blend:
		return fmt.Errorf("preferences %s and weights to blend exclude each other; choose preferences %s or leave the weights out",
			p.Preferences, preference.Blend)
	case upstreams && (p.Learn != nil || p.Canary != nil):
		return fmt.Errorf("%s has no network or policy: leave learn and share out", DefaultProfile)
	case upstreams && p.Stock != nil:
		return p.Stock.Validate()
	case upstreams:
		return p.preferences().Validate()
	case p.Stock != nil:
		return fmt.Errorf("only %s scores by upstream's score plugins", DefaultProfile)
	}
	a := p.arguments()
	return a.Default(p.SchedulerName)
}

// build renders the profile.
func (p Profile) build() (schedulerconfig.KubeSchedulerProfile, error) {
	out := schedulerconfig.KubeSchedulerProfile{SchedulerName: ptr.To(p.SchedulerName), Plugins: gpuShares()}
	if p.Variant == DefaultProfile {
		if p.Stock == nil {
			return out, nil
		}
		return out, addStockProfile(&out, *p.Stock)
	}
	raw, err := yaml.Marshal(p.arguments())
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
	if p.Learn != nil || p.Canary != nil {
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

// weighted is a score plugin and its weight in a profile.
type weighted struct {
	name   string
	weight *int64
}

// weightsIn lists the plugins that a profile has weights of, in the order of upstream's default profile.
func weightsIn(w *stock.Weights) []weighted {
	return []weighted{
		{names.TaintToleration, &w.Taints},
		{names.NodeAffinity, &w.NodeAffinity},
		{names.NodeResourcesFit, &w.Fit},
		{names.PodTopologySpread, &w.Spread},
		{names.InterPodAffinity, &w.PodAffinity},
		{names.NodeResourcesBalancedAllocation, &w.Balanced},
		{names.ImageLocality, &w.ImageLocality},
	}
}

// addStockProfile adds the score plugins' weights and arguments to a profile of kube-scheduler that has neither.
func addStockProfile(out *schedulerconfig.KubeSchedulerProfile, p stock.Profile) error {
	if out.Plugins == nil {
		out.Plugins = &schedulerconfig.Plugins{}
	}
	for _, x := range weightsIn(&p.Weights) {
		if *x.weight > 0 {
			out.Plugins.Score.Enabled = append(out.Plugins.Score.Enabled, schedulerconfig.Plugin{Name: x.name, Weight: ptr.To(int32(*x.weight))})
		} else {
			out.Plugins.Score.Disabled = append(out.Plugins.Score.Disabled, schedulerconfig.Plugin{Name: x.name})
		}
	}
	strategy := &schedulerconfig.ScoringStrategy{Type: schedulerconfig.ScoringStrategyType(p.Strategy)}
	for _, x := range p.Fit {
		strategy.Resources = append(strategy.Resources, schedulerconfig.ResourceSpec{Name: string(x.Resource), Weight: x.Weight})
	}
	if len(p.Shape) > 0 {
		strategy.RequestedToCapacityRatio = &schedulerconfig.RequestedToCapacityRatioParam{}
	}
	for _, x := range p.Shape {
		r := strategy.RequestedToCapacityRatio
		r.Shape = append(r.Shape, schedulerconfig.UtilizationShapePoint{Utilization: int32(x.Utilization), Score: int32(x.Score)})
	}
	balanced := &schedulerconfig.NodeResourcesBalancedAllocationArgs{}
	for _, r := range p.Balanced {
		balanced.Resources = append(balanced.Resources, schedulerconfig.ResourceSpec{Name: string(r), Weight: 1})
	}
	spread := &schedulerconfig.PodTopologySpreadArgs{DefaultingType: schedulerconfig.SystemDefaulting}
	if p.NoDefaultSpread {
		spread.DefaultingType, spread.DefaultConstraints = schedulerconfig.ListDefaulting, []corev1.TopologySpreadConstraint{}
	}
	for _, args := range []struct {
		name string
		args any
	}{
		{names.NodeResourcesFit, &schedulerconfig.NodeResourcesFitArgs{ScoringStrategy: strategy}},
		{names.NodeResourcesBalancedAllocation, balanced},
		{names.PodTopologySpread, spread},
	} {
		raw, err := json.Marshal(args.args)
		if err != nil {
			return fmt.Errorf("encode the arguments of %s: %w", args.name, err)
		}
		out.PluginConfig = append(out.PluginConfig, schedulerconfig.PluginConfig{Name: args.name, Args: runtime.RawExtension{Raw: raw}})
	}
	return nil
}

// stockFile and profile have the fields of a KubeSchedulerConfiguration that Write sets, so that it does not write the
// others.
type stockFile struct {
	APIVersion string             `json:"apiVersion"`
	Kind       string             `json:"kind"`
	Profiles   []stockFileProfile `json:"profiles"`
}

type stockFileProfile struct {
	SchedulerName string                         `json:"schedulerName"`
	Plugins       stockPlugins                   `json:"plugins"`
	PluginConfig  []schedulerconfig.PluginConfig `json:"pluginConfig"`
}

type stockPlugins struct {
	Score schedulerconfig.PluginSet `json:"score"`
}

// WriteStockConfig returns a KubeSchedulerConfiguration for the default scheduler's pods with a comment in front. The
// comment may have several lines.
func WriteStockConfig(p stock.Profile, comment string) ([]byte, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	var full schedulerconfig.KubeSchedulerProfile
	if err := addStockProfile(&full, p); err != nil {
		return nil, err
	}
	text, err := yaml.Marshal(stockFile{schedulerconfig.SchemeGroupVersion.String(), "KubeSchedulerConfiguration", []stockFileProfile{
		{corev1.DefaultSchedulerName, stockPlugins{full.Plugins.Score}, full.PluginConfig},
	}})
	if err != nil {
		return nil, fmt.Errorf("encode the scheduler configuration: %w", err)
	}
	var out strings.Builder
	for line := range strings.Lines(comment) {
		out.WriteString(strings.TrimRight("# "+strings.Map(printable, line), " ") + "\n")
	}
	out.Write(text)
	return []byte(out.String()), nil
}

// printable replaces what would end a comment's line, or could not be read.
func printable(r rune) rune {
	switch {
	case r == '\n':
		return -1
	case !unicode.IsPrint(r):
		return '?'
	}
	return r
}
