package nodepool

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"gnnsched/internal/each"
)

const (
	// MaxNodes is the largest number of nodes in all pools together. It catches mistyped
	// numbers; Kubernetes itself is tested with 5,000 nodes.
	MaxNodes = 100_000
	// maxAmount is the largest amount of any resource. Its thousandths still fit into an int64.
	maxAmount = 8e15
	// maxNameLength leaves room for "-99999" in the 63 characters of a host name label.
	maxNameLength = 57
	// defaultPods is a kubelet's default pod limit.
	defaultPods = "110"
)

// Pool is a group of equal nodes. The nodes are named NAME-0, NAME-1 and so on.
type Pool struct {
	// prefix of the nodes' names; a DNS label of at most 57 characters, unique among the pools
	Name  string `json:"name"`
	Count int    `json:"count"` // number of nodes, 0 or more
	// of one node; cpu and memory are required; pods is 110 if left out; ephemeral-storage, hugepages-SIZE and extended resources are optional
	Capacity corev1.ResourceList `json:"capacity"`
	Labels   map[string]string   `json:"labels,omitempty"` // besides the labels of every node
	Taints   []corev1.Taint      `json:"taints,omitempty"` // key, optional value, and effect: NoSchedule, PreferNoSchedule or NoExecute
	// assigned to the nodes in turn, as topology.kubernetes.io/zone; or zone: with a single one
	Zones   []string  `json:"zones,omitempty"`
	Devices []Devices `json:"devices,omitempty"` // of each node, published in ResourceSlices
}

// Default returns two pools: the given number of nodes with 64 CPU, 256Gi and 110 pods, and one
// control-plane node with a taint that keeps ordinary pods off it.
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

// Nodes returns the number of nodes in all pools.
func Nodes(pools []Pool) int {
	return each.Sum(pools, func(p Pool) int { return p.Count })
}

// fieldError is a fault of one field.
type fieldError struct {
	path   []any // field names (string) and indices (int), from the top: "pools", 1, "capacity", "cpu"
	reason string
}

// Error implements error: "pools[1].capacity.cpu: reason".
func (e *fieldError) Error() string { return joinPath(e.path) + ": " + e.reason }

// report adds a fault of a field, whose path may begin below pools.
type report func(reason string, path ...any)

// when adds a fault if the field is wrong.
func (add report) when(wrong bool, reason string, path ...any) {
	if wrong {
		add(reason, path...)
	}
}

// plainField matches field names that need no quotes in a path.
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

// Validate returns every fault of the pools, joined. Each error begins with the wrong field:
// "pools[1].capacity.cpu: ...".
func Validate(pools []Pool) error {
	var errs []error
	var add report = func(reason string, path ...any) {
		errs = append(errs, &fieldError{path: append([]any{"pools"}, path...), reason: reason})
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
		p.validate(func(reason string, path ...any) { add(reason, append([]any{i}, path...)...) })
	}
	validateClasses(pools, add)
	add.when(total > MaxNodes, fmt.Sprintf("%d nodes in total are more than the %d that are allowed", total, MaxNodes))
	return errors.Join(errs...)
}

func (p *Pool) validate(add report) {
	switch {
	case p.Name == "":
		add("is required: it is the prefix of the nodes' names", "name")
	case len(p.Name) > maxNameLength:
		add(fmt.Sprintf("has %d characters, more than the %d that are allowed", len(p.Name), maxNameLength), "name")
	default:
		for _, why := range validation.IsDNS1123Label(p.Name) {
			add(fmt.Sprintf("%q: %s", p.Name, why), "name")
		}
	}
	add.when(p.Count < 0 || p.Count > MaxNodes, fmt.Sprintf("%d is not between 0 and %d", p.Count, MaxNodes), "count")
	p.validateCapacity(add)
	for _, k := range slices.Sorted(maps.Keys(p.Labels)) {
		for _, why := range validation.IsQualifiedName(k) {
			add(fmt.Sprintf("%q is not a label key: %s", k, why), "labels", k)
		}
		for _, why := range validation.IsValidLabelValue(p.Labels[k]) {
			add(fmt.Sprintf("%q is not a label value: %s", p.Labels[k], why), "labels", k)
		}
		add.when(reserved[k], "is set by kwokcluster on every node", "labels", k)
		add.when(k == corev1.LabelTopologyZone && len(p.Zones) > 0, "is also set by zone or zones; keep one of them", "labels", k)
	}
	p.validateTaints(add)
	p.validateDevices(add)
	for i, z := range p.Zones {
		add.when(z == "", "must not be empty", "zones", i)
		for _, why := range validation.IsValidLabelValue(z) {
			add(fmt.Sprintf("%q is not a label value: %s", z, why), "zones", i)
		}
	}
}

