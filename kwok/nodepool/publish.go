package nodepool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
)

// Publish makes the cluster's DeviceClasses and ResourceSlices match the pools, whose nodes exist. It touches only objects that this
// package made; another object with a needed name is an error. A slice belongs to its node, and garbage collection removes it after the
// node.
func Publish(ctx context.Context, cs kubernetes.Interface, pools []Pool) (Result, error) {
	res, err := publishClasses(ctx, cs, deviceClasses(pools))
	if err != nil {
		return res, err
	}
	nodes, err := existingNodes(ctx, cs)
	if err != nil {
		return res, err
	}
	have, err := existingSlices(ctx, cs)
	if err != nil {
		return res, err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for i := range pools {
		for n := range pools[i].Count {
			name := pools[i].NodeName(n)
			if nodes[name] == nil && len(pools[i].Devices) > 0 {
				return res, errors.Join(fmt.Errorf("node %s has gone, so that nothing can own its resource slices", name), g.Wait())
			}
			for _, want := range byPool(pools[i].resourceSlices(name)) {
				spec := want[0].Spec
				w := poolWrite{node: nodes[name], want: want, have: have[poolKey{spec.Driver, spec.Pool.Name}]}
				delete(have, poolKey{spec.Driver, spec.Pool.Name})
				if w.count(&res) {
					g.Go(func() error { return w.run(gctx, cs) })
				}
			}
		}
	}
	for _, rest := range have { // of devices that no pool has any more
		w := poolWrite{have: rest}
		w.count(&res)
		g.Go(func() error { return w.run(gctx, cs) })
	}
	return res, g.Wait()
}

const managedSelector = LabelManagedBy + "=" + ManagedBy

// publishClasses makes the device classes match.
func publishClasses(ctx context.Context, cs kubernetes.Interface, want map[string]*resourceapi.DeviceClass) (res Result, err error) {
	classes := cs.ResourceV1().DeviceClasses()
	list, err := classes.List(ctx, metav1.ListOptions{LabelSelector: managedSelector})
	if err != nil {
		return res, fmt.Errorf("list the device classes: %w", err)
	}
	for i := range list.Items {
		have := &list.Items[i]
		w, wanted := want[have.Name]
		delete(want, have.Name)
		switch {
		case !wanted:
			res.Deleted++
			if err := classes.Delete(ctx, have.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				return res, fmt.Errorf("delete device class %s, which no pool needs: %w", have.Name, err)
			}
		case apiequality.Semantic.DeepEqual(have.Spec, w.Spec):
			res.Unchanged++
		default:
			res.Updated++
			have.Spec = w.Spec
			if _, err := classes.Update(ctx, have, metav1.UpdateOptions{}); err != nil {
				return res, fmt.Errorf("update device class %s: %w", have.Name, err)
			}
		}
	}
	for name, w := range want {
		res.Created++
		_, err := classes.Create(ctx, w, metav1.CreateOptions{})
		switch {
		case apierrors.IsAlreadyExists(err):
			return res, fmt.Errorf("device class %s already exists without the label %s, so kwokcluster did not make it; "+
				"delete it or give the pool's devices another driver", name, managedSelector)
		case err != nil:
			return res, fmt.Errorf("create device class %s: %w", name, err)
		}
	}
	return res, nil
}

// poolKey identifies a pool of devices.
type poolKey struct{ driver, pool string }

// existingSlices returns the slices that this package made, by pool and name.
func existingSlices(ctx context.Context, cs kubernetes.Interface) (map[poolKey]map[string]*resourceapi.ResourceSlice, error) {
	list, err := cs.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{LabelSelector: managedSelector})
	if err != nil {
		return nil, fmt.Errorf("list the resource slices: %w", err)
	}
	have := map[poolKey]map[string]*resourceapi.ResourceSlice{}
	for i := range list.Items {
		s := &list.Items[i]
		key := poolKey{s.Spec.Driver, s.Spec.Pool.Name}
		if have[key] == nil {
			have[key] = map[string]*resourceapi.ResourceSlice{}
		}
		have[key][s.Name] = s
	}
	return have, nil
}

// byPool splits the slices of a node, which are sorted by driver, into pools.
func byPool(all []*resourceapi.ResourceSlice) (out [][]*resourceapi.ResourceSlice) {
	for _, s := range all {
		if last := len(out) - 1; last >= 0 && out[last][0].Spec.Driver == s.Spec.Driver {
			out[last] = append(out[last], s)
		} else {
			out = append(out, []*resourceapi.ResourceSlice{s})
		}
	}
	return out
}

// poolWrite changes the slices of one pool of devices.
type poolWrite struct {
	node *corev1.Node
	want []*resourceapi.ResourceSlice // empty: the pool goes
	have map[string]*resourceapi.ResourceSlice
}

// count adds the pool's slices to the result and reports whether anything is to be written.
func (w poolWrite) count(res *Result) bool {
	if w.unchanged() {
		res.Unchanged += len(w.want)
		return false
	}
	for _, s := range w.want {
		if w.have[s.Name] == nil {
			res.Created++
		} else {
			res.Updated++
		}
	}
	res.Deleted += len(w.surplus())
	return true
}

func (w poolWrite) unchanged() bool {
	if len(w.want) != len(w.have) {
		return false
	}
	for _, s := range w.want {
		old := w.have[s.Name]
		if old == nil || len(old.OwnerReferences) != 1 || old.OwnerReferences[0].UID != w.node.UID {
			return false
		}
		spec := s.Spec
		spec.Pool.Generation = old.Spec.Pool.Generation
		if !apiequality.Semantic.DeepEqual(spec, old.Spec) {
			return false
		}
	}
	return true
}

