package cluster

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"gnnsched/internal/cluster/mig"
	"gnnsched/internal/each"
)

// Reason is why a pod does not fit a node. It is empty if the pod fits.
type Reason string

// The reasons, in the order in which Fit checks them.
const (
	Fits         Reason = ""
	Cordoned     Reason = "node is unschedulable"
	Untolerated  Reason = "untolerated taint"
	SelectorMiss Reason = "node selector or affinity does not match"
	WrongModel   Reason = "gpu model does not match"
	TooManyPods  Reason = "too many pods"
	NoCPU        Reason = "insufficient cpu"
	NoMemory     Reason = "insufficient memory"
	NoGPU        Reason = "insufficient gpu"
	NoDevice     Reason = "no gpu device with room for the share"
)

// Fit applies those filters of kube-scheduler that these values can express: cordoned nodes,
// taints, node selector and resources. It also checks the GPU model. A request for whole GPUs needs
// as many idle devices, a share needs one device with room. If the devices of the node are not
// known one by one, whole GPUs are only counted and no share fits. A MIG partition also needs free memory slices, if they are known.
func (n *Node) Fit(p *Pod) Reason {
	if reason := n.Allows(p); reason != Fits {
		return reason
	}
	r := &p.Requests
	switch {
	case n.Requested.Pods >= n.Allocatable.Pods:
		return TooManyPods
	case !fits(r.MilliCPU, n.Allocatable.MilliCPU-n.Requested.MilliCPU):
		return NoCPU
	case !fits(r.Memory, n.Allocatable.Memory-n.Requested.Memory):
		return NoMemory
	case r.GPU > 0 && !n.fitsDevices(r):
		return NoGPU
	case r.GPUMilli > 0 && !n.fitsDevices(r):
		return NoDevice
	case p.Partition != mig.None && n.Slices != nil && !slices.ContainsFunc(n.Slices, p.Partition.Fits):
		return NoDevice
	}
	return Fits
}

// Allows is Fit without what other pods use: whether pods like p may run on the node if it has room.
func (n *Node) Allows(p *Pod) Reason {
	if n.Unschedulable {
		return Cordoned
	}
	if !n.Tolerated(p.Tolerations) {
		return Untolerated
	}
	for k, v := range p.NodeSelector {
		if got, ok := n.Labels[k]; !ok || got != v {
			return SelectorMiss
		}
	}
	if !n.meetsOne(p.NodeAffinity) {
		return SelectorMiss
	}
	if len(p.GPUModels) > 0 && !slices.Contains(p.GPUModels, n.GPUModel) {
		return WrongModel
	}
	return Fits
}

// Places returns how many further pods that request r have room on the node. A share of a device counts once for each time that a device
// has room for it. Where MIG partitions may start is not looked at.
func (n *Node) Places(r *Resources) int64 {
	free := n.Free()
	places := min(r.FitsInto(free), free.Pods)
	switch {
	case r.GPU > 0 && n.GPUs == nil:
		places = min(places, free.GPU/r.GPU)
	case r.GPU > 0:
		places = min(places, n.IdleDevices()/r.GPU)
	case r.GPUMilli > 0:
		var shares int64
		for _, used := range n.GPUs {
			shares += max(DeviceMilli-used, 0) / r.GPUMilli
		}
		places = min(places, shares)
	}
	return max(places, 0)
}

// With returns a copy of the node with a further pod that requests r, to ask for its Places. It shares what the pod does not change.
func (n *Node) With(r Resources) Node {
	out := *n
	r.Pods = 1
	out.Requested = n.Requested.Plus(r)
	if r.TotalGPUMilli() > 0 && n.GPUs != nil {
		out.GPUs = slices.Clone(n.GPUs)
		out.useDevices(r, n.ChooseDevices(r), 1)
	}
	return out
}

// Offers returns what the node offers to pods: nothing if it is cordoned or a control plane's. Taints of pools do not matter, as who
// tolerates them waits too.
func (n *Node) Offers() (out Resources) {
	if !n.Unschedulable && !slices.ContainsFunc(n.Taints, Taint.ControlPlane) {
		return n.Allocatable
	}
	return out
}

// Available reports whether the node admits pods without tolerations. Control-plane nodes usually
// do not.
func (n *Node) Available() bool { return n.Admits(nil) }

