package server

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	schedulerconfig "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"gnnsched/scheduler/policy/stock"
)

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
