package traffic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/model"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	"gnnsched/internal/cluster"
	"gnnsched/internal/files"
	"gnnsched/internal/metric"
	"gnnsched/internal/promapi"
)

// defaultQuery gives what workloads send each other by Istio's metrics, requests and answers together.
const defaultQuery = `sum by (source_workload, source_workload_namespace, destination_workload, destination_workload_namespace) (` +
	`label_replace(rate(istio_request_bytes_sum{reporter="source"}[2m]), "kind", "request", "", "")` +
	` or label_replace(rate(istio_response_bytes_sum{reporter="source"}[2m]), "kind", "response", "", "")` +
	` or label_replace(rate(istio_tcp_sent_bytes_total{reporter="source"}[2m]), "kind", "sent", "", "")` +
	` or label_replace(rate(istio_tcp_received_bytes_total{reporter="source"}[2m]), "kind", "received", "", ""))`

// Measured says where it is measured what workloads send each other.
type Measured struct {
	promapi.Server `json:",inline"`
	// Query gives bytes a second between two workloads, in both directions together. The default adds up Istio's requests, responses and TCP
	// bytes.
	Query string `json:"query,omitempty"`
	// Labels are those of the query with the source, its namespace, the destination and its namespace. The defaults are Istio's.
	Labels []string `json:"labels,omitempty"`
	// Interval is the time between two measurements, 30s by default. One is given up after Timeout, 10s by default, and not
	// used any more once it is older than MaxAge, 5m by default.
	Interval metav1.Duration `json:"interval,omitempty"`
	Timeout  metav1.Duration `json:"timeout,omitempty"`
	MaxAge   metav1.Duration `json:"maxAge,omitempty"`
}

var defaultLabels = []string{"source_workload", "source_workload_namespace", "destination_workload", "destination_workload_namespace"}

// complete fills in what is left out, and returns what is wrong.
func (c *Measured) complete() error {
	for _, d := range []struct {
		to    *metav1.Duration
		value time.Duration
	}{{&c.Interval, 30 * time.Second}, {&c.Timeout, 10 * time.Second}, {&c.MaxAge, 5 * time.Minute}} {
		d.to.Duration = cmp.Or(d.to.Duration, d.value)
	}
	c.Query = cmp.Or(c.Query, defaultQuery)
	if c.Labels == nil {
		c.Labels = defaultLabels
	}
	switch {
	case len(c.Labels) != len(defaultLabels):
		return fmt.Errorf("labels: there are %d, want 4: source, its namespace, destination, its namespace", len(c.Labels))
	case c.Interval.Duration < 5*time.Second || c.Interval.Duration > 10*time.Minute:
		return fmt.Errorf("interval is %v, want a time from 5s to 10m", c.Interval.Duration)
	case c.Timeout.Duration < 0:
		return fmt.Errorf("timeout is %v, want more than 0", c.Timeout.Duration)
	case c.MaxAge.Duration < c.Interval.Duration:
		return fmt.Errorf("maxAge is %v, want at least interval (%v)", c.MaxAge.Duration, c.Interval.Duration)
	}
	return c.Server.Validate()
}

// The bounds of a measurement.
const (
	maxPairs = 20_000
	maxRate  = 1e13 // bytes a second of two workloads
)

var set metric.Set

var polls = set.Counters("traffic_polls_total", "Measurements of traffic between workloads, by result: ok or error.", "result")

var ignoredSamples = set.Counters("traffic_samples_ignored_total",
	"Samples of measured traffic without effect, by reason: faulty, or unknown where a workload has no pods. "+
		"Each measurement counts them again.",
	"reason")

// poller measures again and again. latest may be called while it does.
type poller struct {
	config Measured
	client *promapi.Client
	sizes  *sizes
	asks   promapi.Poll
	told   map[ignored]bool // of what there was any in the last answer

	mu   sync.Mutex
	last *measurement // nil before the first
}

func newPoller(c Measured, s *sizes, clk clock.WithTicker) (*poller, error) {
	client, err := promapi.New(c.Server)
	if err != nil {
		return nil, err
	}
	asks := promapi.Poll{Interval: c.Interval.Duration, Timeout: c.Timeout.Duration, Clock: clk}
	return &poller{config: c, client: client, sizes: s, asks: asks, told: map[ignored]bool{}}, nil
}

// measurement is an answer of Prometheus. Nobody changes it.
type measurement struct {
	rates map[pair]float64
	at    time.Time
}

// run measures at once and then at every interval, until ctx is done.
func (p *poller) run(ctx context.Context, log klog.Logger) {
	p.asks.Run(ctx, func(ctx context.Context) { p.poll(ctx, log) })
}

