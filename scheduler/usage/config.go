package usage

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gnnsched/internal/choice"
	"gnnsched/internal/cluster"
	"gnnsched/internal/metric"
	"gnnsched/internal/promapi"
)

// The sources.
const (
	PrometheusSource = "prometheus"
	MetricsAPISource = "metrics.k8s.io"
)

// Config says where measured usage comes from.
type Config struct {
	// Source is prometheus or metrics.k8s.io, which has CPU and memory only.
	Source         string `json:"source"`
	promapi.Server `json:",inline"`
	// Queries replaces the default queries by name. An empty query is not asked.
	Queries map[string]string `json:"queries,omitempty"`
	// Interval is the time between two measurements, 15s by default, and Timeout that after which one is given up,
	// 10s by default, but at most MaxAge.
	Interval metav1.Duration `json:"interval,omitempty"`
	Timeout  metav1.Duration `json:"timeout,omitempty"`
	// MaxAge is the age from which a measurement is not used any more, 3m by default.
	MaxAge metav1.Duration `json:"maxAge,omitempty"`
	// NetworkCapacity and DiskCapacity are the capacity of a node's network and disk in bytes a second. The defaults are 125M (1 Gbit/s) and
	// 200M.
	NetworkCapacity resource.Quantity `json:"networkCapacity,omitzero"`
	DiskCapacity    resource.Quantity `json:"diskCapacity,omitzero"`
}

// Default fills in missing values, and returns an error for the first invalid value.
func (c *Config) Default() error {
	for _, d := range []struct {
		to    *metav1.Duration
		value time.Duration
	}{{&c.Interval, 15 * time.Second}, {&c.MaxAge, 3 * time.Minute}} {
		d.to.Duration = cmp.Or(d.to.Duration, d.value)
	}
	if c.Timeout.Duration == 0 { // a negative MaxAge is an error of its own
		c.Timeout.Duration = 10 * time.Second
		if c.MaxAge.Duration > 0 {
			c.Timeout.Duration = min(c.Timeout.Duration, c.MaxAge.Duration)
		}
	}
	for _, q := range []struct {
		to    *resource.Quantity
		value string
	}{{&c.NetworkCapacity, "125M"}, {&c.DiskCapacity, "200M"}} {
		if q.to.IsZero() {
			*q.to = resource.MustParse(q.value)
		}
	}
	return c.validate()
}

func (c *Config) validate() error {
	if c.Interval.Duration < 5*time.Second || c.Interval.Duration > time.Minute {
		return fmt.Errorf("usage: interval is %v, want a time from 5s to 1m", c.Interval.Duration)
	}
	if c.Timeout.Duration <= 0 {
		return fmt.Errorf("usage: timeout is %v, want more than 0", c.Timeout.Duration)
	}
	if c.MaxAge.Duration < c.Interval.Duration {
		return fmt.Errorf("usage: maxAge is %v, want at least interval (%v)", c.MaxAge.Duration, c.Interval.Duration)
	}
	if c.MaxAge.Duration < c.Timeout.Duration {
		return fmt.Errorf("usage: maxAge is %v, want at least timeout (%v), or a source that hangs would be told too late",
			c.MaxAge.Duration, c.Timeout.Duration)
	}
	if c.NetworkCapacity.Sign() < 0 || c.DiskCapacity.Sign() < 0 {
		return errors.New("usage: networkCapacity and diskCapacity must be positive")
	}
	switch c.Source {
	case PrometheusSource:
		return c.validatePrometheus()
	case MetricsAPISource:
		if c.Server != (promapi.Server{}) || len(c.Queries) > 0 {
			return fmt.Errorf("usage: source %s is asked over the API server: address, queries, files and serverName are for %s",
				MetricsAPISource, PrometheusSource)
		}
		return nil
	}
	return fmt.Errorf("usage: source %q is not known; choose %s or %s, or leave usage out", c.Source, PrometheusSource, MetricsAPISource)
}

func (c *Config) validatePrometheus() error {
	if err := c.Server.Validate(); err != nil {
		return fmt.Errorf("usage: %w", err)
	}
	for name := range c.Queries {
		if _, known := defaultQueries[name]; !known {
			return fmt.Errorf("usage: %w", choice.Unknown("query", name, slices.Sorted(maps.Keys(defaultQueries))))
		}
	}
	return nil
}

