// Package fakecluster is test support: an in-memory cluster for tests of the workload packages
// and of the commands that use them.
//
// It consists of client-go's fake clients on one store. Simple stand-ins for the controllers,
// a scheduler and the garbage collector turn a Deployment into bound pods and delete them with
// it.
package fakecluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/metadata"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"gnnsched/internal/each"
)

// Cluster is an in-memory cluster. Set its fields before use.
type Cluster struct {
	Client   *fake.Clientset
	Metadata metadata.Interface

	// Slots is the number of pods that can be bound at a time. Other pods are pending for Reason.
	Slots  int
	Reason string
	// OnDelete, if not nil, is called before a collection of the given resource is deleted. The
	// deletion fails with its error.
	OnDelete func(resource string) error
	// LargestDelete, if not 0, is the number of objects that the server deletes before its request timeout. A deletion of a larger collection
	// deletes this many and then breaks off.
	LargestDelete int

	mu     sync.Mutex
	serial int
}

var kinds = map[schema.GroupVersionResource]string{
	{Group: "apps", Version: "v1", Resource: "deployments"}:                  "Deployment",
	{Group: "apps", Version: "v1", Resource: "replicasets"}:                  "ReplicaSet",
	{Version: "v1", Resource: "pods"}:                                        "Pod",
	{Version: "v1", Resource: "nodes"}:                                       "Node",
	{Group: "resource.k8s.io", Version: "v1", Resource: "resourceclaims"}:    "ResourceClaim",
	{Group: "scheduling.k8s.io", Version: "v1", Resource: "priorityclasses"}: "PriorityClass",
	{Version: "v1", Resource: "namespaces"}:                                  "Namespace",
	{Version: "v1", Resource: "configmaps"}:                                  "ConfigMap",
	{Version: "v1", Resource: "secrets"}:                                     "Secret",
	{Version: "v1", Resource: "serviceaccounts"}:                             "ServiceAccount",
}

func resource(kind string) schema.GroupVersionResource {
	for r, k := range kinds {
		if k == kind {
			return r
		}
	}
	panic("fakecluster: no kind " + kind)
}

// New returns a cluster that holds the objects and has a slot for every pod.
func New(objects ...runtime.Object) *Cluster {
	c := &Cluster{Client: fake.NewClientset(objects...), Slots: 1 << 30}
	c.Metadata = metadataClient{c}
	c.Client.PrependReactor("create", "deployments", c.createDeployment)
	c.Client.PrependReactor("delete", "deployments", c.deleteDeployment)
	c.Client.PrependReactor("create", "pods", c.createPod)
	return c
}

// ServerPreferredNamespacedResources lists the namespaced kinds, as a discovery client does. It
// makes the cluster a cleanup.Kinds.
func (c *Cluster) ServerPreferredNamespacedResources() ([]*metav1.APIResourceList, error) {
	lists := map[string]*metav1.APIResourceList{}
	for r, kind := range kinds {
		if kind == "Node" || kind == "Namespace" || kind == "PriorityClass" {
			continue
		}
		gv := r.GroupVersion().String()
		if lists[gv] == nil {
			lists[gv] = &metav1.APIResourceList{GroupVersion: gv}
		}
		lists[gv].APIResources = append(lists[gv].APIResources,
			metav1.APIResource{Name: r.Resource, Kind: kind, Namespaced: true, Verbs: []string{"list", "delete"}})
	}
	return slices.Collect(maps.Values(lists)), nil
}

// Bind sets Slots and binds waiting pods.
func (c *Cluster) Bind(slots int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Slots = slots
	c.schedule()
}

