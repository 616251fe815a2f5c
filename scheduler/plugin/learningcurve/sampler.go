// Package learningcurve keeps how the learning of a scheduler's profiles goes: samples of the scheduler's metrics, among them
// what the trainers report. ktop asks the scheduler for it at [Path], and the page in a browser reads it in the process.
package learningcurve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"k8s.io/utils/clock"
)

const (
	// Path is where a scheduler serves its samples.
	Path = "/debug/learning"
	// every is the time between two samples, and most how many are kept: two hours.
	every = 10 * time.Second
	most  = 720
)

// Sampler samples the metrics of the profiles that learn. Make one with New; a nil one has no samples.
type Sampler struct {
	clock  clock.WithTicker
	gather func() ([]*dto.MetricFamily, error)

	mu      sync.Mutex
	samples Samples
}

// Samples are the last samples, in columns of one length.
type Samples struct {
	Times    []int64                      `json:"times"`    // Unix seconds, the oldest first
	Profiles map[string]map[string]Column `json:"profiles"` // by the name of the profile and of the figure
}

// Column holds a figure at each of the times, NaN where it was not known.
type Column []float64

// New returns a Sampler without samples. gather returns the scheduler's metrics.
func New(gather func() ([]*dto.MetricFamily, error), c clock.WithTicker) *Sampler {
	return &Sampler{clock: c, gather: gather}
}

// Run takes samples until ctx ends.
func (c *Sampler) Run(ctx context.Context) {
	ticker := c.clock.NewTicker(every)
	defer ticker.Stop()
	for {
		c.sample()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
	}
}

// sample takes a sample, if a profile learns.
func (c *Sampler) sample() {
	families, err := c.gather()
	if err != nil && len(families) == 0 {
		return // metrics that contradict each other; the rest is given beside the error
	}
	if now := figuresOf(families); len(now) > 0 {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.samples.add(c.clock.Now().Unix(), now)
	}
}

