package autoscale

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"gnnsched/workload/record"
)

// The labels of machines that Karpenter sets, which manifests of pods and pools name.
const (
	poolLabel     = "karpenter.sh/nodepool"
	capacityLabel = "karpenter.sh/capacity-type"
	spot          = "spot"
	onDemand      = "on-demand"
)

// Catalog lists the types of machines that can be bought and the pools that may start them.
type Catalog struct {
	Types []Type
	Pools []Pool   // those of higher weight first
	Notes []string // what the files hold and nothing here uses
}

// Type is a type of machine.
type Type struct {
	Name        string
	Capacity    v1.ResourceList
	Allocatable v1.ResourceList
	Labels      map[string]string // besides those of name, zone and capacity type, with architecture and operating system
	Offerings   []Offering
	Boot        time.Duration // from the start of a machine until it takes pods
	// Interruptions is how many of its spot machines the provider takes back, an hour and machine.
	Interruptions float64
	// Failures is the share of its machines that are started and never come.
	Failures float64
}

// Offering is a place and a price for a type.
type Offering struct {
	Zone  string
	Spot  bool
	Price float64 // an hour, in any currency
}

// Pool is a set of types that an autoscaler may start, as a NodePool of Karpenter describes it.
type Pool struct {
	Name         string
	Weight       int32 // pools of higher weight come first
	Requirements []v1.NodeSelectorRequirement
	Labels       map[string]string
	Taints       []v1.Taint
	Limits       v1.ResourceList // of all its machines together, with "nodes"; nil: none
	// Manifest is the whole NodePool in JSON, for a scaler that reads more of it.
	Manifest []byte
	// Zones are those of its class's subnets, also in Requirements but not in the manifest; empty: any.
	Zones []string

	class   string // its name
	kubelet *kubelet
}

// Type returns a type by its name; nil if there is none.
func (c *Catalog) Type(name string) *Type {
	for i := range c.Types {
		if c.Types[i].Name == name {
			return &c.Types[i]
		}
	}
	return nil
}

// Pool returns a pool by its name; nil if there is none.
func (c *Catalog) Pool(name string) *Pool {
	for i := range c.Pools {
		if c.Pools[i].Name == name {
			return &c.Pools[i]
		}
	}
	return nil
}

// Price returns what a machine costs an hour; 0 if the catalog has no such machine.
func (c *Catalog) Price(l Launch) float64 {
	if t := c.Type(l.Type); t != nil {
		for _, o := range t.Offerings {
			if o.Zone == l.Zone && o.Spot == l.Spot {
				return o.Price
			}
		}
	}
	return 0
}

// Node returns the node that a machine becomes, without pods. The catalog must have its type; its pool may be unknown.
func (c *Catalog) Node(l Launch) *v1.Node {
	t := c.Type(l.Type)
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: l.Name, UID: types.UID(l.Name), Labels: map[string]string{}}}
	p := c.Pool(l.Pool)
	if p != nil {
		for _, r := range p.Requirements { // a pool's only value for a key is a label of its machines
			if r.Operator == v1.NodeSelectorOpIn && len(r.Values) == 1 {
				n.Labels[r.Key] = r.Values[0]
			}
		}
		maps.Copy(n.Labels, p.Labels)
		n.Labels[poolLabel] = p.Name
		n.Spec.Taints = slices.Clone(p.Taints)
	}
	maps.Copy(n.Labels, t.Labels)
	n.Labels[v1.LabelHostname], n.Labels[v1.LabelInstanceTypeStable] = l.Name, t.Name
	n.Labels[capacityLabel] = onDemand
	if l.Spot {
		n.Labels[capacityLabel] = spot
	}
	if l.Zone != "" {
		n.Labels[v1.LabelTopologyZone] = l.Zone
	}
	n.Status.Capacity, n.Status.Allocatable = t.Capacity.DeepCopy(), p.Allocatable(t).DeepCopy()
	return n
}

// Offers returns what a pool may start, a launch without a name for each type, zone and capacity type, in the order of the catalog.
func (c *Catalog) Offers(p *Pool) []Launch {
	var out []Launch
	for i := range c.Types {
		for _, o := range c.Types[i].Offerings {
			l := Launch{Pool: p.Name, Type: c.Types[i].Name, Zone: o.Zone, Spot: o.Spot}
			if p.allows(c.Node(l)) {
				out = append(out, l)
			}
		}
	}
	return out
}

// allows reports whether a node satisfies the pool's requirements and its kubelet leaves anything to pods.
func (p *Pool) allows(n *v1.Node) bool {
	if n.Status.Allocatable.Cpu().Sign() <= 0 || n.Status.Allocatable.Memory().Sign() <= 0 {
		return false
	}
	if len(p.Requirements) == 0 {
		return true
	}
	term := v1.NodeSelectorTerm{MatchExpressions: p.Requirements}
	ok, err := corev1.MatchNodeSelectorTerms(n, &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{term}})
	return ok && err == nil
}