// Admits reports whether the node admits pods with the given tolerations: it is not cordoned, and
// its taints are tolerated.
func (n *Node) Admits(tolerations []Toleration) bool {
	return !n.Unschedulable && n.Tolerated(tolerations)
}

// Tolerated reports whether the tolerations match each of the node's taints, except those with the
// effect PreferNoSchedule.
func (n *Node) Tolerated(tolerations []Toleration) bool {
	for _, t := range n.Taints {
		if t.Effect != PreferNoSchedule && !tolerated(tolerations, t) {
			return false
		}
	}
	return true
}

// Avoids returns the number of the node's taints with the effect PreferNoSchedule that are not
// tolerated.
func (n *Node) Avoids(tolerations []Toleration) (count int) {
	for _, t := range n.Taints {
		if t.Effect == PreferNoSchedule && !tolerated(tolerations, t) {
			count++
		}
	}
	return count
}

// FitsOn reports whether a pod with requests r has room on the given devices of n: their number is the number that r needs (one for a
// share, none without GPUs), and each has room.
func (n *Node) FitsOn(r Resources, on DeviceSet) bool {
	count, each := r.GPU, int64(DeviceMilli)
	if r.GPUMilli > 0 {
		count, each = 1, r.GPUMilli
	}
	if int64(on.Len()) != count || on>>len(n.GPUs) != 0 {
		return false
	}
	for i, used := range n.GPUs {
		if on.Has(i) && used+each > DeviceMilli {
			return false
		}
	}
	return true
}

// fitsDevices reports whether the devices of n have room for a request for GPUs.
func (n *Node) fitsDevices(r *Resources) bool {
	if r.GPU > 0 {
		if n.GPUs == nil {
			return r.GPU <= n.Allocatable.GPU-n.Requested.GPU
		}
		return r.GPU <= n.IdleDevices()
	}
	for _, used := range n.GPUs {
		if used+r.GPUMilli <= DeviceMilli {
			return true
		}
	}
	return false
}

// Effect is the effect of a taint on pods that do not tolerate it.
type Effect string

// The effects of Kubernetes. NoSchedule and NoExecute keep new pods off a node, PreferNoSchedule
// does not.
const (
	NoSchedule       Effect = "NoSchedule"
	PreferNoSchedule Effect = "PreferNoSchedule"
	NoExecute        Effect = "NoExecute"
)

// Taint keeps pods off a node unless they tolerate it.
type Taint struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Effect Effect `json:"effect"`
}

// ControlPlane reports whether the taint marks a control plane on which ordinary pods cannot run. Some control planes have no such
// taint (k3s, minikube): they are workers too.
func (t Taint) ControlPlane() bool {
	switch t.Key {
	case "node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master":
		return t.Effect == NoSchedule || t.Effect == NoExecute
	}
	return false
}

// Toleration lets a pod run on nodes with matching taints. An empty Key matches every key and an
// empty Effect every effect. With Exists, Value is ignored.
type Toleration struct {
	Key, Value string
	Exists     bool
	Effect     Effect
}

// TolerationsKey returns a text that is the same for equal lists, and different for others.
func TolerationsKey(list []Toleration) string {
	var key []byte
	for _, t := range list {
		key = strconv.AppendQuote(key, t.Key)
		key = strconv.AppendQuote(key, t.Value)
		key = strconv.AppendBool(key, t.Exists)
		key = append(append(key, t.Effect...), ';')
	}
	return string(key)
}

// tolerates reports whether t matches the taint x.
func (t Toleration) tolerates(x Taint) bool {
	if t.Effect != "" && t.Effect != x.Effect {
		return false
	}
	if t.Key != "" && t.Key != x.Key {
		return false
	}
	return t.Exists || (t.Key != "" && t.Value == x.Value)
}

// tolerated reports whether one of the tolerations matches the taint x.
func tolerated(tolerations []Toleration, x Taint) bool {
	for _, t := range tolerations {
		if t.tolerates(x) {
			return true
		}
	}
	return false
}

// Sums are the running sums of some values. The zero value holds none.
type Sums struct{ N, Sum, squares float64 }

// Add adds the value x.
func (s *Sums) Add(x float64) { s.N, s.Sum, s.squares = s.N+1, s.Sum+x, s.squares+x*x }

// Replace exchanges a value for another.
func (s *Sums) Replace(old, new float64) {
	s.Sum += new - old
	s.squares += new*new - old*old
}