// set holds the metrics of measured usage.
var set metric.Set

var (
	polls = set.Counters("usage_polls_total",
		"Measurements of usage, by result: ok, or error if the source or one of its queries failed.", "result")
	nodesNow = set.Gauges("usage_nodes",
		"Nodes by the state of their usage after the last measurement: measured; or absent, stale, invalid, failed, "+
			"which are scored by requests.",
		"state")
	degradedTotal = set.Counters("usage_degraded_total",
		"How often a node came to be scored by requests, by reason: absent, stale, invalid, failed.", "reason")
	powerNodes = set.Gauges("power_nodes",
		"Nodes by how their power is known after the last measurement: calibrated by measured watts; "+
			"gathering (samples too few or too similar); or gpu, absent, stale, invalid, failed, where the annotation or the default counts.",
		"state")
	powerDegraded = set.Counters("power_degraded_total",
		"How often a node's power was no longer measured, by reason: gpu, absent, stale, invalid, failed.", "reason")
	powerWatts = set.Gauges("power_watts",
		"Watts of the nodes whose power is measured: measured, or what the models in use say for the same nodes (model).", "by")
	valuesIgnored = set.Counters("usage_values_ignored_total",
		"Measured values that were ignored, by reason: invalid (NaN, infinite, negative, absurdly large), "+
			"or unknown (of a node or pod that the cluster does not have).",
		"reason")
)

// count adds the outcome to the metrics.
func (o *outcome) count() {
	nodesNow.WithLabelValues("measured").Set(float64(o.Measured))
	for _, reason := range []degradation{usageAbsent, usageStale, usageInvalid, usageFailed} {
		nodesNow.WithLabelValues(string(reason)).Set(float64(o.Degraded[reason]))
		degradedTotal.WithLabelValues(string(reason)).Add(float64(len(o.Changed[reason])))
	}
	for _, state := range powerStates {
		powerNodes.WithLabelValues(string(state)).Set(float64(o.Power.Nodes[state]))
		if lost := len(o.Power.Lost[state]); lost > 0 {
			powerDegraded.WithLabelValues(string(state)).Add(float64(lost))
		}
	}
	powerWatts.WithLabelValues("measured").Set(o.Power.Measured)
	powerWatts.WithLabelValues("model").Set(o.Power.Modelled)
	valuesIgnored.WithLabelValues("invalid").Add(float64(o.Rejected))
	valuesIgnored.WithLabelValues("unknown").Add(float64(o.Unknown))
}

const (
	ringSize   = 64 // samples of cluster.UsageWindow, which at the shortest interval are 60
	hourSlots  = 12
	daySlots   = 24
	hourLength = 3600.0
	dayLength  = 86_400.0
)

// series is the history of one dimension of a node. Its size is fixed.
type series struct {
	times, values [ringSize]float64
	begin, count  int
	hour          maxima[[hourSlots]float64]
	day           maxima[[daySlots]float64]
}

// maxima holds the maximum of each of the last few slots of time.
type maxima[S [hourSlots]float64 | [daySlots]float64] struct {
	slots S
	last  int64 // number of the newest slot
}

// add records a sample. Samples come in the order of time.
func (s *series) add(at, value float64) {
	if s.count == ringSize {
		s.begin, s.count = (s.begin+1)%ringSize, s.count-1
	}
	i := (s.begin + s.count) % ringSize
	s.times[i], s.values[i] = at, value
	s.count++
	record(s.hour.slots[:], &s.hour.last, at, hourLength/hourSlots, value)
	record(s.day.slots[:], &s.day.last, at, dayLength/daySlots, value)
}

// last returns the newest sample. There must be one.
func (s *series) last() float64 { return s.values[(s.begin+s.count-1)%ringSize] }

// record raises the maximum of the slot of a time and clears the slots that were skipped.
func record(slots []float64, last *int64, at, length, value float64) {
	now := int64(math.Floor(at / length))
	for n := max(*last+1, now-int64(len(slots))+1); n <= now; n++ {
		slots[index(n, len(slots))] = 0
	}
	*last = max(*last, now)
	i := index(now, len(slots))
	slots[i] = max(slots[i], value)
}

func index(n int64, length int) int {
	return int(((n % int64(length)) + int64(length)) % int64(length))
}

