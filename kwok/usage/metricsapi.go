package usage

import (
	"context"
	"fmt"
	"math"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metainternal "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/endpoints/request"
	apirest "k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/rest"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregator "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
	"k8s.io/metrics/pkg/apis/metrics"
	"k8s.io/metrics/pkg/apis/metrics/install"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"gnnsched/workload/usage"
)

// APIGroup returns metrics.k8s.io/v1beta1, as metrics-server serves it, for an API server. It answers from
// the last sample.
func (s *Sampler) APIGroup() *genericapiserver.APIGroupInfo {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	info := genericapiserver.NewDefaultAPIGroupInfo(metrics.GroupName, scheme, metav1.ParameterCodec, serializer.NewCodecFactory(scheme))
	info.VersionedResourcesStorageMap[v1beta1.SchemeGroupVersion.Version] = map[string]apirest.Storage{
		"nodes": s.nodeStorage(),
		"pods":  s.podStorage(),
	}
	return &info
}

// storage serves the nodes or the pods of the last sample.
type storage struct {
	s            *Sampler
	kind         string
	namespaced   bool
	object, list func() runtime.Object                                    // make empty ones
	get          func(now reading, namespace, name string) runtime.Object // nil if there is none
	all          func(now reading, namespace string, o *metainternal.ListOptions) runtime.Object
}

var (
	_ apirest.Lister = &storage{}
	_ apirest.Getter = &storage{}
	_ apirest.Scoper = &storage{}
)

// New implements rest.Storage.
func (r *storage) New() runtime.Object { return r.object() }

// NewList implements rest.Lister.
func (r *storage) NewList() runtime.Object { return r.list() }

// Destroy implements rest.Storage.
func (*storage) Destroy() {}

// NamespaceScoped implements rest.Scoper.
func (r *storage) NamespaceScoped() bool { return r.namespaced }

// GetSingularName implements rest.SingularNameProvider.
func (r *storage) GetSingularName() string {
	return strings.ToLower(strings.TrimSuffix(r.kind, "Metrics"))
}

// Kind implements rest.KindProvider.
func (r *storage) Kind() string { return r.kind }

// Get implements rest.Getter.
func (r *storage) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	now, ok := r.s.read()
	if !ok {
		return nil, errNoSample()
	}
	if o := r.get(now, request.NamespaceValue(ctx), name); o != nil {
		return o, nil
	}
	return nil, apierrors.NewNotFound(metrics.Resource(r.GetSingularName()+"s"), name)
}

// List implements rest.Lister.
func (r *storage) List(ctx context.Context, o *metainternal.ListOptions) (runtime.Object, error) {
	now, ok := r.s.read()
	if !ok {
		return nil, errNoSample()
	}
	return r.all(now, request.NamespaceValue(ctx), o), nil
}

// nodeStorage serves the usage of nodes, sorted by name.
func (s *Sampler) nodeStorage() *storage {
	return &storage{
		s: s, kind: "NodeMetrics",
		object: func() runtime.Object { return &metrics.NodeMetrics{} }, list: func() runtime.Object { return &metrics.NodeMetricsList{} },
		get: func(now reading, _, name string) runtime.Object {
			if n := now.node(name); n != nil {
				return new(now.nodeMetrics(n))
			}
			return nil
		},
		all: func(now reading, _ string, o *metainternal.ListOptions) runtime.Object {
			list := &metrics.NodeMetricsList{Items: []metrics.NodeMetrics{}}
			for i := range now.nodes {
				n := &now.nodes[i]
				if selected(o, n.node.Labels, fields.Set{"metadata.name": n.node.Name}) {
					list.Items = append(list.Items, now.nodeMetrics(n))
				}
			}
			return list
		},
	}
}

