package plugin

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// Variants are the learned profiles, each named after its shipped checkpoint.
var Variants = []string{"gnn", "dqn", "acgnn", "acdqn"}

// Args are the plugin's arguments in pluginConfig of KubeSchedulerConfiguration. Unknown
// fields are errors.
type Args struct {
	metav1.TypeMeta `json:",inline"`

	// Variant names the shipped checkpoint: one of Variants. Default: the profile's
	// schedulerName. With Checkpoint it is of no consequence.
	Variant string `json:"variant,omitempty"`
	// Checkpoint is a file to use instead of the shipped one. The scheduler swaps it in
	// again whenever it changes.
	Checkpoint string `json:"checkpoint,omitempty"`
	// Deadline of one network pass; a pass that takes longer is given up for upstream's
	// scoring. Default 100ms.
	Deadline metav1.Duration `json:"deadline,omitempty"`
	// ReloadInterval is how often the file is looked at. Default 2s.
	ReloadInterval metav1.Duration `json:"reloadInterval,omitempty"`
}

// DecodeArgs decodes the arguments strictly and fills in the defaults. A nil object means
// all defaults.
func DecodeArgs(obj runtime.Object, profile string) (Args, error) {
	var a Args
	if obj != nil {
		raw, ok := obj.(*runtime.Unknown)
		if !ok {
			return Args{}, fmt.Errorf("arguments of %s: got %T, want raw JSON or YAML", Name, obj)
		}
		if err := yaml.UnmarshalStrict(raw.Raw, &a); err != nil {
			return Args{}, fmt.Errorf("arguments of %s in profile %s: %w", Name, profile, err)
		}
	}
	if a.Variant == "" {
		a.Variant = profile
	}
	if a.Checkpoint == "" && !slices.Contains(Variants, a.Variant) {
		return Args{}, fmt.Errorf("arguments of %s in profile %s: no checkpoint is named, and variant %q is not one of %v", Name, profile, a.Variant, Variants)
	}
	if a.Deadline.Duration == 0 {
		a.Deadline.Duration = 100 * time.Millisecond
	}
	if a.ReloadInterval.Duration == 0 {
		a.ReloadInterval.Duration = 2 * time.Second
	}
	if a.Deadline.Duration < 0 || a.ReloadInterval.Duration < 0 {
		return Args{}, fmt.Errorf("arguments of %s in profile %s: deadline and reloadInterval must be positive", Name, profile)
	}
	return a, nil
}
