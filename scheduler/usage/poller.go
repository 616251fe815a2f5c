package usage

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"gnnsched/internal/cluster"
	"gnnsched/internal/promapi"
)

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
