package observe

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"

	"gnnsched/workload/record"
)

// Objects are the objects of a file that a record can hold.
type Objects struct {
	Nodes   []*corev1.Node
	Pods    []*corev1.Pod
	others  map[string][]record.Object // by kind
	Skipped map[string]int             // number of other objects by kind
}

// ReadObjects reads what `kubectl get pods,nodes -A -o json` prints: a list of objects, or several lists or objects one
// after another. Errors name the file and the object.
func ReadObjects(r io.Reader, file string) (Objects, error) {
	out := Objects{others: map[string][]record.Object{}, Skipped: map[string]int{}}
	dec := json.NewDecoder(r)
	for n := 1; ; n++ {
		var doc struct {
			Kind  string            `json:"kind"`
			Items []json.RawMessage `json:"items"`
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
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(raw, &is); err != nil {
		return err
	}
	if is.Kind == "" && len(list) > len("List") {
		is.Kind = list[:len(list)-len("List")]
	}
	switch is.Kind {
	case "Pod":
		p := &corev1.Pod{}
		if err := decode(raw, p, &p.Name); err != nil {
			return err
		}
		o.Pods = append(o.Pods, p)
	case "Node":
		n := &corev1.Node{}
		if err := decode(raw, n, &n.Name); err != nil {
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