func (c *Cluster) createDeployment(a clienttesting.Action) (bool, runtime.Object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := a.(clienttesting.CreateAction).GetObject().(*appsv1.Deployment).DeepCopy()
	d.UID = c.uid()
	if err := c.Client.Tracker().Create(resource("Deployment"), d, d.Namespace); err != nil {
		return true, nil, err
	}
	rs := &appsv1.ReplicaSet{
		ObjectMeta: child(d.Name+"-5d8f", d.Namespace, d.Spec.Template.Labels, "Deployment", d.Name),
		Spec:       appsv1.ReplicaSetSpec{Replicas: d.Spec.Replicas},
	}
	rs.UID = c.uid()
	c.must(c.Client.Tracker().Create(resource("ReplicaSet"), rs, rs.Namespace))
	for range *d.Spec.Replicas {
		p := &corev1.Pod{ObjectMeta: child("", d.Namespace, d.Spec.Template.Labels, "ReplicaSet", rs.Name), Spec: d.Spec.Template.Spec}
		p.UID = c.uid()
		p.Name = fmt.Sprintf("%s-%s", rs.Name, p.UID)
		c.must(c.Client.Tracker().Create(resource("Pod"), p, p.Namespace))
	}
	c.schedule()
	return true, d, nil
}

// createPod creates a pod without a Deployment.
func (c *Cluster) createPod(a clienttesting.Action) (bool, runtime.Object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := a.(clienttesting.CreateAction).GetObject().(*corev1.Pod).DeepCopy()
	p.UID = c.uid()
	if err := c.Client.Tracker().Create(resource("Pod"), p, p.Namespace); err != nil {
		return true, nil, err
	}
	c.schedule()
	return true, p, nil
}

func child(name, namespace string, labels map[string]string, ownerKind, owner string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: name, Namespace: namespace, Labels: labels, OwnerReferences: []metav1.OwnerReference{{Kind: ownerKind, Name: owner}},
	}
}

// schedule binds waiting pods as long as slots are free, and refuses the others. As on a cluster, a pod has no refusal until the scheduler
// has tried it. With an empty Reason, the scheduler never tries it.
func (c *Cluster) schedule() {
	pods := c.all(resource("Pod"), "")
	bound := each.Count(pods, func(o runtime.Object) bool { return o.(*corev1.Pod).Spec.NodeName != "" })
	for _, o := range pods {
		p := o.(*corev1.Pod).DeepCopy()
		switch {
		case p.Spec.NodeName != "":
			continue
		case bound < c.Slots:
			bound++
			p.Spec.NodeName = fmt.Sprintf("node-%d", bound%3)
			p.Status.Conditions = nil
		case c.Reason != "" && len(p.Status.Conditions) == 0:
			p.Status.Conditions = []corev1.PodCondition{{
				Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: c.Reason,
			}}
		default:
			continue
		}
		c.must(c.Client.Tracker().Update(resource("Pod"), p, p.Namespace))
	}
}

// deleteDeployment also deletes the Deployment's replica set and pods, as the garbage collector
// does.
func (c *Cluster) deleteDeployment(a clienttesting.Action) (bool, runtime.Object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := a.(clienttesting.DeleteAction).GetName()
	if err := c.Client.Tracker().Delete(a.GetResource(), a.GetNamespace(), name); err != nil {
		return true, nil, err
	}
	for _, kind := range []string{"ReplicaSet", "Pod"} {
		for _, o := range c.all(resource(kind), a.GetNamespace()) {
			m := c.meta(o)
			if owner := m.GetOwnerReferences(); len(owner) > 0 && (owner[0].Name == name || owner[0].Name == name+"-5d8f") {
				c.must(c.Client.Tracker().Delete(resource(kind), m.GetNamespace(), m.GetName()))
			}
		}
	}
	return true, nil, nil
}

// all lists the objects of a kind in a namespace; empty means every namespace.
func (c *Cluster) all(r schema.GroupVersionResource, namespace string) []runtime.Object {
	list, err := c.Client.Tracker().List(r, r.GroupVersion().WithKind(kinds[r]), namespace)
	c.must(err)
	objects, err := meta.ExtractList(list)
	c.must(err)
	return objects
}

func (c *Cluster) partial(o runtime.Object) *metav1.PartialObjectMetadata {
	return meta.AsPartialObjectMetadata(c.meta(o))
}

func (c *Cluster) meta(o runtime.Object) metav1.Object {
	m, err := meta.Accessor(o)
	c.must(err)
	return m
}