// statistics returns the statistics of the samples until now. There must be one.
func (s *series) statistics(now float64) cluster.Statistics {
	for s.count > 1 && s.times[s.begin] <= now-cluster.UsageWindow {
		s.begin, s.count = (s.begin+1)%ringSize, s.count-1
	}
	n := float64(s.count)
	var mean, squares float64
	for k := range s.count {
		mean += s.values[(s.begin+k)%ringSize] / n
	}
	for k := range s.count {
		d := s.values[(s.begin+k)%ringSize] - mean
		squares += d * d
	}
	return cluster.Statistics{Mean: mean, Deviation: math.Sqrt(squares / n), HourMax: most(s.hour.slots[:]), DayMax: most(s.day.slots[:])}
}

func most(values []float64) (out float64) {
	for _, v := range values {
		out = max(out, v)
	}
	return out
}

// average is the history of one dimension of a workload: weighted so that a sample loses half its weight
// in averageHalfLife.
type average struct {
	at, mean, variance, most float64
	known                    bool
}

const averageHalfLife = 600.0

// add records what one pod of the workload used on average at a time.
func (a *average) add(at, value float64) {
	if !a.known {
		*a = average{at: at, mean: value, most: value, known: true}
		return
	}
	passed := max(at-a.at, 0)
	keep := math.Exp2(-passed / averageHalfLife)
	d := value - a.mean
	a.mean += (1 - keep) * d
	a.variance = keep * (a.variance + (1-keep)*d*d)
	a.most = max(value, a.most*math.Exp2(-passed/hourLength))
	a.at = at
}

func (a *average) statistics() cluster.Statistics {
	return cluster.Statistics{Mean: a.mean, Deviation: math.Sqrt(a.variance), HourMax: a.most, DayMax: a.most}
}

// Path is the path at which the scheduler answers with its reports.
const Path = "/debug/usage"

// mostNamed bounds the nodes that a report names.
const mostNamed = 20

// Report describes a source's measurements, and which nodes are nevertheless scored by requests.
type Report struct {
	Source   string     `json:"source"`
	Polled   int64      `json:"polled"`   // when it was last asked, in Unix seconds; 0: not yet
	Newest   int64      `json:"newest"`   // time of the newest sample; 0: there is none
	Failed   bool       `json:"failed"`   // the last question had no answer
	Measured int        `json:"measured"` // nodes that are scored by usage
	Degraded int        `json:"degraded"` // nodes that are scored by requests
	Named    []Degraded `json:"named"`    // the first of them by name
}

// Degraded is a node that is scored by requests, and why: absent, stale, invalid or failed.
type Degraded struct {
	Node   string `json:"node"`
	Reason string `json:"reason"`
}

// reportOf returns the report of the store's state.
func (s *store) reportOf(now float64, failed bool) Report {
	r := Report{Source: s.config.Source, Polled: int64(now), Failed: failed, Named: []Degraded{}}
	for name, h := range s.nodes {
		if h.at > 0 {
			r.Newest = max(r.Newest, int64(h.at))
		}
		if h.degraded == "" {
			r.Measured++
			continue
		}
		r.Degraded++
		r.Named = append(r.Named, Degraded{name, string(h.degraded)})
	}
	slices.SortFunc(r.Named, func(a, b Degraded) int { return cmp.Compare(a.Node, b.Node) })
	r.Named = slices.Clip(r.Named[:min(len(r.Named), mostNamed)])
	return r
}

// Reports returns the reports of all sources that the schedulers of this process ask, by name; none without measured usage.
func Reports() []Report {
	out := []Report{}
	started.Range(func(_, s any) bool {
		out = append(out, s.(*store).current().Report)
		return true
	})
	slices.SortFunc(out, func(a, b Report) int { return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(b.Polled, a.Polled)) })
	return out
}

// ServeReports answers GET with the reports.
func ServeReports(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "only GET is answered", http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_ = json.NewEncoder(w).Encode(Reports()) // the caller may have gone
}

// ParseReports reads an answer of ServeReports.
func ParseReports(text []byte) ([]Report, error) {
	var out []Report
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, err
	}
	for _, r := range out {
		if r.Source == "" || r.Polled < 0 || r.Newest < 0 || r.Measured < 0 || r.Degraded < len(r.Named) {
			return nil, errors.New("a report of usage whose figures cannot be")
		}
	}
	return out, nil
}
