package cluster

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// PowerModel is the power of a machine as a function of the fraction of its CPU in use.
type PowerModel struct {
	Idle  float64   `json:"idle"`            // watts while nothing runs
	Full  float64   `json:"full"`            // watts with all CPU in use; at least Idle
	Curve []float64 `json:"curve,omitempty"` // watts at equal steps between Idle and Full, at most Full; empty: linear
	Sleep *float64  `json:"sleep,omitempty"` // watts while no pod is on the node; nil: it does not sleep
}

// The bounds of a machine's power at full load, in watts.
const (
	minFull  = 1e-3
	maxWatts = 1e5
)

// Validate returns every fault, each with its field.
func (m *PowerModel) Validate() error {
	var errs []error
	check := func(field string, x, low, high float64) {
		if !(x >= low && x <= high) { // also refuses NaN
			errs = append(errs, fmt.Errorf("%s: %v is not %g to %g watts", field, x, low, high))
		}
	}
	check("idle", m.Idle, 0, maxWatts)
	check("full", m.Full, max(m.Idle, minFull), maxWatts)
	if len(m.Curve) > 99 {
		errs = append(errs, fmt.Errorf("curve: %d values are more than 99", len(m.Curve)))
	}
	for i, x := range m.Curve {
		check(fmt.Sprintf("curve[%d]", i), x, 0, m.Full)
	}
	if m.Sleep != nil {
		check("sleep", *m.Sleep, 0, m.Idle)
	}
	return errors.Join(errs...)
}

// Equal reports whether two models are equal; nil equals nil only.
func (m *PowerModel) Equal(o *PowerModel) bool {
	if m == nil || o == nil {
		return m == o
	}
	if m.Sleep == nil || o.Sleep == nil {
		if m.Sleep != o.Sleep {
			return false
		}
	} else if *m.Sleep != *o.Sleep {
		return false
	}
	return m.Idle == o.Idle && m.Full == o.Full && slices.Equal(m.Curve, o.Curve)
}

// At returns the watts of a machine that is awake with a fraction of its CPU in use, linear between the points of the
// curve. A fraction outside of 0 to 1 counts as the nearest of these.
func (m *PowerModel) At(used float64) float64 {
	steps := float64(len(m.Curve) + 1)
	x := max(min(used, 1), 0) * steps
	i := min(math.Floor(x), steps-1)
	low, high := m.point(int(i)), m.point(int(i)+1)
	return low + (high-low)*(x-i)
}

// point returns the i-th point: Idle, the values of the curve, Full.
func (m *PowerModel) point(i int) float64 {
	switch {
	case i == 0:
		return m.Idle
	case i > len(m.Curve):
		return m.Full
	}
	return m.Curve[i-1]
}
