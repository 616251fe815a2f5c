package nodepool

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	// MaxNodes is the largest number of nodes that all pools may have together. Kubernetes
	// itself is tested to 5,000; the bound catches a slip of the finger.
	MaxNodes = 100_000
	// maxAmount is the largest amount of any resource; arithmetic on it stays far from 63 bits,
	// even in thousandths.
	maxAmount = 8e15
	// maxNameLength leaves room for "-99999" in the 63 characters of a host name label.
	maxNameLength = 57
	// defaultPods is the number of pods of a node whose capacity does not say one, as in a
	// kubelet.
	defaultPods = "110"
)

// Pool is a group of equal nodes. The nodes are named NAME-0, NAME-1 and so on, so that a
// pool that grows or shrinks keeps the nodes that it can.
type Pool struct {
	Name     string              `json:"name"`             // prefix of the nodes' names, unique among the pools
	Count    int                 `json:"count"`            // number of nodes; 0 is allowed and means none
	Capacity corev1.ResourceList `json:"capacity"`         // of one node; cpu and memory at least; pods default to 110
	Labels   map[string]string   `json:"labels,omitempty"` // besides those that every node gets
	Taints   []corev1.Taint      `json:"taints,omitempty"`
	Zones    []string            `json:"zones,omitempty"` // the nodes take turns: topology.kubernetes.io/zone
}

// Default returns the pools of a cluster for which none were chosen: nodes of 64 CPU,
// 256Gi and 110 pods, and one control-plane node that is tainted so that no ordinary pod
// lands there.
func Default(nodes int) []Pool {
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("64"),
		corev1.ResourceMemory: resource.MustParse("256Gi"),
		corev1.ResourcePods:   resource.MustParse(defaultPods),
	}
	return []Pool{
		{
			Name: "control-plane", Count: 1, Capacity: capacity.DeepCopy(),
			Labels: map[string]string{roleControlPlane: ""},
			Taints: []corev1.Taint{{Key: roleControlPlane, Effect: corev1.TaintEffectNoSchedule}},
		},
		{
			Name: "node", Count: nodes, Capacity: capacity,
			Labels: map[string]string{"node-role.kubernetes.io/agent": ""},
		},
	}
}

const roleControlPlane = "node-role.kubernetes.io/control-plane"

// Nodes returns how many nodes the pools have together.
func Nodes(pools []Pool) int {
	n := 0
	for _, p := range pools {
		n += p.Count
	}
	return n
}

// FieldError says which field of which pool is wrong, and why.
type FieldError struct {
	Path []any // field names (string) and indices (int), from the top: "pools", 1, "capacity", "cpu"
	Why  string
}

// Error implements error: "pools[1].capacity.cpu: why".
func (e *FieldError) Error() string { return joinPath(e.Path) + ": " + e.Why }

// plainField is a field name that needs no quotes in a path.
var plainField = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

func joinPath(path []any) string {
	var b strings.Builder
	for _, p := range path {
		switch p := p.(type) {
		case string:
			switch {
			case !plainField.MatchString(p):
				fmt.Fprintf(&b, "[%q]", p)
			case b.Len() > 0:
				b.WriteString("." + p)
			default:
				b.WriteString(p)
			}
		default:
			fmt.Fprintf(&b, "[%v]", p)
		}
	}
	return b.String()
}

// Validate checks pools and returns every fault, joined; each is a *FieldError.
func Validate(pools []Pool) error {
	var errs []error
	add := func(why string, path ...any) {
		errs = append(errs, &FieldError{Path: append([]any{"pools"}, path...), Why: why})
	}
	seen := map[string]int{}
	total := 0
	for i, p := range pools {
		if first, dup := seen[p.Name]; dup {
			add(fmt.Sprintf("%q is also the name of pools[%d]", p.Name, first), i, "name")
		}
		seen[p.Name] = i
		if p.Count >= 0 && p.Count <= MaxNodes {
			total += p.Count
		}
		p.validate(func(why string, path ...any) { add(why, append([]any{i}, path...)...) })
	}
	if total > MaxNodes {
		add(fmt.Sprintf("%d nodes in all, more than the %d that are allowed", total, MaxNodes))
	}
	return errors.Join(errs...)
}

