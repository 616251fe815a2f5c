package plugin

import (
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"gnnsched/gnn/checkpoint"
	"gnnsched/scheduler/policy/heuristic"
)

// Variants are the learned profiles, each named after its shipped checkpoint.
var Variants = []string{"gnn", "dqn", "acgnn", "acdqn"}

// Networks are the names that Variant may have: the variants, and the shipped checkpoints for
// other objectives.
func Networks() []string {
	out := slices.Clone(Variants)
	for _, n := range checkpoint.ShippedNames() {
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// Args are the plugin's arguments in pluginConfig of KubeSchedulerConfiguration. Unknown
// fields are errors.
type Args struct {
	metav1.TypeMeta `json:",inline"`

	// Variant names the shipped checkpoint: one of Networks. Default: the profile's
	// schedulerName. With Checkpoint it is of no consequence.
	Variant string `json:"variant,omitempty"`
	// Checkpoint is a file to use instead of the shipped one. The scheduler swaps it in
	// again whenever it changes.
	Checkpoint string `json:"checkpoint,omitempty"`
	// Policy names a heuristic (heuristic.List) that decides in the network's place. It
	// excludes Variant and Checkpoint; Deadline and ReloadInterval are then of no consequence.
	Policy string `json:"policy,omitempty"`
	// Workload is a pod list of the openb format, by which policies for GPUs know what pods
	// usually ask for. Without it they go by the pods that came so far.
	Workload string `json:"workload,omitempty"`
	// Deadline of one network pass; a pass that takes longer is given up for upstream's
	// scoring. Default 100ms.
	Deadline metav1.Duration `json:"deadline,omitempty"`
	// ReloadInterval is how often the file is looked at. Default 2s, and 200ms with Learn: what
	// an actor-critic does with an old network is of no use to its trainer.
	ReloadInterval metav1.Duration `json:"reloadInterval,omitempty"`
	// Learn makes the profile explore and learn; nil, as by default, means that it does
	// neither. It needs a Checkpoint.
	Learn *LearnArgs `json:"learn,omitempty"`
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
	if err := a.chooseDecider(profile); err != nil {
		return Args{}, fmt.Errorf("arguments of %s in profile %s: %w", Name, profile, err)
	}
	if err := a.validateLearn(); err != nil {
		return Args{}, fmt.Errorf("arguments of %s in profile %s: %w", Name, profile, err)
	}
	if a.Deadline.Duration == 0 {
		a.Deadline.Duration = 100 * time.Millisecond
	}
	if a.ReloadInterval.Duration == 0 {
		a.ReloadInterval.Duration = 2 * time.Second
		if a.Learn != nil {
			a.ReloadInterval.Duration = 200 * time.Millisecond
		}
	}
	if a.Deadline.Duration < 0 || a.ReloadInterval.Duration < 0 {
		return Args{}, fmt.Errorf("arguments of %s in profile %s: deadline and reloadInterval must be positive", Name, profile)
	}
	return a, nil
}

// chooseDecider checks what is to decide: a heuristic, a file, or a shipped checkpoint, which
// is by default the one of the profile's name.
func (a *Args) chooseDecider(profile string) error {
	if a.Policy != "" {
		if a.Variant != "" || a.Checkpoint != "" {
			return fmt.Errorf("policy %q excludes variant and checkpoint, which are about a network; keep one of them", a.Policy)
		}
		_, err := heuristic.Find(a.Policy)
		return err
	}
	if a.Variant == "" {
		a.Variant = profile
	}
	if a.Checkpoint == "" && !slices.Contains(Networks(), a.Variant) {
		return fmt.Errorf("neither a checkpoint nor a policy is named, and variant %q is not one of %v", a.Variant, Networks())
	}
	return nil
}

func (a *Args) validateLearn() error {
	switch {
	case a.Learn == nil:
		return nil
	case a.Checkpoint == "":
		return errors.New("learn: no checkpoint is named, the file that the trainer writes and the profile reads")
	}
	return a.Learn.Validate()
}