func (p *Pool) validateCapacity(add report) {
	for _, need := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if _, ok := p.Capacity[need]; !ok {
			add("must include "+string(need), "capacity")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Capacity)) {
		q, n := p.Capacity[name], string(name)
		if fault := resourceNameFault(n); fault != "" {
			add(fault, "capacity", n)
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

// wholeNumber reports whether q is an integer that fits into an int64. The API server requires
// this of all resources except CPU.
func wholeNumber(q resource.Quantity) bool {
	_, ok := q.AsInt64()
	return ok
}

// resourceNameFault returns "" if n can be a resource of a node, else the reason why not.
func resourceNameFault(n string) string {
	switch corev1.ResourceName(n) {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourcePods:
		return ""
	}
	if strings.HasPrefix(n, corev1.ResourceHugePagesPrefix) {
		if _, err := resource.ParseQuantity(strings.TrimPrefix(n, corev1.ResourceHugePagesPrefix)); err != nil {
			return fmt.Sprintf("%q does not end with a page size such as 2Mi", n)
		}
		return ""
	}
	if !strings.Contains(n, "/") {
		return fmt.Sprintf("%q is not a resource of a node: use cpu, memory, ephemeral-storage, pods, hugepages-SIZE, "+
			"or an extended resource with its domain, such as nvidia.com/gpu", n)
	}
	if strings.HasPrefix(n, "requests.") {
		return fmt.Sprintf("%q must not begin with \"requests.\"", n)
	}
	if msgs := validation.IsQualifiedName(n); len(msgs) > 0 {
		return fmt.Sprintf("%q: %s", n, msgs[0])
	}
	return ""
}

func (p *Pool) validateTaints(add report) {
	type identity struct {
		key    string
		effect corev1.TaintEffect
	}
	seen := map[identity]bool{}
	for i, t := range p.Taints {
		if t.Key == "" {
			add("is required", "taints", i, "key")
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
		add.when(seen[id], "repeats the key and effect of an earlier taint", "taints", i)
		seen[id] = true
	}
}

const (
	// LabelManagedBy has the value ManagedBy on the nodes that this package made. It changes and
	// deletes only those.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	ManagedBy      = "kwokcluster"
	// labelPool is the name of a node's pool.
	labelPool = "gnnsched.io/node-pool"
	// AnnotationFake, with the value "fake", makes kwok's controllers stand in for the node's
	// kubelet.
	AnnotationFake = "kwok.x-k8s.io/node"
	// annotationSpec is the node's last spec as JSON. With it, Reconcile knows which fields to remove if the pool changes, and leaves foreign
	// additions.
	annotationSpec = "gnnsched.io/node-pool-spec"
)

// reserved are labels that every node gets and a pool may not set. Every node also gets the operating system linux
// and the architecture amd64, unless its pool sets others.
var reserved = map[string]bool{
	LabelManagedBy: true, labelPool: true, "type": true, corev1.LabelHostname: true,
	labelOSBeta: true, labelArchBeta: true,
}

// The old labels of the operating system and architecture. The node controller would add missing
// ones, with a write for each.
const (
	labelOSBeta   = "beta.kubernetes.io/os"
	labelArchBeta = "beta.kubernetes.io/arch"
)

// spec is the part of a node that its pool determines.
type spec struct {
	Labels   map[string]string   `json:"labels"`
	Taints   []corev1.Taint      `json:"taints,omitempty"`
	Capacity corev1.ResourceList `json:"capacity"`
}

func (s spec) json() string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("a node's spec of strings and quantities does not marshal: %v", err)) // cannot happen
	}
	return string(b)
}

// spec returns the spec of the pool's node number i, from 0.
func (p *Pool) spec(i int) spec {
	name := p.NodeName(i)
	labels := map[string]string{corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64"}
	maps.Copy(labels, p.Labels)
	labels[LabelManagedBy], labels[labelPool] = ManagedBy, p.Name
	labels["type"] = "kwok"
	labels[corev1.LabelHostname] = name
	labels[labelOSBeta], labels[labelArchBeta] = labels[corev1.LabelOSStable], labels[corev1.LabelArchStable]
	if len(p.Zones) > 0 {
		labels[corev1.LabelTopologyZone] = p.Zones[i%len(p.Zones)]
	}
	capacity := p.Capacity.DeepCopy()
	if _, ok := capacity[corev1.ResourcePods]; !ok {
		capacity[corev1.ResourcePods] = resource.MustParse(defaultPods)
	}
	return spec{Labels: labels, Taints: p.Taints, Capacity: capacity}
}

// NodeName returns the name of the pool's node number i, from 0.
func (p *Pool) NodeName(i int) string { return p.Name + "-" + strconv.Itoa(i) }

// Node returns node number i, from 0, for its creation. kwok sets its conditions, IP address and versions.
func (p *Pool) Node(i int) *corev1.Node {
	s := p.spec(i)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: p.NodeName(i), Labels: s.Labels,
			Annotations: map[string]string{AnnotationFake: "fake", annotationSpec: s.json()},
		},
		Spec: corev1.NodeSpec{Taints: s.Taints},
		Status: corev1.NodeStatus{
			Capacity: s.Capacity, Allocatable: s.Capacity.DeepCopy(), Phase: corev1.NodePending,
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: p.NodeName(i)}},
		},
	}
}
