package usage

import (
	"strings"
	"time"

	"gnnsched/internal/cluster"
)

// ageQuery is the name of the query for the time of the samples.
const ageQuery = "node_time"

// wattsQuery is the name of the query for what machines draw.
const wattsQuery = "node_watts"

// throttledQuery is the name of the query for the CPU that pods wanted and did not get.
const throttledQuery = "node_throttled"

// defaultQueries holds the queries in PromQL by name. The result of a node_ query has one of the labels node,
// node_name, kubernetes_node, nodename, exported_instance and instance, that of a pod_ query the labels namespace and pod. Units
// are cores, bytes, bytes a second and watts; node_time is the Unix time of the newest sample. They read the kubelet's resource metrics, node-exporter
// and cAdvisor, whichever is there. If several have a node, the largest value counts.
var defaultQueries = map[string]string{
	ageQuery: `max by (node, instance) (timestamp(node_cpu_usage_seconds_total))` +
		` or max by (node, instance) (timestamp(node_cpu_seconds_total{mode="idle"}))` +
		` or max by (node, instance) (timestamp(container_cpu_usage_seconds_total{id="/"}))`,
	"node_cpu": `sum by (node, instance) (rate(node_cpu_usage_seconds_total[2m]))` +
		` or sum by (node, instance) (rate(node_cpu_seconds_total{mode!~"idle|iowait|steal"}[2m]))` +
		` or sum by (node, instance) (rate(container_cpu_usage_seconds_total{id="/"}[2m]))`,
	"node_memory": `sum by (node, instance) (node_memory_working_set_bytes)` +
		` or sum by (node, instance) (node_memory_MemTotal_bytes - node_memory_MemAvailable_bytes)` +
		` or sum by (node, instance) (container_memory_working_set_bytes{id="/"})`,
	"node_network_in": `sum by (node, instance) (rate(node_network_receive_bytes_total{` + physical + `}[2m]))` +
		` or sum by (node, instance) (rate(container_network_receive_bytes_total{id="/",` + interfaces + `}[2m]))`,
	"node_network_out": `sum by (node, instance) (rate(node_network_transmit_bytes_total{` + physical + `}[2m]))` +
		` or sum by (node, instance) (rate(container_network_transmit_bytes_total{id="/",` + interfaces + `}[2m]))`,
	"node_disk_read": `sum by (node, instance) (rate(node_disk_read_bytes_total[2m]))` +
		` or sum by (node, instance) (rate(container_fs_reads_bytes_total{id="/"}[2m]))`,
	"node_disk_write": `sum by (node, instance) (rate(node_disk_written_bytes_total[2m]))` +
		` or sum by (node, instance) (rate(container_fs_writes_bytes_total{id="/"}[2m]))`,

	// Kepler: the whole machine, else its CPU packages; the same before release 0.10; node-exporter: the packages.
	wattsQuery: `sum by (` + machineLabels + `) (avg_over_time(kepler_platform_watts[2m]))` +
		` or sum by (` + machineLabels + `) (rate(kepler_node_cpu_joules_total{zone="package"}[2m]))` +
		` or sum by (` + machineLabels + `) (rate(kepler_node_platform_joules_total[2m]))` +
		` or sum by (` + machineLabels + `) (rate(kepler_node_package_joules_total[2m]))` +
		` or sum by (` + machineLabels + `) (rate(node_rapl_package_joules_total[2m]))`,

	throttledQuery: `sum by (node, instance) (rate(container_cpu_cfs_throttled_seconds_total{container!=""}[2m]))`,

	"pod_cpu": `sum by (namespace, pod) (rate(container_cpu_usage_seconds_total{pod!="",container!=""}[2m]))` +
		` or sum by (namespace, pod) (rate(pod_cpu_usage_seconds_total[2m]))`,
	"pod_memory": `sum by (namespace, pod) (container_memory_working_set_bytes{pod!="",container!=""})` +
		` or sum by (namespace, pod) (pod_memory_working_set_bytes)`,
	"pod_network_in":  `sum by (namespace, pod) (rate(container_network_receive_bytes_total{pod!=""}[2m]))`,
	"pod_network_out": `sum by (namespace, pod) (rate(container_network_transmit_bytes_total{pod!=""}[2m]))`,
	"pod_disk_read":   `sum by (namespace, pod) (rate(container_fs_reads_bytes_total{pod!=""}[2m]))`,
	"pod_disk_write":  `sum by (namespace, pod) (rate(container_fs_writes_bytes_total{pod!=""}[2m]))`,
}

// QueriesOver returns the default queries with rates and means over another time than two minutes, which must hold two scrapes. It is for clusters that play usage
// faster than it is.
func QueriesOver(window time.Duration) map[string]string {
	out := map[string]string{}
	for name, q := range defaultQueries {
		out[name] = strings.ReplaceAll(q, "[2m]", "["+window.String()+"]")
	}
	return out
}

// machineLabels name a node in Kepler's metrics: node_name today, exported_instance before release 0.10.
const machineLabels = "node, node_name, exported_instance, instance"

// The interfaces that carry a node's traffic once.
const (
	virtual    = `lo|veth.*|cali.*|cni.*|cilium.*|docker.*|flannel.*|br-.*|kube-.*|tun.*`
	physical   = `device!~"` + virtual + `"`
	interfaces = `interface!~"` + virtual + `"`
)

// factors turn the units of queries into those of dimensions.
var factors = [cluster.Dimensions]float64{1000, 1, 1, 1, 1, 1}