// Moved returns the sums after one of the values, x, has grown by d.
func (s Sums) Moved(x, d float64) Sums {
	return Sums{s.N, s.Sum + d, s.squares + d*(2*x+d)}
}

// Mean returns the mean of the values; 0 if there are none.
func (s Sums) Mean() float64 { return s.Sum / max(s.N, 1) }

// Std returns the population's standard deviation; 0 if there are no values.
func (s Sums) Std() float64 {
	mean := s.Mean()
	return math.Sqrt(max(s.squares/max(s.N, 1)-mean*mean, 0))
}

// Requirement is a condition on a node's labels, as in a pod's node affinity. Operator is In, NotIn, Exists, DoesNotExist, Gt or Lt. With
// any other operator no node meets the condition.
type Requirement struct {
	Key      string   `json:"key"`
	Operator string   `json:"operator"`
	Values   []string `json:"values,omitempty"`
}

// met reports whether labels meet the requirement. As in Kubernetes, NotIn is met without the label, and Gt and Lt need whole numbers.
func (r Requirement) met(labels map[string]string) bool {
	v, has := labels[r.Key]
	switch r.Operator {
	case "In":
		return has && slices.Contains(r.Values, v)
	case "NotIn":
		return !has || !slices.Contains(r.Values, v)
	case "Exists":
		return has
	case "DoesNotExist":
		return !has
	case "Gt", "Lt":
		if !has || len(r.Values) != 1 {
			return false
		}
		a, err := strconv.ParseInt(v, 10, 64)
		b, err2 := strconv.ParseInt(r.Values[0], 10, 64)
		return err == nil && err2 == nil && (r.Operator == "Gt" && a > b || r.Operator == "Lt" && a < b)
	}
	return false
}

// mostTerms is the largest number of terms that BothTerms makes of two lists: whoever writes manifests could ask for any number.
const mostTerms = 1024

// BothTerms returns terms that are met where one of each of two lists is met. An empty list is met everywhere. If they would be too many,
// it returns the first list.
func BothTerms(a, b [][]Requirement) (both [][]Requirement) {
	switch {
	case len(a) == 0 || len(b) == 0:
		return append(a, b...)
	case len(a)*len(b) > mostTerms:
		return a
	}
	for _, x := range a {
		for _, y := range b {
			if len(x) > 0 && len(y) > 0 { // a term without requirements is not met
				both = append(both, slices.Concat(x, y))
			}
		}
	}
	if both == nil {
		both = [][]Requirement{{}}
	}
	return both
}

// text writes the requirement as kubectl's selectors do.
func (r Requirement) text() string {
	switch r.Operator {
	case "Exists":
		return r.Key
	case "DoesNotExist":
		return "!" + r.Key
	case "Gt":
		return r.Key + ">" + strings.Join(r.Values, ",")
	case "Lt":
		return r.Key + "<" + strings.Join(r.Values, ",")
	case "In":
		if len(r.Values) == 1 {
			return r.Key + "=" + r.Values[0]
		}
	}
	return r.Key + " " + strings.ToLower(r.Operator) + " (" + strings.Join(r.Values, ",") + ")"
}

// Where writes which labels a node must have to run the pod, such as "disk=ssd, zone in (a,b)"; empty if it needs none.
func (p *Pod) Where() string {
	all := each.Map(slices.Sorted(maps.Keys(p.NodeSelector)), func(k string) string { return k + "=" + p.NodeSelector[k] })
	var terms []string
	for _, term := range p.NodeAffinity {
		terms = append(terms, strings.Join(each.Map(term, Requirement.text), ", "))
	}
	if len(terms) > 0 {
		all = append(all, strings.Join(terms, " or "))
	}
	text := strings.Join(all, ", ")
	if len(text) > longestWhere {
		text = text[:longestWhere] + "…"
	}
	return text
}

// longestWhere is the length at which Where cuts its text.
const longestWhere = 120

// meetsOne reports whether the node's labels meet all requirements of one of the terms. Without terms they do. As in Kubernetes, a term
// without requirements is not met.
func (n *Node) meetsOne(terms [][]Requirement) bool {
	return len(terms) == 0 || slices.ContainsFunc(terms, func(all []Requirement) bool {
		return len(all) > 0 && !slices.ContainsFunc(all, func(r Requirement) bool { return !r.met(n.Labels) })
	})
}
