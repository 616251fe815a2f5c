package usage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/model"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	"k8s.io/metrics/pkg/client/clientset/versioned"
	"k8s.io/utils/clock"

	"gnnsched/internal/cluster"
	"gnnsched/internal/promapi"
)

const atOnce = 4 // concurrent queries

// prometheus asks a Prometheus server.
type prometheus struct {
	client  *promapi.Client
	queries map[string]string
}

// newPrometheus returns the source of a valid configuration. It reads the certificates.
func newPrometheus(c Config) (*prometheus, error) {
	client, err := promapi.New(c.Server)
	if err != nil {
		return nil, fmt.Errorf("usage: %w", err)
	}
	p := &prometheus{client: client, queries: map[string]string{}}
	for name, q := range defaultQueries {
		if own, replaced := c.Queries[name]; replaced {
			q = own
		}
		if q != "" {
			p.queries[name] = q
		}
	}
	return p, nil
}

// Measure implements source.
func (p *prometheus) Measure(ctx context.Context) (m measurement, err error) {
	var mu sync.Mutex
	var errs []error
	var group errgroup.Group
	group.SetLimit(atOnce)
	for name, q := range p.queries {
		group.Go(func() error {
			samples, err := p.client.Query(ctx, q, time.Time{})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, fmt.Errorf("query %s: %w", name, err))
				return nil
			}
			m.add(name, samples)
			return nil
		})
	}
	_ = group.Wait() // the errors are in errs
	if len(errs) > 0 {
		err = fmt.Errorf("%d of %d queries failed, one with: %w", len(errs), len(p.queries), errs[0])
	}
	return m, err
}

// add appends the answer to a named query.
func (m *measurement) add(name string, samples model.Vector) {
	kind, dimension, _ := strings.Cut(name, "_")
	for _, s := range samples {
		value := float64(s.Value)
		switch {
		case s.Histogram != nil:
		case name == ageQuery:
			m.Ages = append(m.Ages, nodeValue{promapi.NodeNames(s.Metric), float64(s.Timestamp)/1000 - value})
		case name == wattsQuery:
			m.Watts = append(m.Watts, nodeValue{promapi.NodeNames(s.Metric), value})
		case name == throttledQuery:
			m.Throttled = append(m.Throttled, nodeValue{promapi.NodeNames(s.Metric), value * factors[cluster.UsedCPU]})
		case kind == "node":
			d := dimensionNamed(dimension)
			m.Nodes = append(m.Nodes, nodeSample{promapi.NodeNames(s.Metric), d, value * factors[d]})
		default:
			d := dimensionNamed(dimension)
			m.Pods = append(m.Pods, podSample{string(s.Metric["namespace"]), string(s.Metric["pod"]), d, value * factors[d]})
		}
	}
}

// dimensionNamed returns the dimension of a query, whose names are all known.
func dimensionNamed(name string) cluster.Dimension {
	for d := range cluster.Dimension(cluster.Dimensions) {
		if d.String() == name {
			return d
		}
	}
	panic("usage: no dimension is called " + name)
}

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

// metricsAPI asks metrics.k8s.io, which has CPU and memory.
type metricsAPI struct {
	client versioned.Interface
	clock  clock.PassiveClock
}

func newMetricsAPI(c *rest.Config, clk clock.PassiveClock) (*metricsAPI, error) {
	c = rest.CopyConfig(c)
	c.ContentType = "application/json" // not every server of this API has protobuf
	client, err := versioned.NewForConfig(c)
	if err != nil {
		return nil, fmt.Errorf("usage: client of %s: %w", MetricsAPISource, err)
	}
	return &metricsAPI{client, clk}, nil
}