// surplus returns the names of slices that the pool has no more.
func (w poolWrite) surplus() (names []string) {
	for name := range w.have {
		if !slices.ContainsFunc(w.want, func(s *resourceapi.ResourceSlice) bool { return s.Name == name }) {
			names = append(names, name)
		}
	}
	return names
}

// run writes the pool in a new generation, so that no scheduler mixes old slices with new ones.
func (w poolWrite) run(ctx context.Context, cs kubernetes.Interface) error {
	client := cs.ResourceV1().ResourceSlices()
	generation := int64(0)
	for _, s := range w.have {
		generation = max(generation, s.Spec.Pool.Generation)
	}
	for _, s := range w.want {
		s.Spec.Pool.Generation = generation + 1
		s.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: w.node.Name, UID: w.node.UID}}
		var err error
		if old := w.have[s.Name]; old != nil {
			s.ResourceVersion = old.ResourceVersion
			_, err = client.Update(ctx, s, metav1.UpdateOptions{})
		} else {
			_, err = client.Create(ctx, s, metav1.CreateOptions{})
		}
		if err != nil {
			return fmt.Errorf("write resource slice %s: %w", s.Name, err)
		}
	}
	for _, name := range w.surplus() {
		if err := client.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete resource slice %s, which no pool needs: %w", name, err)
		}
	}
	return nil
}

// parallel is the number of nodes that Reconcile writes at the same time. More would not be faster with one API server.
const parallel = 16

// Result counts what Reconcile did.
type Result struct{ Created, Updated, Deleted, Unchanged int }

// Reconcile makes the cluster's nodes match the pools. It creates missing nodes, updates labels, taints and capacity of nodes whose pool
// changed, and deletes nodes that are in no pool any more. Foreign additions to a node stay. It touches only nodes that this package made;
// a foreign node with a name from a pool is an error.
func Reconcile(ctx context.Context, cs kubernetes.Interface, pools []Pool) (Result, error) {
	var res Result
	have, err := existingNodes(ctx, cs)
	if err != nil {
		return res, err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	nodes := cs.CoreV1().Nodes()
	for _, p := range pools {
		for i := range p.Count {
			name := p.NodeName(i)
			old, ok := have[name]
			delete(have, name)
			switch {
			case !ok:
				res.Created++
				g.Go(func() error { return create(gctx, cs, p.Node(i)) })
			case old.Annotations[annotationSpec] == p.spec(i).json():
				res.Unchanged++
			default:
				res.Updated++
				g.Go(func() error { return update(gctx, cs, old, p.spec(i)) })
			}
		}
	}
	for name := range have {
		res.Deleted++
		g.Go(func() error {
			if err := nodes.Delete(gctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("delete node %s, which is in no pool: %w", name, err)
			}
			return nil
		})
	}
	return res, g.Wait()
}

// existingNodes returns the nodes that this package made, by name.
func existingNodes(ctx context.Context, cs kubernetes.Interface) (map[string]*corev1.Node, error) {
	list, err := cs.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: managedSelector})
	if err != nil {
		return nil, fmt.Errorf("list the nodes: %w", err)
	}
	have := make(map[string]*corev1.Node, len(list.Items))
	for i := range list.Items {
		have[list.Items[i].Name] = &list.Items[i]
	}
	return have, nil
}

func create(ctx context.Context, cs kubernetes.Interface, n *corev1.Node) error {
	_, err := cs.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{})
	switch {
	case apierrors.IsAlreadyExists(err):
		return fmt.Errorf("node %s already exists without the label %s=%s, so kwokcluster did not make it; delete it or rename the pool",
			n.Name, LabelManagedBy, ManagedBy)
	case err != nil:
		return fmt.Errorf("create node %s: %w", n.Name, err)
	}
	return nil
}

// update changes a node to want with two writes, because the API server ignores the status in an
// ordinary update. The status comes first: the second write has the annotation that marks the node
// as up to date.
func update(ctx context.Context, cs kubernetes.Interface, n *corev1.Node, want spec) error {
	nodes := cs.CoreV1().Nodes()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		n.Status.Capacity, n.Status.Allocatable = want.Capacity, want.Capacity.DeepCopy()
		stored, err := nodes.UpdateStatus(ctx, n, metav1.UpdateOptions{})
		if err == nil {
			merge(stored, want)
			if stored, err = nodes.Update(ctx, stored, metav1.UpdateOptions{}); err == nil {
				n = stored
				return nil
			}
		}
		if apierrors.IsConflict(err) {
			if fresh, getErr := nodes.Get(ctx, n.Name, metav1.GetOptions{}); getErr == nil {
				n = fresh
			}
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("update node %s: %w", n.Name, err)
	}
	return nil
}

// merge applies want to n and removes what only the node's last spec has. Everything else stays,
// such as taints of the node controller and labels of users.
func merge(n *corev1.Node, want spec) {
	var last spec
	// Without a valid annotation, last stays empty and nothing is removed.
	_ = json.Unmarshal([]byte(n.Annotations[annotationSpec]), &last)
	if n.Labels == nil {
		n.Labels = map[string]string{}
	}
	for k := range last.Labels {
		if _, keep := want.Labels[k]; !keep {
			delete(n.Labels, k)
		}
	}
	maps.Copy(n.Labels, want.Labels)
	ours := append(slices.Clone(last.Taints), want.Taints...)
	kept := slices.DeleteFunc(slices.Clone(n.Spec.Taints), func(t corev1.Taint) bool {
		return slices.ContainsFunc(ours, func(o corev1.Taint) bool { return o.MatchTaint(&t) })
	})
	n.Spec.Taints = append(kept, want.Taints...)
	if n.Annotations == nil {
		n.Annotations = map[string]string{}
	}
	n.Annotations[AnnotationFake], n.Annotations[annotationSpec] = "fake", want.json()
}