func (c *Cluster) uid() types.UID {
	c.serial++
	return types.UID(fmt.Sprintf("uid%d", c.serial))
}

func (c *Cluster) must(err error) {
	if err != nil {
		panic(err) // the store is in memory, so this is a bug of the test
	}
}

// RunningClock returns a fake clock that advances while code waits for it, about a hundred times faster than real time. It stops at the end
// of the test t.
func RunningClock(t interface{ Cleanup(func()) }) *clocktesting.FakeClock {
	c := clocktesting.NewFakeClock(time.Unix(0, 0))
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				if c.HasWaiters() {
					c.Step(100 * time.Millisecond)
				}
			}
		}
	}()
	t.Cleanup(func() { close(stop); <-done })
	return c
}

// metadataClient is the cluster's metadata client. Client-go's own fake ignores limit and continue,
// which decide how large collections are deleted.
type metadataClient struct{ c *Cluster }

// Resource implements metadata.Interface.
func (m metadataClient) Resource(r schema.GroupVersionResource) metadata.Getter {
	return metadataResource{c: m.c, kind: r}
}

type metadataResource struct {
	metadata.ResourceInterface // nil: the other methods are not supported
	c                          *Cluster
	kind                       schema.GroupVersionResource
	namespace                  string
}

// Namespace implements metadata.Getter.
func (r metadataResource) Namespace(ns string) metadata.ResourceInterface {
	r.namespace = ns
	return r
}

// List implements metadata.ResourceInterface. The continue token is the key of the page's last
// object.
func (r metadataResource) List(ctx context.Context, o metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	return r.page(ctx, o)
}

func (r metadataResource) page(ctx context.Context, o metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	selector, err := labels.Parse(o.LabelSelector)
	if err != nil {
		return nil, err
	}
	out := &metav1.PartialObjectMetadataList{}
	for _, object := range r.c.all(r.kind, r.namespace) {
		p := r.c.partial(object)
		if selector.Matches(labels.Set(p.Labels)) && key(p) > o.Continue {
			out.Items = append(out.Items, *p)
		}
	}
	slices.SortFunc(out.Items, func(a, b metav1.PartialObjectMetadata) int { return strings.Compare(key(&a), key(&b)) })
	if n := int(o.Limit); n > 0 && n < len(out.Items) {
		out.Items = out.Items[:n]
		out.Continue = key(&out.Items[n-1])
	}
	return out, nil
}

func key(o metav1.Object) string { return o.GetNamespace() + "/" + o.GetName() }

// Get implements metadata.ResourceInterface.
func (r metadataResource) Get(_ context.Context, name string, _ metav1.GetOptions, _ ...string) (*metav1.PartialObjectMetadata, error) {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	o, err := r.c.Client.Tracker().Get(r.kind, r.namespace, name)
	if err != nil {
		return nil, err
	}
	return r.c.partial(o), nil
}

// Delete implements metadata.ResourceInterface.
func (r metadataResource) Delete(_ context.Context, name string, _ metav1.DeleteOptions, _ ...string) error {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	return r.c.Client.Tracker().Delete(r.kind, r.namespace, name)
}

// DeleteCollection implements metadata.ResourceInterface.
func (r metadataResource) DeleteCollection(ctx context.Context, _ metav1.DeleteOptions, o metav1.ListOptions) error {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	if r.c.OnDelete != nil {
		if err := r.c.OnDelete(r.kind.Resource); err != nil {
			return err
		}
	}
	if r.namespace == "" {
		return errors.New("fakecluster: a real API server deletes collections only within one namespace")
	}
	list, err := r.page(ctx, o)
	if err != nil {
		return err
	}
	for i, object := range list.Items {
		if r.c.LargestDelete > 0 && i == r.c.LargestDelete {
			return &url.Error{
				Op: "Delete", URL: "https://fake/" + r.kind.Resource, Err: errors.New("stream error: stream ID 7; INTERNAL_ERROR; received from peer"),
			}
		}
		r.c.must(r.c.Client.Tracker().Delete(r.kind, object.Namespace, object.Name))
	}
	return nil
}
