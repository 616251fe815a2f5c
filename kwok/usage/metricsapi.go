package usage

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
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

// page lists the metrics that a kubelet shows at one path.
type page []family

// family is a metric with the functions that write its lines.
type family struct {
	name, kind, help string
	lines            []lines
}

// lines writes some lines of a family for a node.
type lines func(*writer, *nodeSample)

// The kubelets' pages, with the names and labels that kubelet and cAdvisor use.
var (
	resourcePage = page{
		{"container_cpu_usage_seconds_total", "counter", "Cumulative cpu time consumed by the container in core-seconds",
			[]lines{ofContainers(containerCPU)}},
		{"container_memory_working_set_bytes", "gauge", "Current working set of the container in bytes", []lines{ofContainers(containerMemory)}},
		{"container_start_time_seconds", "gauge", "Start time of the container since unix epoch in seconds",
			[]lines{ofContainers(containerStart)}},
		{"node_cpu_usage_seconds_total", "counter", "Cumulative cpu time consumed by the node in core-seconds",
			[]lines{ofNode(counter(usage.CPU))}},
		{"node_memory_working_set_bytes", "gauge", "Current working set of the node in bytes", []lines{ofNode(workingSet)}},
		{"pod_cpu_usage_seconds_total", "counter", "Cumulative cpu time consumed by the pod in core-seconds",
			[]lines{ofPods(counter(usage.CPU))}},
		{"pod_memory_working_set_bytes", "gauge", "Current working set of the pod in bytes", []lines{ofPods(workingSet)}},
		{"resource_scrape_error", "gauge", "1 if there was an error while getting container metrics, 0 otherwise", []lines{ofNode(nothing)}},
	}
	cadvisorPage = page{
		{"container_cpu_cfs_throttled_seconds_total", "counter", "Core-seconds that the container wanted and did not get",
			[]lines{ofNode(lost, root...), ofContainers(containerLost)}},
		{"container_cpu_usage_seconds_total", "counter", "Cumulative cpu time consumed in core-seconds",
			[]lines{ofNode(counter(usage.CPU), root...), ofContainers(containerCPU)}},
		{"container_fs_reads_bytes_total", "counter", "Cumulative count of bytes read",
			[]lines{ofNode(counter(usage.DiskRead), root...), ofContainers(containerDisk(usage.DiskRead))}},
		{"container_fs_writes_bytes_total", "counter", "Cumulative count of bytes written",
			[]lines{ofNode(counter(usage.DiskWrite), root...), ofContainers(containerDisk(usage.DiskWrite))}},
		{"container_memory_working_set_bytes", "gauge", "Current working set in bytes",
			[]lines{ofNode(workingSet, root...), ofContainers(containerMemory)}},
		{"container_network_receive_bytes_total", "counter", "Cumulative count of bytes received",
			[]lines{ofNode(counter(usage.NetworkIn), rootInterface...), ofPods(counter(usage.NetworkIn), eth0...)}},
		{"container_network_transmit_bytes_total", "counter", "Cumulative count of bytes transmitted",
			[]lines{ofNode(counter(usage.NetworkOut), rootInterface...), ofPods(counter(usage.NetworkOut), eth0...)}},
		{"container_start_time_seconds", "gauge", "Start time of the container since unix epoch in seconds",
			[]lines{ofContainers(containerStart)}},
		{"machine_cpu_cores", "gauge", "Number of logical CPU cores", []lines{ofMachine(corev1.ResourceCPU)}},
		{"machine_memory_bytes", "gauge", "Amount of memory installed on the machine", []lines{ofMachine(corev1.ResourceMemory)}},
	}
)

// The pages of the exporters of power, with the names and labels that Kepler and node-exporter use. The whole machine counts
// as one package.
var (
	keplerPage = page{
		{"kepler_node_cpu_joules_total", "counter", "Energy consumption of cpu at node level in joules", []lines{energy(keplerZone...)}},
		{"kepler_node_cpu_watts", "gauge", "Power consumption of cpu at node level in watts", []lines{watts(keplerZone...)}},
	}
	nodeExporterPage = page{
		{"node_rapl_package_joules_total", "counter", "Current RAPL package value in joules",
			[]lines{energy("index", "0", "path", "/sys/class/powercap/intel-rapl:0")}},
	}
	keplerZone = []string{"node_name", "", "path", "/sys/class/powercap/intel-rapl:0", "zone", "package"}
)

// Labels that cAdvisor gives the whole node, and the network of a pod.
var (
	root          = []string{"id", "/"}
	eth0          = []string{"interface", "eth0"}
	rootInterface = []string{"id", "/", "interface", "eth0"}
)

// value is a figure of a node or a pod. since is the number of seconds since the sample.
type value func(s *sample, since float64) float64

