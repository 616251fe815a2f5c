package workload

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"

	"gnnsched/internal/cluster"
)

// Distribution is the distribution of a random amount of a resource, in thousandths of a core
// or in bytes. Draws outside Min to Max are set to the nearer end.
type Distribution struct {
	Kind     string  // LogUniform or LogNormal
	Min, Max int64   // both over 0
	Median   int64   // of LogNormal, from Min to Max
	Sigma    float64 // of LogNormal: standard deviation of the natural logarithm, over 0 to 10
}

// The kinds of distributions.
const (
	LogUniform = "loguniform" // the logarithm is uniform: each doubling is equally likely
	LogNormal  = "lognormal"  // the logarithm is normal
)

// Requests draws the resource requests of a Deployment's pods. CPU and memory are independent.
type Requests struct {
	CPU    Distribution
	Memory Distribution
}

// draw draws an amount and rounds it to two significant digits in the given unit, as people
// write amounts.
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

// Draw returns a random shape for one Deployment.
func (r Requests) Draw(rng *rand.Rand) Shape {
	return Shape{
		Name: "random", Weight: 1, Requests: cluster.Resources{MilliCPU: r.CPU.draw(rng, 1), Memory: r.Memory.draw(rng, 1<<20), Pods: 1},
	}
}

// Validate returns the first fault.
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
		return fmt.Errorf("min and max must be over 0, and min not over max")
	case d.Kind == LogNormal && (d.Median < d.Min || d.Median > d.Max || !(d.Sigma > 0) || d.Sigma > 10):
		return fmt.Errorf("lognormal needs a median from min to max, and a sigma over 0 and at most 10")
	case d.Kind == LogUniform && (d.Median != 0 || d.Sigma != 0):
		return fmt.Errorf("median and sigma belong to lognormal; leave them out of loguniform")
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

// MarshalJSON implements json.Marshaler. The result looks like
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

// UnmarshalJSON implements json.Unmarshaler. Unknown fields are errors. Amounts are in
// Kubernetes' notation.
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