// poll measures once. The log says when it begins to fail and when it works again.
func (p *poller) poll(ctx context.Context, log klog.Logger) {
	var rates map[pair]float64
	var without map[ignored]int
	changed, err := p.asks.Ask(ctx, func(ctx context.Context) error {
		samples, err := p.client.Query(ctx, p.config.Query, time.Time{})
		if err == nil {
			rates, without, err = p.read(samples)
		}
		return err
	})
	if ctx.Err() != nil {
		return
	}
	switch {
	case changed && err != nil:
		log.Error(err, "Measuring traffic failed; none counts once the last measurement is too old", "again", p.config.Interval.Duration)
	case changed:
		log.Info("Measuring traffic works again", "pairs", len(rates))
	}
	if err != nil {
		polls.WithLabelValues("error").Inc()
		return
	}
	p.tell(without, log)
	p.mu.Lock()
	p.last = &measurement{rates, p.asks.Clock.Now()}
	p.mu.Unlock()
	polls.WithLabelValues("ok").Inc()
}

// ignored says why a sample has no effect.
type ignored string

const (
	ignoredFaulty  ignored = "faulty"  // a label lacks, or the value is NaN, not above 0, too large or a histogram
	ignoredUnknown ignored = "unknown" // one of the workloads has no pods; they may still come
)

// tell counts samples without effect. The log says so when there are some and there were none before.
func (p *poller) tell(without map[ignored]int, log klog.Logger) {
	for _, why := range []ignored{ignoredFaulty, ignoredUnknown} {
		n := without[why]
		ignoredSamples.WithLabelValues(string(why)).Add(float64(n))
		if n > 0 && !p.told[why] {
			log.Info("Measured traffic without effect", "reason", string(why), "samples", n)
		}
		p.told[why] = n > 0
	}
}

// read returns the rates of an answer, and how many samples have no effect.
func (p *poller) read(samples model.Vector) (rates map[pair]float64, without map[ignored]int, err error) {
	if len(samples) > maxPairs {
		return nil, nil, fmt.Errorf("the query gives %d pairs of workloads, more than %d", len(samples), maxPairs)
	}
	rates, without = map[pair]float64{}, map[ignored]int{}
	for _, s := range samples {
		label := func(i int) string { return string(s.Metric[model.LabelName(p.config.Labels[i])]) }
		x := pair{key{label(1), label(0)}, key{label(3), label(2)}}
		rate := float64(s.Value)
		// Also refuses NaN.
		if s.Histogram != nil || label(0) == "" || label(1) == "" || label(2) == "" || label(3) == "" || !(rate > 0 && rate <= maxRate) {
			without[ignoredFaulty]++
			continue
		}
		if p.sizes.of(x.from) == 0 || p.sizes.of(x.to) == 0 {
			without[ignoredUnknown]++
		}
		rates[x] = min(rates[x]+rate, maxRate)
	}
	if len(samples) > 0 && len(rates) == 0 {
		return nil, nil, errors.New("no sample has the labels of two workloads and a rate above 0")
	}
	return rates, without, nil
}

// latest returns the last measurement; nil if there is none, or if it is too old.
func (p *poller) latest() *measurement {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last == nil || p.asks.Clock.Since(p.last.at) > p.config.MaxAge.Duration {
		return nil
	}
	return p.last
}

// defaultRackLabel is the default of Config.RackLabel.
const defaultRackLabel = "topology.kubernetes.io/rack"

// Config describes the network of a cluster, and where traffic is measured.
type Config struct {
	// Network is the network between the nodes, as a scenario has it.
	Network cluster.Links `json:"network"`
	// RackLabel is the label of nodes that names their rack within their zone, which the label topology.kubernetes.io/zone
	// names. The default is topology.kubernetes.io/rack.
	RackLabel string `json:"rackLabel,omitempty"`
	// Measured says where it is measured what workloads send each other.
	Measured Measured `json:"measured"`
}

// Default fills in what is left out, and returns what is wrong.
func (c *Config) Default() error {
	c.RackLabel = cmp.Or(c.RackLabel, defaultRackLabel)
	if faults := validation.IsQualifiedName(c.RackLabel); len(faults) > 0 {
		return fmt.Errorf("traffic: rackLabel %q is not the key of a label: %s", c.RackLabel, strings.Join(faults, "; "))
	}
	if err := c.Network.Validate(nil); err != nil {
		return fmt.Errorf("traffic: network: %w", err)
	}
	if err := c.Measured.complete(); err != nil {
		return fmt.Errorf("traffic: measured: %w", err)
	}
	return nil
}

// Load reads a configuration in YAML, which is valid; nil for no path.
func Load(path string) (*Config, error) {
	if path == "" {
		return nil, nil
	}
	text, err := files.Read(path, files.Text)
	if err != nil {
		return nil, err
	}
	c := &Config{}
	if err := yaml.UnmarshalStrict(text, c); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	checked := *c // what is left out stays out of --print-config
	if err := checked.Default(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if _, err := promapi.New(c.Measured.Server); err != nil {
		return nil, fmt.Errorf("%s: measured: %w", path, err)
	}
	return c, nil
}
