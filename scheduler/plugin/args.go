package plugin

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/choice"
	"gnnsched/scheduler/plugin/canary"
	"gnnsched/scheduler/plugin/traffic"
	"gnnsched/scheduler/plugin/userconfig"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/preference"
	"gnnsched/scheduler/usage"
)

// Name is the plugin's name in KubeSchedulerConfiguration.
const Name = userconfig.LearnedScore

// Variants are the names of the shipped checkpoints that have a command of their own, and thus of
// the learned profiles.
var Variants = []string{"gnn", "dqn", "acgnn", "acdqn"}

// Networks returns the valid values of Args.Variant: Variants and the other shipped checkpoints.
func Networks() []string {
	out := slices.Clone(Variants)
	for _, n := range checkpoint.ShippedNames() {
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// Args are the arguments of LearnedScore under pluginConfig of a KubeSchedulerConfiguration. An
// unknown field is an error.
type Args struct {
	metav1.TypeMeta `json:",inline"`

	// Variant is the name of a shipped network. The default is the profile's schedulerName. It is ignored if there is a Checkpoint.
	Variant string `json:"variant,omitempty"`
	// Checkpoint is a file to use instead of the shipped one. The scheduler loads it again
	// whenever it changes.
	Checkpoint string `json:"checkpoint,omitempty"`
	// Policy is the name of a heuristic that decides instead of a network. It
	// excludes Variant and Checkpoint. Deadline and ReloadInterval are then ignored.
	Policy string `json:"policy,omitempty"`
	// Workload is a pod list in the openb format, from which policies and networks for GPUs learn
	// what pods typically request. Without it they count the pods that arrive; a network begins with
	// the pods of its training.
	Workload string `json:"workload,omitempty"`
	// Deadline is the time limit of one network pass. If a pass takes longer, upstream's scoring
	// decides. The default is 100ms.
	Deadline metav1.Duration `json:"deadline,omitempty"`
	// ReloadInterval is the time between two looks at the checkpoint file. The default is 2s. With
	// Learn it is 200ms, because the trainer of an actor-critic ignores what an old network did.
	ReloadInterval metav1.Duration `json:"reloadInterval,omitempty"`
	// Preferences says how the preferences of manifests count: first (the default), declared, blend or off.
	Preferences preference.Mode `json:"preferences,omitempty"`
	// Usage says where measured usage comes from. By default nothing is measured, and policies that look at
	// usage see requests.
	Usage *usage.Config `json:"usage,omitempty"`
	// Traffic describes the network between the nodes, and makes the traffic count that a Prometheus tells of. By default
	// policies that look at traffic see none.
	Traffic *traffic.Config `json:"traffic,omitempty"`
	// Learn makes the profile explore and learn; it needs a Checkpoint. By default the profile does neither.
	Learn *LearnArgs `json:"learn,omitempty"`
	// Canary leaves the network or the heuristic a share of the pods, and the others to kube-scheduler's default scoring. By default
	// it has all pods.
	Canary *canary.Args `json:"share,omitempty"`
}

// DecodeArgs decodes the arguments of a profile, rejects unknown fields and fills in the defaults. A
// nil object gives the defaults. Errors name the profile.
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
	if err := a.Default(profile); err != nil {
		return Args{}, fmt.Errorf("arguments of %s in profile %s: %w", Name, profile, err)
	}
	return a, nil
}

// Default fills in what is left out, and returns an error for the first invalid value. profile is the scheduler name. What a's pointers
// point to stays as it is.
func (a *Args) Default(profile string) error {
	a.Preferences = cmp.Or(a.Preferences, preference.First)
	for _, check := range []func() error{
		func() error { return a.chooseDecider(profile) }, a.validateLearn, a.defaultParts, a.Preferences.Validate, a.validateCanary,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	a.Deadline.Duration = cmp.Or(a.Deadline.Duration, 100*time.Millisecond)
	if a.ReloadInterval.Duration == 0 {
		a.ReloadInterval.Duration = 2 * time.Second
		if a.Learn != nil {
			a.ReloadInterval.Duration = 200 * time.Millisecond
		}
	}
	if a.Deadline.Duration < 0 || a.ReloadInterval.Duration < 0 {
		return errors.New("deadline and reloadInterval must be positive")
	}
	return nil
}

// chooseDecider checks that the arguments name exactly one decider: a heuristic, a checkpoint file,
// or a shipped checkpoint. It fills in the default variant.
func (a *Args) chooseDecider(profile string) error {
	if a.Policy != "" {
		if a.Variant != "" || a.Checkpoint != "" {
			return fmt.Errorf("policy %q excludes variant and checkpoint, which select a network; keep one of them", a.Policy)
		}
		_, err := heuristic.Find(a.Policy)
		return err
	}
	a.Variant = cmp.Or(a.Variant, profile)
	if a.Checkpoint == "" && !slices.Contains(Networks(), a.Variant) {
		return fmt.Errorf("there is neither a checkpoint nor a policy, and %w", choice.Unknown("variant", a.Variant, Networks()))
	}
	return nil
}

// defaultParts fills in the defaults of copies of Usage, Traffic and Canary.
func (a *Args) defaultParts() error {
	var faults []error
	if a.Usage != nil {
		a.Usage = new(*a.Usage)
		faults = append(faults, a.Usage.Default())
	}
	if a.Traffic != nil {
		a.Traffic = new(*a.Traffic)
		faults = append(faults, a.Traffic.Default())
	}
	if a.Canary != nil {
		a.Canary = new(*a.Canary)
		faults = append(faults, a.Canary.Default())
	}
	return errors.Join(faults...)
}

// validateCanary checks that the rest of the arguments goes with a share.
func (a *Args) validateCanary() error {
	switch {
	case a.Canary != nil && a.Learn != nil:
		return errors.New("share: a profile that learns decides about all its pods; leave learn or share out")
	case a.Canary != nil && a.Preferences == preference.Blend:
		return errors.New("share: blended scores would count for the rest of the pods too; choose other preferences")
	}
	return nil
}

func (a *Args) validateLearn() error {
	switch {
	case a.Learn == nil:
		return nil
	case a.Checkpoint == "":
		return errors.New("learn: checkpoint is missing, the file that the trainer writes and the profile reads")
	}
	if err := a.Learn.validate(); err != nil {
		return err
	}
	c, err := checkpoint.Load(a.Checkpoint)
	if err != nil {
		return nil // the file may come later, as without learn
	}
	if err := c.CheckOnline(); err != nil { // else the trainer would refuse it at every start
		return fmt.Errorf("learn: %s: %w", a.Checkpoint, err)
	}
	return nil
}

// LearnArgs make a profile learn while it schedules. It explores and sends its placements to a
// trainer process, which writes the checkpoint that the profile loads.
type LearnArgs struct {
	// Trainer is the program and its arguments. It reads the placements from its
	// standard input until the stream ends, and writes the checkpoint.
	Trainer []string `json:"trainer"`
	// InitEpsilon is the probability at first with which a random feasible node is chosen. It is multiplied by EpsilonDecay after each
	// decision, down to FinalEpsilon.
	InitEpsilon  float64 `json:"initEpsilon,omitempty"`
	EpsilonDecay float64 `json:"epsilonDecay,omitempty"`
	FinalEpsilon float64 `json:"finalEpsilon,omitempty"`
}

// validate returns an error for the first invalid value.
func (a LearnArgs) validate() error {
	if len(a.Trainer) == 0 || a.Trainer[0] == "" {
		return errors.New("learn: trainer is missing")
	}
	for _, v := range []struct {
		name             string
		value, low, high float64
	}{
		{"initEpsilon", a.InitEpsilon, 0, 1},
		{"finalEpsilon", a.FinalEpsilon, 0, a.InitEpsilon},
		{"epsilonDecay", a.EpsilonDecay, 0, 1},
	} {
		if !(v.value >= v.low && v.value <= v.high) {
			return fmt.Errorf("learn: %s is %v, want a value from %v to %v", v.name, v.value, v.low, v.high)
		}
	}
	return nil
}

// spreadsBesideTraffic reports whether upstream's default topology spread is weighed against what the profile sees of traffic.
func (a Args) spreadsBesideTraffic() bool {
	return a.Traffic != nil && a.Preferences == preference.First
}
