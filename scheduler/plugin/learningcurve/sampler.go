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