// Samples returns the samples, which the caller owns.
func (c *Sampler) Samples() Samples {
	if c == nil {
		return Samples{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	out := Samples{Times: slices.Clone(c.samples.Times), Profiles: map[string]map[string]Column{}}
	for profile, columns := range c.samples.Profiles {
		out.Profiles[profile] = map[string]Column{}
		for name, column := range columns {
			out.Profiles[profile][name] = slices.Clone(column)
		}
	}
	return out
}

// ServeHTTP implements http.Handler. It answers GET with the samples.
func (c *Sampler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "only GET is answered", http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_ = json.NewEncoder(w).Encode(c.Samples()) // the caller may have gone
}

// add appends a sample, and drops the oldest one if there are too many. If the clock was set back, the sample gets the time of
// the one before: Parse wants times in order.
func (s *Samples) add(now int64, figures map[string]map[string]float64) {
	if s.Profiles == nil {
		s.Profiles = map[string]map[string]Column{}
	}
	for profile, values := range figures {
		if s.Profiles[profile] == nil {
			s.Profiles[profile] = map[string]Column{}
		}
		for name := range values {
			if s.Profiles[profile][name] == nil {
				s.Profiles[profile][name] = unknown(len(s.Times))
			}
		}
	}
	if n := len(s.Times); n > 0 {
		now = max(now, s.Times[n-1])
	}
	s.Times = append(s.Times, now)
	for profile, columns := range s.Profiles {
		for name, column := range columns {
			v, known := figures[profile][name]
			if !known {
				v = math.NaN()
			}
			columns[name] = append(column, v)
		}
	}
	for len(s.Times) > most {
		s.Times = slices.Delete(s.Times, 0, 1)
		for _, columns := range s.Profiles {
			for name, column := range columns {
				columns[name] = slices.Delete(column, 0, 1)
			}
		}
		s.prune()
	}
}

// prune drops the figures that none of the samples knows any longer.
func (s *Samples) prune() {
	for profile, columns := range s.Profiles {
		maps.DeleteFunc(columns, func(_ string, column Column) bool {
			return !slices.ContainsFunc(column, func(v float64) bool { return !math.IsNaN(v) })
		})
		if len(columns) == 0 {
			delete(s.Profiles, profile)
		}
	}
}

func unknown(n int) Column {
	out := make(Column, n)
	for i := range out {
		out[i] = math.NaN()
	}
	return out
}

// Parse reads what a Sampler serves.
func Parse(text []byte) (Samples, error) {
	var s Samples
	if err := json.Unmarshal(text, &s); err != nil {
		return Samples{}, err
	}
	if !slices.IsSorted(s.Times) {
		return Samples{}, errors.New("the times are not in order")
	}
	for profile, columns := range s.Profiles {
		for name, column := range columns {
			if len(column) != len(s.Times) {
				return Samples{}, fmt.Errorf("%q of the profile %q has %d values at %d times", name, profile, len(column), len(s.Times))
			}
		}
	}
	return s, nil
}

// MarshalJSON writes counts in full, other numbers as precisely as a float32, and null where there is none.
func (c Column) MarshalJSON() ([]byte, error) {
	out := []byte{'['}
	for i, v := range c {
		if i > 0 {
			out = append(out, ',')
		}
		switch {
		case math.IsNaN(v) || math.IsInf(v, 0):
			out = append(out, "null"...)
		case v == math.Trunc(v) && math.Abs(v) < 1<<53:
			out = strconv.AppendInt(out, int64(v), 10)
		case math.Abs(v) > math.MaxFloat32 || math.Abs(v) < math.SmallestNonzeroFloat32:
			out = strconv.AppendFloat(out, v, 'g', -1, 64)
		default:
			out = strconv.AppendFloat(out, v, 'g', -1, 32)
		}
	}
	return append(out, ']'), nil
}

// UnmarshalJSON reads what MarshalJSON writes.
func (c *Column) UnmarshalJSON(text []byte) error {
	var values []*float64
	if err := json.Unmarshal(text, &values); err != nil {
		return err
	}
	*c = unknown(len(values))
	for i, v := range values {
		if v != nil {
			(*c)[i] = *v
		}
	}
	return nil
}

// Curve is a figure of a profile over the times of its samples.
type Curve struct {
	Name   string `json:"name"`   // short, for a table
	Chart  string `json:"chart"`  // the title of the chart that it belongs into, with others of the same unit
	About  string `json:"about"`  // what it is, in a sentence without a full stop
	Values Column `json:"values"` // at each time
}

// figure says how a figure is shown. Counts are shown by the minute if rate is set, else as they are.
type figure struct {
	name  string
	rate  bool
	curve Curve
}

// figures are the known figures in the order in which they are shown. Others of the trainer follow them.
var figures = []figure{
	{Cost, false, Curve{Name: "cost", Chart: "Percent of the cluster that waits",
		About: "what waiting pods request when pods are placed, in percent of the cluster, mean between two reports"}},
	{Loss, false, Curve{Name: "loss", Chart: "Loss", About: "loss of the updates, mean between two reports"}},
	{Score, false, Curve{Name: "held-out score", Chart: "Score on held-out episodes",
		About: "of the last network that the guard judged, less is better"}},
	{ScoreLimit, false, Curve{Name: "limit of the score", Chart: "Score on held-out episodes",
		About: "the guard refuses a network with a score over this"}},
	{Passed, false, Curve{Name: "networks passed", Chart: "Networks that the guard judged",
		About: "networks that the guard let pass; the scheduler loads each of them"}},
	{Refused, false, Curve{Name: "networks refused", Chart: "Networks that the guard judged",
		About: "networks that the guard refused; the scheduler keeps the last one that passed"}},
	{Updates, true, Curve{Name: "updates/min", Chart: "Updates a minute", About: "updates of the network that learns, a minute"}},
	{Sent, true, Curve{Name: "placements/min", Chart: "Placements a minute", About: "placements that were sent to the trainer, a minute"}},
	{Dropped, true, Curve{Name: "dropped/min", Chart: "Placements a minute", About: "placements that the trainer was too slow for, a minute"}},
	{Unbound, true, Curve{Name: "not bound/min", Chart: "Placements a minute", About: "placements whose pod did not get its node, a minute"}},
	{Missing, true, Curve{Name: "missing/min", Chart: "Placements that are not learned from, a minute",
		About: "placements that are missing between those that the trainer read, a minute"}},
	{explored, true, Curve{Name: "explored/min", Chart: "Random decisions a minute", About: "random decisions a minute"}},
	{epsilon, false, Curve{Name: "epsilon", Chart: "Probability of a random decision",
		About: "the probability with which the last decision was random"}},
	{GradientNorm, false, Curve{Name: "gradient norm", Chart: "Norm of the gradient",
		About: "norm of the gradient before clipping, mean between two reports"}},
	{loads, false, Curve{Name: "weights read", Chart: "Weights read, restarts of the trainer",
		About: "how many times the scheduler has read weights since it began"}},
	{Restarts, false, Curve{Name: "trainer restarts", Chart: "Weights read, restarts of the trainer",
		About: "how many times the trainer ended and was started again"}},
}

// Curves returns the curves of a profile, the most telling first.
func (s Samples) Curves(profile string) []Curve {
	columns := s.Profiles[profile]
	var out []Curve
	known := map[string]bool{Read: true} // sent says the same of the scheduler's side
	for _, f := range figures {
		known[f.name] = true
		column, has := columns[f.name]
		if !has {
			continue
		}
		c := f.curve
		if c.Values = column; f.rate {
			c.Values = s.perMinute(column)
		}
		out = append(out, c)
	}
	for _, name := range slices.Sorted(maps.Keys(columns)) {
		if !known[name] {
			out = append(out, Curve{Name: name, Chart: name, About: "a figure of this trainer, mean between two reports", Values: columns[name]})
		}
	}
	return out
}

// perMinute returns how much a count grew from each time to the next one, by the minute. The first value is not known.
func (s Samples) perMinute(count Column) Column {
	out := unknown(len(count))
	for i := 1; i < len(count) && i < len(s.Times); i++ {
		if seconds := s.Times[i] - s.Times[i-1]; seconds > 0 {
			out[i] = max(count[i]-count[i-1], 0) / float64(seconds) * 60
		}
	}
	return out
}

// Last returns the last value of a profile's figure that is known, and whether there is one.
func (s Samples) Last(profile, name string) (v float64, known bool) {
	return s.Profiles[profile][name].Last()
}

// Last returns the last value that is known, and whether there is one.
func (c Column) Last() (v float64, known bool) {
	for _, v := range slices.Backward(c) {
		if !math.IsNaN(v) {
			return v, true
		}
	}
	return 0, false
}

// Names returns the names of the profiles in order.
func (s Samples) Names() []string {
	return slices.Sorted(maps.Keys(s.Profiles))
}

// counters are the names of figures that are counts, by the metric and the value of its label result.
var counters = map[string]map[string]string{
	"gnnsched_learning_steps_total":     {Sent: Sent, Dropped: Dropped, Unbound: Unbound},
	"gnnsched_explored_total":           {"": explored},
	"gnnsched_checkpoint_loads_total":   {"ok": loads},
	"gnnsched_trainer_restarts_total":   {"": Restarts},
	"gnnsched_trainer_placements_total": {Read: Read, Missing: Missing},
	"gnnsched_trainer_updates_total":    {"": Updates},
	"gnnsched_trainer_networks_total":   {Passed: Passed, Refused: Refused},
}

// learns is the metric that every profile that learns has, and no other.
const learns = "gnnsched_learning_steps_total"

// figuresOf reads the metrics of the profiles that learn: by profile, the figures by name.
func figuresOf(families []*dto.MetricFamily) map[string]map[string]float64 {
	out := map[string]map[string]float64{}
	each(families, learns, func(labels map[string]string, _ float64) { out[labels["profile"]] = map[string]float64{} })
	set := func(profile, name string, v float64) {
		if values := out[profile]; values != nil && name != "" {
			values[name] = v
		}
	}
	// The trainer's come first, so that none of them takes the place of a count.
	each(families, "gnnsched_trainer_figure", func(labels map[string]string, v float64) { set(labels["profile"], labels["figure"], v) })
	each(families, "gnnsched_epsilon", func(labels map[string]string, v float64) { set(labels["profile"], epsilon, v) })
	for name, results := range counters {
		each(families, name, func(labels map[string]string, v float64) { set(labels["profile"], results[labels["result"]], v) })
	}
	return out
}

// each calls do with the labels and the value of each metric of a family.
func each(families []*dto.MetricFamily, name string, do func(labels map[string]string, v float64)) {
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			do(labels, m.GetCounter().GetValue()+m.GetGauge().GetValue())
		}
	}
}

