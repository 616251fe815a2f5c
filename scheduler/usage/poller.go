package usage

import (
	"context"
	"slices"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

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
