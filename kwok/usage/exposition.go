package usage

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/metrics/pkg/apis/metrics"

	"gnnsched/workload/usage"
)

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
