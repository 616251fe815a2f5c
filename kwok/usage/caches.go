package usage

import (
	"context"
	"fmt"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"

	"gnnsched/internal/cluster/kube"
	"gnnsched/workload/usage"
)

// caches holds copies of the cluster's nodes and running pods, reduced to the fields that the sampler reads.
type caches struct {
	nodes     corelisters.NodeLister
	pods      corelisters.PodLister
	factories []informers.SharedInformerFactory
}

func watch(client kubernetes.Interface) *caches {
	nodes := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(stripNode))
	pods := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(stripPod),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = "status.phase=" + string(corev1.PodRunning)
		}))
	return &caches{
		nodes: nodes.Core().V1().Nodes().Lister(), pods: pods.Core().V1().Pods().Lister(),
		factories: []informers.SharedInformerFactory{nodes, pods},
	}
}

// start fills the caches and follows the changes until ctx ends.
func (c *caches) start(ctx context.Context) error {
	for _, f := range c.factories {
		f.StartWithContext(ctx)
	}
	for _, f := range c.factories {
		if err := f.WaitForCacheSyncWithContext(ctx).AsError(); err != nil {
			return fmt.Errorf("wait for the nodes and pods: %w", err)
		}
	}
	return nil
}

// shutdown waits until all watches have ended. The context of start must have ended.
func (c *caches) shutdown() {
	for _, f := range c.factories {
		f.Shutdown()
	}
}

// stripNode keeps a node's name, labels, amounts, power and limits.
func stripNode(obj any) (any, error) {
	n, ok := obj.(*corev1.Node)
	if !ok {
		return obj, nil // the note about a deleted one
	}
	out := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, UID: n.UID, ResourceVersion: n.ResourceVersion, Labels: n.Labels},
		Status:     corev1.NodeStatus{Capacity: amounts(n.Status.Capacity), Allocatable: amounts(n.Status.Allocatable)},
	}
	for _, name := range []string{kube.PowerAnnotation, usage.LimitsAnnotation} {
		if text, has := n.Annotations[name]; has {
			metav1.SetMetaDataAnnotation(&out.ObjectMeta, name, text)
		}
	}
	return out, nil
}

func amounts(l corev1.ResourceList) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: *l.Cpu(), corev1.ResourceMemory: *l.Memory()}
}

// stripPod keeps a pod's identity, its usage model and its containers' requests. Equal annotations, which all pods of a Deployment have,
// share their memory.
func stripPod(obj any) (any, error) {
	p, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	out := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: p.Name, Namespace: p.Namespace, UID: p.UID, ResourceVersion: p.ResourceVersion,
			Labels: p.Labels, CreationTimestamp: p.CreationTimestamp,
		},
		Spec: corev1.PodSpec{
			NodeName: p.Spec.NodeName, Resources: p.Spec.Resources, Overhead: p.Spec.Overhead, Containers: lasting(p),
		},
		Status: corev1.PodStatus{Phase: p.Status.Phase, StartTime: p.Status.StartTime},
	}
	if text, ok := p.Annotations[usage.Annotation]; ok {
		out.Annotations = map[string]string{usage.Annotation: unique.Make(text).Value()}
	}
	return out, nil
}

// lasting returns the containers that keep running, native sidecars among them.
func lasting(p *corev1.Pod) (out []corev1.Container) {
	for c := range kube.Lasting(p) {
		out = append(out, corev1.Container{Name: c.Name, Resources: c.Resources})
	}
	return out
}