// Match returns as what a machine that is there already was started: of the type that its label names, or else of the type with its
// capacity, within a hundredth. Its pool is the one that its label names, or else the first that may start such a machine, with the same
// taints. ok is false if no type has its capacity.
func (c *Catalog) Match(n *v1.Node) (l Launch, ok bool) {
	l = Launch{Name: n.Name, Zone: n.Labels[v1.LabelTopologyZone], Spot: n.Labels[capacityLabel] == spot}
	t := c.Type(n.Labels[v1.LabelInstanceTypeStable])
	for i := 0; t == nil && i < len(c.Types); i++ {
		if x := &c.Types[i]; same(x.Capacity, n.Status.Capacity) || same(x.Allocatable, n.Status.Allocatable) {
			t = x
		}
	}
	if t == nil || len(t.Offerings) == 0 {
		return l, false
	}
	l.Type = t.Name
	i := slices.IndexFunc(t.Offerings, func(o Offering) bool { return o.Zone == l.Zone && o.Spot == l.Spot })
	if i < 0 { // a zone of another name: it costs what the type costs on demand
		first := slices.MinFunc(t.Offerings, func(a, b Offering) int {
			return cmp.Or(btoi(a.Spot != l.Spot)-btoi(b.Spot != l.Spot), cmp.Compare(a.Price, b.Price))
		})
		l.Zone, l.Spot = first.Zone, first.Spot
	}
	if p := c.Pool(n.Labels[poolLabel]); p != nil {
		l.Pool = p.Name
		return l, true
	}
	for i := range c.Pools {
		p := &c.Pools[i]
		with := l
		with.Pool = p.Name
		if sameTaints(p.Taints, n.Spec.Taints) && p.allows(c.Node(with)) {
			return with, true
		}
	}
	return l, true
}

// same reports whether two capacities agree in CPU, memory and devices, within a hundredth.
func same(a, b v1.ResourceList) bool {
	const within = 0.01
	for name, q := range a {
		if name == v1.ResourcePods || name == v1.ResourceEphemeralStorage {
			continue
		}
		x, other := q.AsApproximateFloat64(), b[name]
		if y := other.AsApproximateFloat64(); math.Abs(x-y) > within*max(x, y) {
			return false
		}
	}
	for name, q := range b {
		if _, has := a[name]; !has && name != v1.ResourcePods && name != v1.ResourceEphemeralStorage && q.Sign() > 0 {
			return false
		}
	}
	return len(a) > 0
}

func sameTaints(a, b []v1.Taint) bool {
	has := func(list []v1.Taint) func(v1.Taint) bool {
		return func(t v1.Taint) bool {
			return slices.ContainsFunc(list, func(x v1.Taint) bool { return x.MatchTaint(&t) && x.Value == t.Value })
		}
	}
	outside := func(list []v1.Taint, in []v1.Taint) bool {
		return slices.ContainsFunc(list, func(t v1.Taint) bool { return !has(in)(t) })
	}
	return !outside(a, b) && !outside(b, a)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Admits reports whether a pod's own constraints and a node's taints let it run there, room aside.
func Admits(p *v1.Pod, n *v1.Node) bool {
	if ok, err := nodeaffinity.GetRequiredNodeAffinity(p).Match(n); !ok || err != nil {
		return false
	}
	_, refused := corev1.FindMatchingUntoleratedTaint(klog.Background(), n.Spec.Taints, p.Spec.Tolerations, keepsOut, true)
	return !refused
}

// keepsOut reports whether a taint keeps pods out.
func keepsOut(t *v1.Taint) bool {
	return t.Effect == v1.TaintEffectNoSchedule || t.Effect == v1.TaintEffectNoExecute
}

// Recreated reports whether the pod's owner makes an evicted pod anew. Of a Job, the tries that are left are not looked at.
func Recreated(p *v1.Pod) bool {
	o := metav1.GetControllerOfNoCopy(p)
	return o != nil && (o.Kind == record.KindJob || record.Makes(o.Kind))
}

// OfDaemonSet reports whether the pod belongs to its node.
func OfDaemonSet(p *v1.Pod) bool {
	o := metav1.GetControllerOfNoCopy(p)
	return o != nil && o.Kind == record.KindDaemonSet
}

// empties returns an empty machine of each offer of the pools.
func (c *Catalog) empties(known sizes) (out []*bin) {
	for i := range c.Pools {
		for _, l := range c.Offers(&c.Pools[i]) {
			out = append(out, known.newBin(c.Node(l), nil))
		}
	}
	return out
}

// Unfit returns the pods that no machine of any pool could take, though it were empty.
func (c *Catalog) Unfit(pods []*v1.Pod) (out []*v1.Pod) {
	known := sizes{}
	machines := c.empties(known)
	for _, p := range pods {
		if !slices.ContainsFunc(machines, func(b *bin) bool { return b.could(p, known) }) {
			out = append(out, p)
		}
	}
	return out
}

// Useless returns the types whose machines could take none of the pods.
func (c *Catalog) Useless(pods []*v1.Pod) (out []string) {
	known, used := sizes{}, map[string]bool{}
	for _, b := range c.empties(known) {
		name := b.node.Labels[v1.LabelInstanceTypeStable]
		used[name] = used[name] || slices.ContainsFunc(pods, func(p *v1.Pod) bool { return b.could(p, known) })
	}
	for i := range c.Types {
		if name := c.Types[i].Name; !used[name] {
			out = append(out, name)
		}
	}
	return out
}