func (p *Pool) validate(add func(why string, path ...any)) {
	switch {
	case p.Name == "":
		add("must be given: it is the prefix of the nodes' names", "name")
	case len(p.Name) > maxNameLength:
		add(fmt.Sprintf("has %d characters, more than %d", len(p.Name), maxNameLength), "name")
	default:
		for _, why := range validation.IsDNS1123Label(p.Name) {
			add(fmt.Sprintf("%q: %s", p.Name, why), "name")
		}
	}
	if p.Count < 0 || p.Count > MaxNodes {
		add(fmt.Sprintf("%d is not between 0 and %d", p.Count, MaxNodes), "count")
	}
	p.validateCapacity(add)
	for _, k := range slices.Sorted(maps.Keys(p.Labels)) {
		for _, why := range validation.IsQualifiedName(k) {
			add(fmt.Sprintf("%q is not a label key: %s", k, why), "labels", k)
		}
		for _, why := range validation.IsValidLabelValue(p.Labels[k]) {
			add(fmt.Sprintf("%q is not a label value: %s", p.Labels[k], why), "labels", k)
		}
		if reserved[k] {
			add("is set by gnnsched on every node", "labels", k)
		}
		if k == corev1.LabelTopologyZone && len(p.Zones) > 0 {
			add("is also given by zone or zones; keep one", "labels", k)
		}
	}
	p.validateTaints(add)
	for i, z := range p.Zones {
		if z == "" {
			add("must not be empty", "zones", i)
		}
		for _, why := range validation.IsValidLabelValue(z) {
			add(fmt.Sprintf("%q is not a label value: %s", z, why), "zones", i)
		}
	}
}

func (p *Pool) validateCapacity(add func(why string, path ...any)) {
	for _, need := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if _, ok := p.Capacity[need]; !ok {
			add("must say "+string(need), "capacity")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Capacity)) {
		q, n := p.Capacity[name], string(name)
		if why := resourceName(n); why != "" {
			add(why, "capacity", n)
		}
		switch {
		case q.Sign() < 0:
			add(fmt.Sprintf("%s is negative", q.String()), "capacity", n)
		case q.Sign() == 0 && (name == corev1.ResourceCPU || name == corev1.ResourceMemory):
			add("must be more than 0", "capacity", n)
		case q.AsApproximateFloat64() > maxAmount:
			add(fmt.Sprintf("is more than %g", maxAmount), "capacity", n)
		case name != corev1.ResourceCPU && !wholeNumber(q):
			add(fmt.Sprintf("%s is not a whole number", q.String()), "capacity", n)
		}
	}
}

// wholeNumber tells whether q is an integer of at most 63 bits; the API server accepts
// nothing else for a resource that cannot be divided.
func wholeNumber(q resource.Quantity) bool {
	_, ok := q.AsInt64()
	return ok
}

// resourceName returns why n names no resource of a node, or "".
func resourceName(n string) string {
	switch corev1.ResourceName(n) {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourcePods:
		return ""
	}
	if strings.HasPrefix(n, corev1.ResourceHugePagesPrefix) {
		if _, err := resource.ParseQuantity(strings.TrimPrefix(n, corev1.ResourceHugePagesPrefix)); err != nil {
			return fmt.Sprintf("%q does not end in a page size such as 2Mi", n)
		}
		return ""
	}
	if !strings.Contains(n, "/") {
		return fmt.Sprintf("%q is not a resource of a node: use cpu, memory, ephemeral-storage, pods, hugepages-SIZE, or an extended one with its domain, such as nvidia.com/gpu", n)
	}
	if strings.HasPrefix(n, "requests.") {
		return fmt.Sprintf("%q must not begin with \"requests.\"", n)
	}
	if msgs := validation.IsQualifiedName(n); len(msgs) > 0 {
		return fmt.Sprintf("%q: %s", n, msgs[0])
	}
	return ""
}

func (p *Pool) validateTaints(add func(why string, path ...any)) {
	type identity struct {
		key    string
		effect corev1.TaintEffect
	}
	seen := map[identity]bool{}
	for i, t := range p.Taints {
		if t.Key == "" {
			add("must be given", "taints", i, "key")
		} else {
			for _, why := range validation.IsQualifiedName(t.Key) {
				add(fmt.Sprintf("%q: %s", t.Key, why), "taints", i, "key")
			}
		}
		for _, why := range validation.IsValidLabelValue(t.Value) {
			add(fmt.Sprintf("%q: %s", t.Value, why), "taints", i, "value")
		}
		switch t.Effect {
		case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
		default:
			add(fmt.Sprintf("%q is not NoSchedule, PreferNoSchedule or NoExecute", t.Effect), "taints", i, "effect")
		}
		id := identity{t.Key, t.Effect}
		if seen[id] {
			add("the pool has this key with this effect twice", "taints", i)
		}
		seen[id] = true
	}
}