// Measure implements source.
func (a *metricsAPI) Measure(ctx context.Context) (m measurement, err error) {
	nodes, nodesErr := a.client.MetricsV1beta1().NodeMetricses().List(ctx, metav1.ListOptions{})
	if nodesErr == nil {
		m.addNodes(nodes.Items, a.clock.Now())
	}
	pods, podsErr := a.client.MetricsV1beta1().PodMetricses(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if podsErr == nil {
		for i := range pods.Items {
			m.addPod(&pods.Items[i])
		}
	}
	return m, errors.Join(nodesErr, podsErr)
}

func (m *measurement) addNodes(nodes []metricsv1beta1.NodeMetrics, now time.Time) {
	// The clock of the nodes is not ours. The newest sample counts as of now, and the others are older by their difference from it.
	newest := time.Time{}
	for i := range nodes {
		if t := nodes[i].Timestamp.Time; t.After(newest) && t.Before(now.Add(clockError)) {
			newest = t
		}
	}
	if behind := now.Sub(newest); behind > clockError {
		newest = now // so old that it is not a matter of clocks
	}
	for i := range nodes {
		n := &nodes[i]
		names := []string{n.Name}
		m.Ages = append(m.Ages, nodeValue{names, newest.Sub(n.Timestamp.Time).Seconds()})
		for d, v := range amountsOf(n.Usage) {
			m.Nodes = append(m.Nodes, nodeSample{names, d, v})
		}
	}
}

// clockError is the accepted error of another clock.
const clockError = 90 * time.Second

func (m *measurement) addPod(p *metricsv1beta1.PodMetrics) {
	sum := map[cluster.Dimension]float64{}
	for i := range p.Containers {
		for d, v := range amountsOf(p.Containers[i].Usage) {
			sum[d] += v
		}
	}
	for d, v := range sum {
		m.Pods = append(m.Pods, podSample{p.Namespace, p.Name, d, v})
	}
}

func amountsOf(list corev1.ResourceList) map[cluster.Dimension]float64 {
	out := map[cluster.Dimension]float64{}
	if q, has := list[corev1.ResourceCPU]; has {
		out[cluster.UsedCPU] = float64(q.MilliValue())
	}
	if q, has := list[corev1.ResourceMemory]; has {
		out[cluster.UsedMemory] = float64(q.Value())
	}
	return out
}

// poller asks a source again and again, and keeps the answers in a store.
type poller struct {
	config    Config
	source    source
	directory objects
	store     *store
	asks      promapi.Poll
}

// newPoller returns a poller of a configuration's source. It reads the configuration's files. api reaches the cluster's API server.
func newPoller(c Config, api *rest.Config, directory objects, clk clock.WithTicker) (*poller, error) {
	if err := c.Default(); err != nil {
		return nil, err
	}
	var from source
	var err error
	if c.Source == PrometheusSource {
		from, err = newPrometheus(c)
	} else {
		from, err = newMetricsAPI(api, clk)
	}
	if err != nil {
		return nil, err
	}
	set.Register()
	return &poller{config: c, source: from, directory: directory, store: newStore(c),
		asks: promapi.Poll{Interval: c.Interval.Duration, Timeout: c.Timeout.Duration, Clock: clk}}, nil
}

// Run measures at once and then at every interval, until ctx is done.
func (p *poller) Run(ctx context.Context, log klog.Logger) {
	p.asks.Run(ctx, func(ctx context.Context) { p.poll(ctx, log) })
}

// poll measures once.
func (p *poller) poll(ctx context.Context, log klog.Logger) {
	var m measurement
	changed, err := p.asks.Ask(ctx, func(ctx context.Context) (err error) {
		m, err = p.source.Measure(ctx)
		return err
	})
	if ctx.Err() != nil {
		return
	}
	p.report(err, changed, log)
	brought := p.store.Observe(m, err != nil, seconds(p.asks.Clock.Now()), p.directory)
	brought.count()
	brought.log(log)
}

// Seconds is the clock of a scheduler's cluster.Snapshot.Now.
func seconds(t time.Time) float64 { return float64(t.Unix()) + float64(t.Nanosecond())/1e9 }

// report counts the result, and logs it if it is another than before.
func (p *poller) report(err error, changed bool, log klog.Logger) {
	result := "ok"
	if err != nil {
		result = "error"
	}
	polls.WithLabelValues(result).Inc()
	switch {
	case changed && err != nil:
		log.Error(err, "Measuring usage failed; nodes without fresh usage are scored by requests", "source", p.config.Source, "again",
			p.config.Interval.Duration)
	case changed:
		log.Info("Measuring usage works again", "source", p.config.Source)
	}
}

// named is the number of nodes in one log line.
const named = 5

// log logs which nodes are scored by requests from now on, and which by usage again.
func (o *outcome) log(log klog.Logger) {
	for _, reason := range []degradation{usageAbsent, usageStale, usageInvalid, usageFailed} {
		if nodes := o.Changed[reason]; len(nodes) > 0 {
			log.Info("Nodes without measured usage are scored by requests", "reason", reason, "nodes", len(nodes), "some", some(nodes))
		}
	}
	for _, state := range powerStates {
		if nodes := o.Power.Lost[state]; len(nodes) > 0 {
			log.Info("The power of nodes is no longer measured; their annotation or the default counts", "reason", state, "nodes", len(nodes),
				"some", some(nodes))
		}
	}
	if nodes := o.Changed[""]; len(nodes) > 0 {
		log.Info("Nodes are scored by measured usage", "nodes", len(nodes), "some", some(nodes))
	}
}

// some returns the first names in order.
func some(nodes []string) []string {
	slices.Sort(nodes)
	return nodes[:min(len(nodes), named)]
}

// started holds the stores of running pollers. The profiles of one scheduler with the same configuration share one.
var started sync.Map

type startedKey struct {
	snapshot fwk.SharedLister // one for each scheduler
	config   string
}

// Start returns a view of the measurements of c's source, from now on and until ctx is done. Without a configuration the view attaches
// nothing.
func Start(ctx context.Context, c *Config, h fwk.Handle, log klog.Logger) (*View, error) {
	if c == nil {
		return &View{}, nil
	}
	clk := clock.RealClock{}
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	key := startedKey{h.SnapshotSharedLister(), string(text)}
	if s, running := started.Load(key); running {
		return newView(s.(*store), clk), nil
	}
	core := h.SharedInformerFactory().Core().V1()
	p, err := newPoller(*c, h.KubeConfig(), directoryOf(core.Nodes().Lister(), core.Pods().Lister()), clk)
	if err != nil {
		return nil, err
	}
	started.Store(key, p.store)
	context.AfterFunc(ctx, func() { started.Delete(key) })
	nodes, pods := core.Nodes().Informer(), core.Pods().Informer()
	go func() {
		// Before, no sample has a node to belong to, and the next measurement is an interval away.
		if cache.WaitForCacheSync(ctx.Done(), nodes.HasSynced, pods.HasSynced) {
			p.Run(ctx, log)
		}
	}()
	return newView(p.store, clk), nil
}

// Source measures usage.
type source interface {
	// Measure returns the present usage. With an error it returns the measurements that it could make.
	Measure(ctx context.Context) (measurement, error)
}

// measurement is one answer of a source, not checked yet.
type measurement struct {
	Nodes     []nodeSample
	Pods      []podSample
	Watts     []nodeValue
	Ages      []nodeValue // of a node's samples, in seconds by the clock of the source; a node without one has samples of now
	Throttled []nodeValue // CPU that the pods of a node wanted and did not get, in thousandths of a core
}

// nodeValue is a value of a node.
type nodeValue struct {
	Names []string // the node's names in the source, the best first
	Value float64
}

// nodeSample is a node's use in one dimension, in the dimension's unit.
type nodeSample struct {
	Names     []string // the node's names in the source, the best first
	Dimension cluster.Dimension
	Value     float64
}

// podSample is a pod's use in one dimension, in the dimension's unit.
type podSample struct {
	Namespace, Pod string
	Dimension      cluster.Dimension
	Value          float64
}

// objects knows the objects that samples belong to. It is safe for concurrent use.
type objects interface {
	// Nodes returns the cluster's nodes by every name that a source may use.
	Nodes() map[string]nodeInfo
	// Workload returns the workload of a running pod, as workloadOf does.
	Workload(namespace, pod string) (key string, known bool)
}

// nodeInfo is a node that samples may belong to.
type nodeInfo struct {
	Name        string
	Allocatable cluster.Resources
	Power       *cluster.PowerModel // of its annotation; nil: the default
}
