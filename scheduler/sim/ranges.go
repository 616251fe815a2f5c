package sim

import (
	"encoding/json"
	"math/rand/v2"

	"gnnsched/internal/cluster"
)

// IntRange is an interval that includes both ends. The zero value means unset. In JSON it is
// {"min": 4, "max": 32}, or a number for an interval of one value.
type IntRange struct {
	Min int `json:"min"`
	Max int `json:"max"`
}

// Exactly returns the range that holds only n.
func Exactly(n int) IntRange { return IntRange{n, n} }

// UnmarshalJSON implements json.Unmarshaler.
func (r *IntRange) UnmarshalJSON(b []byte) error {
	if json.Unmarshal(b, &r.Min) == nil {
		r.Max = r.Min
		return nil
	}
	type fields IntRange
	return cluster.DecodeStrict(b, (*fields)(r))
}

func (r IntRange) draw(rng *rand.Rand) int { return r.Min + rng.IntN(r.Max-r.Min+1) }

func (r IntRange) validate(field string, least, most int, bad func(string, ...any)) {
	if r.Min < least || r.Max > most || r.Min > r.Max {
		bad("%s: %d to %d is no range within %d to %d", field, r.Min, r.Max, least, most)
	}
}

// FloatRange is an interval of fractions. Its JSON form is like that of IntRange.
type FloatRange struct {
	Min float64 `json:"min"`
	Max float64 `json:"max"`
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *FloatRange) UnmarshalJSON(b []byte) error {
	if json.Unmarshal(b, &r.Min) == nil {
		r.Max = r.Min
		return nil
	}
	type fields FloatRange
	return cluster.DecodeStrict(b, (*fields)(r))
}

func (r FloatRange) draw(rng *rand.Rand) float64 { return r.Min + rng.Float64()*(r.Max-r.Min) }
