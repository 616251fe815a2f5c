// Package fakecluster is test support: an in-memory cluster for tests of the workload packages
// and of the commands that use them.
//
// It consists of client-go's fake clients on one store. Simple stand-ins for the controllers,
// a scheduler and the garbage collector turn a Deployment into bound pods and delete them with
// it.
package fakecluster

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/metadata"
	clienttesting "k8s.io/client-go/testing"
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
	bound := 0
	for _, o := range pods {
		if o.(*corev1.Pod).Spec.NodeName != "" {
			bound++
		}
	}
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