func counter(d usage.Dimension) value {
	return func(s *sample, since float64) float64 { return s.total[d] + s.rate[d]*since }
}

func lost(s *sample, since float64) float64 { return s.lost + s.throttled*since }

func workingSet(s *sample, _ float64) float64 { return s.rate[usage.Memory] }

func nothing(*sample, float64) float64 { return 0 }

func ofNode(v value, labels ...string) lines {
	return func(w *writer, n *nodeSample) { w.line(v(&n.sample, w.since), labels...) }
}

func energy(labels ...string) lines {
	return func(w *writer, n *nodeSample) { w.line(n.joules+n.watts*w.since, named(labels, n)...) }
}

func watts(labels ...string) lines {
	return func(w *writer, n *nodeSample) { w.line(n.watts, named(labels, n)...) }
}

// named returns labels with the node's name as the value of node_name.
func named(labels []string, n *nodeSample) []string {
	if labels[0] == "node_name" {
		labels = slices.Clone(labels)
		labels[1] = n.node.Name
	}
	return labels
}

func ofMachine(r corev1.ResourceName) lines {
	return func(w *writer, n *nodeSample) {
		q := n.node.Status.Capacity[r]
		w.line(q.AsApproximateFloat64())
	}
}

func ofPods(v value, labels ...string) lines {
	return func(w *writer, n *nodeSample) {
		all := append([]string{"namespace", "", "pod", ""}, labels...)
		for i := range n.pods {
			p := &n.pods[i]
			all[1], all[3] = p.pod.source.Namespace, p.pod.source.Name
			w.line(v(&p.sample, w.since), all...)
		}
	}
}

// containerValue is a figure of a container, as its share of its pod's.
type containerValue func(p *podSample, c *container, since float64) float64

func containerCPU(p *podSample, c *container, since float64) float64 {
	return c.cpu * counter(usage.CPU)(&p.sample, since)
}

func containerLost(p *podSample, c *container, since float64) float64 {
	return c.cpu * lost(&p.sample, since)
}

func containerDisk(d usage.Dimension) containerValue {
	return func(p *podSample, c *container, since float64) float64 { return c.cpu * counter(d)(&p.sample, since) }
}

func containerMemory(p *podSample, c *container, _ float64) float64 {
	return c.memory * p.rate[usage.Memory]
}

func containerStart(p *podSample, _ *container, _ float64) float64 {
	return float64(p.pod.start.UnixMilli()) / 1000
}

func ofContainers(v containerValue) lines {
	return func(w *writer, n *nodeSample) {
		labels := []string{"container", "", "namespace", "", "pod", ""}
		for i := range n.pods {
			p := &n.pods[i]
			labels[3], labels[5] = p.pod.source.Namespace, p.pod.source.Name
			for j := range p.pod.containers {
				c := &p.pod.containers[j]
				labels[1] = c.name
				w.line(v(p, c, w.since), labels...)
			}
		}
	}
}

// tableColumns are the columns of `kubectl get nodes.metrics.k8s.io` and `kubectl get pods.metrics.k8s.io`, the
// same as metrics-server's.
var tableColumns = []metav1.TableColumnDefinition{
	{Name: "Name", Type: "string", Format: "name", Description: "name of the node or pod"},
	{Name: "cpu", Type: "string", Format: "quantity", Description: "CPU that it uses"},
	{Name: "memory", Type: "string", Format: "quantity", Description: "memory that it uses"},
	{Name: "Window", Type: "string", Format: "duration", Description: "time for which the figures hold"},
}

// ConvertToTable implements rest.TableConvertor.
func (*storage) ConvertToTable(_ context.Context, o, _ runtime.Object) (*metav1.Table, error) {
	table := &metav1.Table{ColumnDefinitions: tableColumns}
	add := func(o runtime.Object) error {
		switch m := o.(type) {
		case *metrics.NodeMetrics:
			table.Rows = append(table.Rows, row(m, m.Usage, m.Window))
		case *metrics.PodMetrics:
			var cpu, memory resource.Quantity
			for _, c := range m.Containers {
				cpu.Add(*c.Usage.Cpu())
				memory.Add(*c.Usage.Memory())
			}
			table.Rows = append(table.Rows, row(m, corev1.ResourceList{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory}, m.Window))
		default:
			return fmt.Errorf("a %T is no usage of a node or a pod", o)
		}
		return nil
	}
	if meta.IsListType(o) {
		return table, meta.EachListItem(o, add)
	}
	return table, add(o)
}

// row returns the row of an object with the resources that it uses.
func row(o interface {
	runtime.Object
	metav1.Object
}, used corev1.ResourceList, window metav1.Duration) metav1.TableRow {
	return metav1.TableRow{
		Cells:  []any{o.GetName(), used.Cpu().String(), used.Memory().String(), window.Duration.String()},
		Object: runtime.RawExtension{Object: o},
	}
}