// The names of the figures of a profile that learns. The trainer reports those of the first group, the scheduler's metrics have those of
// the second as labels or by names of their own, and everything that shows figures asks for them by these names.
const (
	Cost         = "cost"
	Loss         = "loss"
	GradientNorm = "gradient_norm"
	Score        = "score"       // of the last network that the guard judged
	ScoreLimit   = "score_limit" // over which the guard refuses a network

	Read     = "read"    // placements that the trainer got
	Missing  = "missing" // between those
	Updates  = "updates"
	Passed   = "passed"   // networks that the guard let pass
	Refused  = "refused"  // networks that it refused
	Sent     = "sent"     // placements to the trainer
	Dropped  = "dropped"  // because the trainer was too slow
	Unbound  = "unbound"  // whose pod did not get its node
	explored = "explored" // random decisions
	epsilon  = "epsilon"
	loads    = "loads" // how often the scheduler read weights
	Restarts = "restarts"
)

// totals are the titles of the counts since the scheduler began, in the order in which they are shown.
var totals = []struct{ name, title string }{
	{Sent, "To the trainer"}, {Dropped, "Dropped"}, {Unbound, "Not bound"}, {explored, "Explored"},
	{Updates, "Updates"}, {Passed, "Networks passed"}, {Refused, "Networks refused"}, {loads, "Weights read"}, {Restarts, "Trainer restarts"},
}

// Total is a count since the scheduler began.
type Total struct {
	Title string   `json:"title"`
	Count *float64 `json:"count"` // nil if it is not known
}

// Totals returns a profile's counts since the scheduler began.
func (s Samples) Totals(profile string) []Total {
	out := make([]Total, len(totals))
	for i, t := range totals {
		out[i].Title = t.title
		if v, known := s.Last(profile, t.name); known {
			out[i].Count = &v
		}
	}
	return out
}

// Reported reports whether the trainer of a profile has said anything.
func (s Samples) Reported(profile string) bool {
	_, known := s.Last(profile, Read)
	return known
}
