package observe

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/quote"
	"gnnsched/workload/record"
)

// Objects are the objects of a file that a record can hold.
type Objects struct {
	Nodes   []*corev1.Node
	Pods    []*corev1.Pod
	others  map[string][]record.Object // by kind
	Skipped map[string]int             // number of other objects by kind
	Bounded Bounded
}

// Bounded says of which pods a record holds less than they ask for, because no cluster has so much.
type Bounded struct {
	Pods  int
	First string // the name of the first, and what it asks for
}

// ReadObjects reads what `kubectl get pods,nodes -A -o json` prints: a list of objects, or several lists or objects one
// after another. Errors name the file and the object.
func ReadObjects(r io.Reader, file string) (Objects, error) {
	out := Objects{others: map[string][]record.Object{}, Skipped: map[string]int{}}
	dec := json.NewDecoder(r)
	for n := 1; ; n++ {
		var doc struct {
			Kind    string            `json:"kind"`
			Version string            `json:"apiVersion"`
			Items   []json.RawMessage `json:"items"`
		}
		var raw json.RawMessage
		err := dec.Decode(&raw)
		if errors.Is(err, io.EOF) && n > 1 {
			return out, nil
		}
		if errors.Is(err, io.EOF) {
			return out, fmt.Errorf("%s: the file is empty", file)
		}
		if err == nil {
			err = json.Unmarshal(raw, &doc)
		}
		if err == nil && doc.Kind == "List" {
			err = versionFault(doc.Version, "v1")
		}
		if err != nil {
			return out, fmt.Errorf("%s: byte %d: not what kubectl -o json prints: %w", file, dec.InputOffset(), err)
		}
		if doc.Items == nil {
			doc.Items = []json.RawMessage{raw}
		}
		for i, item := range doc.Items {
			if err := out.add(item, doc.Kind); err != nil {
				return out, fmt.Errorf("%s: object %d: %w", file, i+1, err)
			}
		}
	}
}

// add adds one object. An object in a typed list, such as a PodList, may have no kind of its own.
func (o *Objects) add(raw json.RawMessage, list string) error {
	var is struct {
		Kind    string `json:"kind"`
		Version string `json:"apiVersion"`
	}
	if err := json.Unmarshal(raw, &is); err != nil {
		return err
	}
	if is.Kind == "" && len(list) > len("List") {
		is.Kind = list[:len(list)-len("List")]
	}
	if err := versionFault(is.Version, versions[is.Kind]); err != nil {
		return err
	}
	switch is.Kind {
	case "Pod":
		p := &corev1.Pod{}
		if err := decode(raw, p, &p.Name); err != nil {
			return err
		}
		if err := o.Bounded.add(p); err != nil {
			return err
		}
		o.Pods = append(o.Pods, p)
	case "Node":
		n := &corev1.Node{}
		if err := decode(raw, n, &n.Name); err != nil {
			return err
		}
		if err := errors.Join(quantityFault("status.allocatable", n.Status.Allocatable), quantityFault("status.capacity", n.Status.Capacity)); err != nil {
			return err
		}
		o.Nodes = append(o.Nodes, n)
	case record.KindNamespace:
		n := &corev1.Namespace{}
		return o.other(decode(raw, n, &n.Name), func() record.Object { return Namespace(n) })
	case record.KindPriorityClass:
		c := &schedulingv1.PriorityClass{}
		return o.other(decode(raw, c, &c.Name), func() record.Object { return PriorityClass(c) })
	case record.KindBudget:
		b := &policyv1.PodDisruptionBudget{}
		return o.other(decode(raw, b, &b.Name), func() record.Object { return Budget(b) })
	case "":
		return errors.New("it has no kind")
	default:
		o.Skipped[is.Kind]++
	}
	return nil
}

// versions are those of the kinds that a record holds.
var versions = map[string]string{
	"Pod": "v1", "Node": "v1", record.KindNamespace: "v1", record.KindPriorityClass: "scheduling.k8s.io/v1", record.KindBudget: "policy/v1",
}

// versionFault returns an error for a version of the API that is not read. An object of a typed list has none, and objects of other kinds
// are skipped.
func versionFault(is, want string) error {
	if is == "" || want == "" || is == want {
		return nil
	}
	return fmt.Errorf("its apiVersion is %s, want %s", quote.Value(is), want)
}

// maxQuantity is more than a cluster has of anything, in cores, bytes or pieces.
const maxQuantity = 1e15

// quantityFault returns an error for the first quantity that is negative or too large.
func quantityFault(field string, l corev1.ResourceList) error {
	for _, name := range slices.Sorted(maps.Keys(l)) {
		q := l[name]
		if q.Sign() < 0 || q.AsApproximateFloat64() > maxQuantity {
			return fmt.Errorf("%s.%s is %s, want 0 to %g", field, name, q.String(), maxQuantity)
		}
	}
	return nil
}

// add bounds what a pod asks for. An API server takes limits such as 1e30 cores, and one such pod must not keep a whole cluster from
// being recorded. It takes no negative amount, which is an error.
func (b *Bounded) add(p *corev1.Pod) error {
	type amounts struct {
		field string
		list  corev1.ResourceList
	}
	all := []amounts{{"spec.overhead", p.Spec.Overhead}}
	for c := range kube.Containers(p) {
		at := "container " + quote.Value(c.Name) + ": resources."
		all = append(all, amounts{at + "requests", c.Resources.Requests}, amounts{at + "limits", c.Resources.Limits})
	}
	if r := p.Spec.Resources; r != nil {
		all = append(all, amounts{"spec.resources.requests", r.Requests}, amounts{"spec.resources.limits", r.Limits})
	}
	var first error
	for _, a := range all {
		fault := quantityFault(a.field, a.list)
		for name, q := range a.list {
			if q.AsApproximateFloat64() > maxQuantity {
				a.list[name] = *resource.NewQuantity(maxQuantity, q.Format)
			}
		}
		if err := quantityFault(a.field, a.list); err != nil {
			return err // what is left is negative
		}
		if first == nil {
			first = fault
		}
	}
	if first == nil {
		return nil
	}
	if b.Pods++; b.Pods == 1 {
		b.First = fmt.Sprintf("%s: %v", quote.Value(p.Namespace+"/"+p.Name), first)
	}
	return nil
}

func (o *Objects) other(err error, row func() record.Object) error {
	if err != nil {
		return err
	}
	r := row()
	o.others[r.Kind] = append(o.others[r.Kind], r)
	return nil
}

func decode(raw json.RawMessage, into any, name *string) error {
	if err := json.Unmarshal(raw, into); err != nil {
		return err
	}
	if *name == "" {
		return errors.New("it has no name")
	}
	return nil
}

// Tell tells a follower that the cluster has these objects and no others of their kinds.
func (o Objects) Tell(f *Follower) {
	if o.Nodes != nil {
		f.Nodes(o.Nodes)
	}
	if o.Pods != nil {
		f.Pods(o.Pods)
	}
	for kind, all := range o.others {
		f.Objects(kind, all)
	}
}
