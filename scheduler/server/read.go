package server

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/choice"
	"gnnsched/internal/exit"
	"gnnsched/internal/files"
	"gnnsched/internal/kubeconfig"
	"gnnsched/scheduler/plugin/userconfig"
	"gnnsched/scheduler/policy/stock"
)

// stockHint says what a file must be.
const stockHint = "name the KubeSchedulerConfiguration that kube-scheduler runs with, the file of its flag --config"

// ReadStockConfig reads a file as kube-scheduler does, and returns how its one profile scores. A file that scores with
// more than a stock.Profile can hold is an error, because playing only a part of it would mislead. What does
// not score is not looked at. Errors have the exit code exit.Usage.
func ReadStockConfig(path string) (stock.Profile, error) {
	text, err := files.Read(path, files.Text)
	if err != nil {
		return stock.Profile{}, exit.New(exit.Usage, fmt.Errorf("scheduler configuration: %w", err), stockHint)
	}
	if err := userconfig.CheckVersion(text); err != nil {
		return stock.Profile{}, exit.New(exit.Usage, fmt.Errorf("scheduler configuration %s: %w", path, err), userconfig.VersionHint)
	}
	p, err := parseStockConfig(text)
	if err != nil {
		return p, exit.New(exit.Usage, fmt.Errorf("scheduler configuration %s: %w", path, err), stockHint)
	}
	return p, nil
}

// parseStockConfig is Read with the content of the file.
func parseStockConfig(text []byte) (stock.Profile, error) {
	object, kind, err := scheme.Codecs.UniversalDecoder().Decode(text, nil, nil)
	if err != nil {
		return stock.Profile{}, err
	}
	c, ok := object.(*config.KubeSchedulerConfiguration)
	if !ok {
		return stock.Profile{}, fmt.Errorf("it is a %s, not a KubeSchedulerConfiguration", kind.Kind)
	}
	c.APIVersion = kind.GroupVersion().String() // as upstream's loader: validation wants it
	if invalid := validation.ValidateKubeSchedulerConfiguration(c); invalid != nil {
		return stock.Profile{}, invalid
	}
	if len(c.Profiles) != 1 {
		return stock.Profile{}, fmt.Errorf("it has %d profiles, want one", len(c.Profiles))
	}
	if len(c.Extenders) > 0 {
		return stock.Profile{}, errors.New("it has extenders, which the simulator does not play")
	}
	return stockProfileOf(&c.Profiles[0])
}

// stockProfileOf returns how a profile with upstream's defaults filled in scores.
func stockProfileOf(profile *config.KubeSchedulerProfile) (out stock.Profile, err error) {
	if err := refuseForeign(profile.Plugins); err != nil {
		return out, err
	}
	for _, x := range weightsIn(&out.Weights) {
		*x.weight = weightOf(profile.Plugins, x.name)
	}
	for _, c := range profile.PluginConfig {
		switch args := c.Args.(type) {
		case *config.NodeResourcesFitArgs:
			err = addFit(&out, args.ScoringStrategy)
		case *config.NodeResourcesBalancedAllocationArgs:
			for _, r := range args.Resources {
				out.Balanced = append(out.Balanced, stock.Resource(r.Name))
			}
		case *config.PodTopologySpreadArgs:
			out.NoDefaultSpread = args.DefaultingType == config.ListDefaulting
			if len(args.DefaultConstraints) > 0 {
				err = errors.New("it has default constraints of PodTopologySpread of its own; the simulator plays upstream's, or none")
			}
		case *config.NodeAffinityArgs:
			if args.AddedAffinity != nil {
				err = errors.New("it has an addedAffinity, which the simulator does not play")
			}
		}
		if err != nil {
			return out, err
		}
	}
	withoutArguments(&out)
	return out, out.Validate()
}

// withoutArguments gives plugins that are disabled everywhere upstream's arguments: its defaults have none for them.
func withoutArguments(p *stock.Profile) {
	def := stock.Default()
	if p.Weights.Fit == 0 && len(p.Fit) == 0 {
		p.Strategy, p.Fit = def.Strategy, def.Fit
	}
	if p.Weights.Balanced == 0 && len(p.Balanced) == 0 {
		p.Balanced = def.Balanced
	}
}

// addFit sets the strategy of NodeResourcesFit.
func addFit(out *stock.Profile, s *config.ScoringStrategy) error {
	if s == nil {
		return errors.New("NodeResourcesFit has no scoringStrategy")
	}
	out.Strategy = stock.Strategy(s.Type)
	for _, r := range s.Resources {
		out.Fit = append(out.Fit, stock.Weighted{Resource: stock.Resource(r.Name), Weight: r.Weight})
	}
	if s.RequestedToCapacityRatio != nil {
		for _, x := range s.RequestedToCapacityRatio.Shape {
			out.Shape = append(out.Shape, stock.Point{Utilization: int64(x.Utilization), Score: int64(x.Score)})
		}
	}
	return nil
}

// weightOf returns the weight with which a plugin scores, 0 if it does not. An entry at score replaces the
// one at multiPoint, and an entry without a weight has 1.
func weightOf(p *config.Plugins, name string) int64 {
	if i := findPlugin(p.Score.Enabled, name); i >= 0 {
		return int64(max(p.Score.Enabled[i].Weight, 1))
	}
	if findPlugin(p.Score.Disabled, name) >= 0 || findPlugin(p.Score.Disabled, "*") >= 0 {
		return 0
	}
	if i := findPlugin(p.MultiPoint.Enabled, name); i >= 0 {
		return int64(max(p.MultiPoint.Enabled[i].Weight, 1))
	}
	return 0
}

func findPlugin(list []config.Plugin, name string) int {
	return slices.IndexFunc(list, func(p config.Plugin) bool { return p.Name == name })
}

// refuseForeign returns an error if a plugin scores or may score that upstream's default profile lacks.
func refuseForeign(p *config.Plugins) error {
	def, err := latest.Default()
	if err != nil {
		return fmt.Errorf("upstream's default configuration: %w", err)
	}
	for _, x := range slices.Concat(p.Score.Enabled, p.MultiPoint.Enabled) {
		if findPlugin(def.Profiles[0].Plugins.MultiPoint.Enabled, x.Name) < 0 {
			return fmt.Errorf("it enables the plugin %q, which upstream's default profile lacks and the simulator does not play", x.Name)
		}
	}
	return nil
}

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