// podStorage serves the usage of pods, in the order of the nodes' names.
func (s *Sampler) podStorage() *storage {
	return &storage{
		s: s, kind: "PodMetrics", namespaced: true,
		object: func() runtime.Object { return &metrics.PodMetrics{} }, list: func() runtime.Object { return &metrics.PodMetricsList{} },
		get: func(now reading, namespace, name string) runtime.Object {
			if p := now.pods[types.NamespacedName{Namespace: namespace, Name: name}]; p != nil {
				return new(now.podMetrics(p))
			}
			return nil
		},
		all: func(now reading, namespace string, o *metainternal.ListOptions) runtime.Object {
			list := &metrics.PodMetricsList{Items: []metrics.PodMetrics{}}
			for i := range now.nodes {
				for j := range now.nodes[i].pods {
					p := &now.nodes[i].pods[j]
					src := p.pod.source
					if (namespace == "" || namespace == src.Namespace) && selected(o, src.Labels, fields.Set{
						"metadata.name": src.Name, "metadata.namespace": src.Namespace, "spec.nodeName": src.Spec.NodeName,
					}) {
						list.Items = append(list.Items, now.podMetrics(p))
					}
				}
			}
			return list
		},
	}
}

func errNoSample() error {
	return apierrors.NewServiceUnavailable("no sample of what pods use has been taken yet; try again in a moment")
}

func selected(o *metainternal.ListOptions, l map[string]string, f fields.Set) bool {
	return o == nil || (o.LabelSelector == nil || o.LabelSelector.Matches(labels.Set(l))) &&
		(o.FieldSelector == nil || o.FieldSelector.Matches(f))
}

func (r reading) nodeMetrics(n *nodeSample) metrics.NodeMetrics {
	return metrics.NodeMetrics{
		ObjectMeta: metav1.ObjectMeta{Name: n.node.Name, Labels: n.node.Labels, CreationTimestamp: metav1.NewTime(r.at)},
		Timestamp:  metav1.NewTime(r.at), Window: metav1.Duration{Duration: r.interval},
		Usage: resourceList(n.rate[usage.CPU], n.rate[usage.Memory]),
	}
}

func (r reading) podMetrics(p *podSample) metrics.PodMetrics {
	src := p.pod.source
	m := metrics.PodMetrics{
		ObjectMeta: metav1.ObjectMeta{Name: src.Name, Namespace: src.Namespace, Labels: src.Labels, CreationTimestamp: metav1.NewTime(r.at)},
		Timestamp:  metav1.NewTime(r.at), Window: metav1.Duration{Duration: r.interval},
		Containers: make([]metrics.ContainerMetrics, len(p.pod.containers)),
	}
	for i := range p.pod.containers {
		c := &p.pod.containers[i]
		m.Containers[i] = metrics.ContainerMetrics{Name: c.name, Usage: resourceList(c.cpu*p.rate[usage.CPU], c.memory*p.rate[usage.Memory])}
	}
	return m
}

func resourceList(cores, bytes float64) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewScaledQuantity(int64(math.Round(cores*1e9)), resource.Nano),
		corev1.ResourceMemory: *resource.NewQuantity(int64(bytes), resource.BinarySI),
	}
}

// Register tells the API server that it serves metrics.k8s.io itself, so that it lists the group. kubectl top asks for that list first. A
// registration of an earlier start is kept; a registration of another server is corrected.
func Register(ctx context.Context, rc *rest.Config) error {
	client, err := aggregator.NewForConfig(rc)
	if err != nil {
		return err
	}
	version := v1beta1.SchemeGroupVersion.Version
	want := &apiregistration.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: version + "." + metrics.GroupName},
		Spec:       apiregistration.APIServiceSpec{Group: metrics.GroupName, Version: version, GroupPriorityMinimum: 100, VersionPriority: 100},
	}
	services := client.ApiregistrationV1().APIServices()
	_, err = services.Create(ctx, want, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return wrap(err)
	}
	have, err := services.Get(ctx, want.Name, metav1.GetOptions{})
	if err != nil || have.Spec.Service == nil {
		return wrap(err)
	}
	have.Spec = want.Spec
	_, err = services.Update(ctx, have, metav1.UpdateOptions{})
	return wrap(err)
}

func wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("register %s: %w", metrics.GroupName, err)
}
