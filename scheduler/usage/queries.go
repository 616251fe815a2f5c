package usage

import (
	"gnnsched/internal/cluster"
)

// ageQuery is the name of the query for the time of the samples.
const ageQuery = "node_time"

// wattsQuery is the name of the query for what machines draw.
const wattsQuery = "node_watts"

// throttledQuery is the name of the query for the CPU that pods wanted and did not get.
const throttledQuery = "node_throttled"

// defaultQueries holds the queries in PromQL by name. The result of a node_ query has one of the labels node, node_name, kubernetes_node,
// nodename, exported_instance and instance; of a pod_ query the labels namespace and pod. Units are cores, bytes, bytes a second and watts;
// node_time is the Unix time of the newest sample. The queries read the kubelet's resource metrics, node-exporter and cAdvisor, whichever
// is there. Several jobs may scrape the same exporter, and a cgroup may be shown twice, so the largest value of each container, device or
// node counts.
var defaultQueries = map[string]string{
	ageQuery: `max by (node, instance) (timestamp(node_cpu_usage_seconds_total))` +
		` or max by (node, instance) (timestamp(node_cpu_seconds_total{mode="idle"}))` +
		` or max by (node, instance) (timestamp(container_cpu_usage_seconds_total{id="/"}))`,
	"node_cpu": `max by (node, instance) (rate(node_cpu_usage_seconds_total[2m]))` +
		` or ` + sumOf(`node, instance`, `cpu, mode`, `rate(node_cpu_seconds_total{mode!~"idle|iowait|steal"}[2m])`) +
		` or max by (node, instance) (rate(container_cpu_usage_seconds_total{id="/"}[2m]))`,
	"node_memory": `max by (node, instance) (node_memory_working_set_bytes)` +
		` or max by (node, instance) (node_memory_MemTotal_bytes - node_memory_MemAvailable_bytes)` +
		` or max by (node, instance) (container_memory_working_set_bytes{id="/"})`,
	"node_network_in": sumOf(`node, instance`, `device`, `rate(node_network_receive_bytes_total{`+physical+`}[2m])`) +
		` or ` + sumOf(`node, instance`, `interface`, `rate(container_network_receive_bytes_total{id="/",`+interfaces+`}[2m])`),
	"node_network_out": sumOf(`node, instance`, `device`, `rate(node_network_transmit_bytes_total{`+physical+`}[2m])`) +
		` or ` + sumOf(`node, instance`, `interface`, `rate(container_network_transmit_bytes_total{id="/",`+interfaces+`}[2m])`),
	"node_disk_read": sumOf(`node, instance`, `device`, `rate(node_disk_read_bytes_total[2m])`) +
		` or ` + sumOf(`node, instance`, `device`, `rate(container_fs_reads_bytes_total{id="/"}[2m])`),
	"node_disk_write": sumOf(`node, instance`, `device`, `rate(node_disk_written_bytes_total[2m])`) +
		` or ` + sumOf(`node, instance`, `device`, `rate(container_fs_writes_bytes_total{id="/"}[2m])`),

	// Kepler: the whole machine, else its CPU packages; the same before release 0.10; node-exporter: the packages.
	wattsQuery: sumOf(machineLabels, `source`, `avg_over_time(kepler_platform_watts[2m])`) +
		` or ` + sumOf(machineLabels, `zone, path`, `rate(kepler_node_cpu_joules_total{zone="package"}[2m])`) +
		` or ` + sumOf(machineLabels, `mode, source`, `rate(kepler_node_platform_joules_total[2m])`) +
		` or ` + sumOf(machineLabels, `package, mode, source`, `rate(kepler_node_package_joules_total[2m])`) +
		` or ` + sumOf(machineLabels, `index, path`, `rate(node_rapl_package_joules_total[2m])`),

	throttledQuery: sumOf(`node, instance`, containerLabels, `rate(container_cpu_cfs_throttled_seconds_total{container!=""}[2m])`),

	"pod_cpu": sumOf(`namespace, pod`, `container`, `rate(container_cpu_usage_seconds_total{pod!="",container!=""}[2m])`) +
		` or max by (namespace, pod) (rate(pod_cpu_usage_seconds_total[2m]))`,
	"pod_memory": sumOf(`namespace, pod`, `container`, `container_memory_working_set_bytes{pod!="",container!=""}`) +
		` or max by (namespace, pod) (pod_memory_working_set_bytes)`,
	"pod_network_in":  sumOf(`namespace, pod`, `interface`, `rate(container_network_receive_bytes_total{pod!=""}[2m])`),
	"pod_network_out": sumOf(`namespace, pod`, `interface`, `rate(container_network_transmit_bytes_total{pod!=""}[2m])`),
	// The cgroup of a pod includes its containers'.
	"pod_disk_read": sumOf(`namespace, pod`, `container, device`, `rate(container_fs_reads_bytes_total{pod!="",container!=""}[2m])`) +
		` or ` + sumOf(`namespace, pod`, `device`, `rate(container_fs_reads_bytes_total{pod!="",container=""}[2m])`),
	"pod_disk_write": sumOf(`namespace, pod`, `container, device`, `rate(container_fs_writes_bytes_total{pod!="",container!=""}[2m])`) +
		` or ` + sumOf(`namespace, pod`, `device`, `rate(container_fs_writes_bytes_total{pod!="",container=""}[2m])`),
}

// containerLabels tell containers apart.
const containerLabels = "namespace, pod, container"

// sumOf returns a query that adds up, by some labels, the series of parts with further labels. Of several series of a part the largest
// counts.
func sumOf(by, parts, series string) string {
	return "sum by (" + by + ") (max by (" + by + ", " + parts + ") (" + series + "))"
}

// machineLabels name a node in Kepler's metrics: node_name today, exported_instance before release 0.10.
const machineLabels = "node, node_name, exported_instance, instance"

// The interfaces that carry a node's traffic once.
const (
	virtual    = `lo|veth.*|cali.*|cni.*|cilium.*|docker.*|flannel.*|br-.*|kube-.*|tun.*`
	physical   = `device!~"` + virtual + `"`
	interfaces = `interface!~"` + virtual + `"`
)

// factors convert the units of queries into the units of dimensions.
var factors = [cluster.Dimensions]float64{1000, 1, 1, 1, 1, 1}
