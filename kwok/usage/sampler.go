package usage

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/utils/clock"
)

// Config is the setting of a sampler. Interval is required.
type Config struct {
	Interval time.Duration    // time between two samples
	Clock    clock.WithTicker // nil: the real one
	Log      zerolog.Logger   // warnings about pods whose annotation is wrong; the zero value drops them
}

// Sampler measures the usage of pods and nodes. Before [Sampler.Run] has taken the first sample, and after it has ended, the pages that
// read it answer that there is no sample.
type Sampler struct {
	config Config
	last   atomic.Pointer[snapshot]
}

// New returns a sampler.
func New(c Config) *Sampler {
	c.Clock = cmp.Or[clock.WithTicker](c.Clock, clock.RealClock{})
	return &Sampler{config: c}
}

// Run watches the cluster's nodes and running pods, and samples them until ctx is cancelled. All its
// goroutines have ended when it returns.
func (s *Sampler) Run(ctx context.Context, client kubernetes.Interface) error {
	ctx, cancel := context.WithCancel(ctx)
	defer s.last.Store(nil)
	caches := watch(client)
	defer caches.shutdown()
	defer cancel()
	if err := caches.start(ctx); err != nil {
		return err
	}
	tick := s.config.Clock.NewTicker(s.config.Interval)
	defer tick.Stop()
	models := &models{log: s.config.Log}
	for {
		if err := s.sample(models, caches.nodes, caches.pods); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C():
		}
	}
}

// sample takes one sample and publishes it.
func (s *Sampler) sample(m *models, nodes corelisters.NodeLister, pods corelisters.PodLister) error {
	allNodes, err := nodes.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list the nodes: %w", err)
	}
	allPods, err := pods.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list the pods: %w", err)
	}
	m.begin()
	b := builder{old: s.last.Load(), models: m, interval: s.config.Interval}
	s.last.Store(b.build(allNodes, allPods, s.config.Clock.Now()))
	m.end()
	return nil
}

// reading is a snapshot with the growth of its counters since then.
type reading struct {
	*snapshot
	since float64 // seconds since the sample, at most one interval
}

// read returns the last snapshot, or false if there is none. Counters stop after one interval until the next
// sample, so that a late one never finds them ahead of itself.
func (s *Sampler) read() (reading, bool) {
	now := s.config.Clock.Now() // before the snapshot is read, which then is the newer of the two
	last := s.last.Load()
	if last == nil {
		return reading{}, false
	}
	since := min(max(now.Sub(last.at), 0), s.config.Interval)
	return reading{snapshot: last, since: since.Seconds()}, true
}

// writer writes a page of metrics in Prometheus' text format.
type writer struct {
	buf   []byte
	name  string  // of the current family
	since float64 // seconds since the sample
}

// page appends the families of a page for one node.
func (w *writer) page(p page, n *nodeSample) {
	for i := range p {
		f := &p[i]
		w.name = f.name
		w.text("# HELP ", f.name, " ", f.help, "\n# TYPE ", f.name, " ", f.kind, "\n")
		for _, write := range f.lines {
			write(w, n)
		}
	}
}

// line appends one sample. labels are names and values by turns. The values need no escapes: they are names
// that the API server has checked.
func (w *writer) line(value float64, labels ...string) {
	w.text(w.name)
	for i := 0; i < len(labels); i += 2 {
		open := ","
		if i == 0 {
			open = "{"
		}
		w.text(open, labels[i], `="`, labels[i+1], `"`)
	}
	if len(labels) > 0 {
		w.text("}")
	}
	w.text(" ")
	w.buf = strconv.AppendFloat(w.buf, value, 'g', -1, 64)
	w.text("\n")
}

func (w *writer) text(parts ...string) {
	for _, s := range parts {
		w.buf = append(w.buf, s...)
	}
}

// The ports by which requests may name a kubelet, Kepler or node-exporter.
const (
	kubeletPort      = "10250"
	keplerPort       = "28282"
	nodeExporterPort = "9100"
)

// discoveryPath lists the nodes for Prometheus, in the format of its http_sd_configs. It is the path of kwok's own server.
const discoveryPath = "/discovery/prometheus"

// Intercept answers requests for the metrics of a kubelet of the simulated cluster and of the exporters of power beside it, and
// for the list of the nodes. It passes all other requests on to next. It belongs behind the API server's authentication and authorization,
// in front of what would connect to the kubelet: simulated nodes have none.
func (s *Sampler) Intercept(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		node, p := nodePage(r.URL.Path)
		listed := r.URL.Path == discoveryPath
		if p == nil && !listed || r.Method != http.MethodGet {
			next.ServeHTTP(w, r)
			return
		}
		now, ok := s.read()
		if !ok {
			http.Error(w, "no sample of the nodes' use has been taken yet", http.StatusServiceUnavailable)
			return
		}
		if listed {
			now.discovery(w, r.Host)
			return
		}
		n := now.node(node)
		if n == nil {
			next.ServeHTTP(w, r) // answers that the node does not exist
			return
		}
		buf := buffers.Get().(*[]byte)
		defer buffers.Put(buf)
		out := writer{buf: (*buf)[:0], since: now.since}
		out.page(p, n)
		*buf = out.buf
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = w.Write(out.buf) // fails if the client has gone
	})
}

// target is an entry of http_sd_configs.
type target struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

// discovery lists the nodes, which all are at the API server's address.
func (r reading) discovery(w http.ResponseWriter, host string) {
	list := make([]target, len(r.nodes))
	for i := range r.nodes {
		list[i] = target{Targets: []string{host}, Labels: map[string]string{"node": r.nodes[i].node.Name}}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(list) // fails if the client has gone
}

var buffers = sync.Pool{New: func() any { return new([]byte) }}

// pages holds the pages of a node by port and path.
var pages = map[string]page{
	" proxy/metrics/resource":               resourcePage,
	" proxy/metrics/cadvisor":               cadvisorPage,
	kubeletPort + " proxy/metrics/resource": resourcePage,
	kubeletPort + " proxy/metrics/cadvisor": cadvisorPage,
	keplerPort + " proxy/metrics":           keplerPage,
	nodeExporterPort + " proxy/metrics":     nodeExporterPage,
}

// nodePage returns the node and the page that a path names, such as
// /api/v1/nodes/node-0/proxy/metrics/resource, or nil for every other path.
func nodePage(path string) (node string, p page) {
	rest, ok := strings.CutPrefix(path, "/api/v1/nodes/")
	if !ok {
		return "", nil
	}
	node, rest, _ = strings.Cut(rest, "/")
	node = strings.TrimPrefix(node, "https:")
	node, port, _ := strings.Cut(node, ":")
	page, has := pages[port+" "+rest]
	if !has {
		return "", nil
	}
	return node, page
}
