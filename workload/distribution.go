package workload

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"

	"gnnsched/internal/cluster"
)

// Distribution is a random amount of a resource: between Min and Max, both over 0, either
// loguniform (every doubling as likely as any other) or lognormal with a median and the
// standard deviation of the logarithm, what lies outside moved to the nearer end.
type Distribution struct {
	Kind     string // "loguniform" or "lognormal"
	Min, Max int64  // thousandths of a core or bytes
	Median   int64  // of lognormal
	Sigma    float64
}

// The kinds of distributions.
const (
	LogUniform = "loguniform"
	LogNormal  = "lognormal"
)

// Requests draws what the pods of a Deployment ask for, CPU and memory independently.
type Requests struct {
	CPU    Distribution
	Memory Distribution
}

// draw draws an amount, of two significant digits in the given unit as people write them.
func (d Distribution) draw(rng *rand.Rand, unit int64) int64 {
	var x float64
	if d.Kind == LogNormal {
		x = float64(d.Median) * math.Exp(d.Sigma*rng.NormFloat64())
	} else {
		x = float64(d.Min) * math.Pow(float64(d.Max)/float64(d.Min), rng.Float64())
	}
	x = max(min(x, float64(d.Max)), float64(d.Min)) / float64(unit)
	step := math.Pow10(max(int(math.Floor(math.Log10(x)))-1, 0))
	return max(min(int64(math.Round(x/step)*step)*unit, d.Max), d.Min)
}

// Draw draws the shape of one Deployment.
func (r Requests) Draw(rng *rand.Rand) Shape {
	return Shape{Name: "random", Weight: 1, Requests: cluster.Resources{MilliCPU: r.CPU.draw(rng, 1), Memory: r.Memory.draw(rng, 1<<20), Pods: 1}}
}

// Validate says what is wrong with the first distribution that has a fault.
func (r Requests) Validate() error {
	if err := r.CPU.validate(cluster.MaxMilliCPU); err != nil {
		return fmt.Errorf("cpu: %w", err)
	}
	if err := r.Memory.validate(cluster.MaxMemory); err != nil {
		return fmt.Errorf("memory: %w", err)
	}
	return nil
}

func (d Distribution) validate(most int64) error {
	switch {
	case d.Kind != LogUniform && d.Kind != LogNormal:
		return fmt.Errorf("distribution: %q is not %s or %s", d.Kind, LogUniform, LogNormal)
	case d.Min <= 0 || d.Max > most || d.Min > d.Max:
		return fmt.Errorf("min and max are no range of amounts over 0")
	case d.Kind == LogNormal && (d.Median < d.Min || d.Median > d.Max || !(d.Sigma > 0) || d.Sigma > 10):
		return fmt.Errorf("lognormal needs a median from min to max, and a sigma over 0 and at most 10")
	case d.Kind == LogUniform && (d.Median != 0 || d.Sigma != 0):
		return fmt.Errorf("median and sigma are those of lognormal, not of loguniform")
	}
	return nil
}

type requestsEntry struct {
	CPU    distributionEntry `json:"cpu"`
	Memory distributionEntry `json:"memory"`
}

type distributionEntry struct {
	Kind   string          `json:"distribution"`
	Min    json.RawMessage `json:"min"`
	Max    json.RawMessage `json:"max"`
	Median json.RawMessage `json:"median,omitempty"`
	Sigma  float64         `json:"sigma,omitempty"`
}

// MarshalJSON implements json.Marshaler:
// {"cpu":{"distribution":"loguniform","min":"100m","max":"8"},"memory":{...}}.
func (r Requests) MarshalJSON() ([]byte, error) {
	entry := func(d Distribution, format func(int64) string) distributionEntry {
		text := func(n int64) json.RawMessage {
			if n == 0 {
				return nil
			}
			return json.RawMessage(fmt.Sprintf("%q", format(n)))
		}
		return distributionEntry{d.Kind, text(d.Min), text(d.Max), text(d.Median), d.Sigma}
	}
	return json.Marshal(requestsEntry{entry(r.CPU, cluster.FormatCPU), entry(r.Memory, cluster.FormatMemory)})
}

// UnmarshalJSON implements json.Unmarshaler. It is strict; amounts are in Kubernetes'
// notation.
func (r *Requests) UnmarshalJSON(b []byte) error {
	var e requestsEntry
	if err := cluster.DecodeStrict(b, &e); err != nil {
		return err
	}
	read := func(resource string, e distributionEntry, of func(cluster.Resources) int64) (d Distribution, err error) {
		d.Kind, d.Sigma = e.Kind, e.Sigma
		for _, x := range []struct {
			field string
			raw   json.RawMessage
			to    *int64
		}{{"min", e.Min, &d.Min}, {"max", e.Max, &d.Max}, {"median", e.Median, &d.Median}} {
			if len(x.raw) == 0 {
				continue
			}
			var amount cluster.Resources
			if err := amount.UnmarshalJSON(fmt.Appendf(nil, "{%q:%s}", resource, x.raw)); err != nil {
				return d, fmt.Errorf("%s: %w", x.field, err)
			}
			*x.to = of(amount)
		}
		return d, nil
	}
	var out Requests
	var err error
	if out.CPU, err = read("cpu", e.CPU, func(r cluster.Resources) int64 { return r.MilliCPU }); err != nil {
		return err
	}
	if out.Memory, err = read("memory", e.Memory, func(r cluster.Resources) int64 { return r.Memory }); err != nil {
		return err
	}
	*r = out
	return nil
}
