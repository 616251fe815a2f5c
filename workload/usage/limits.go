package usage

import (
	"errors"
	"fmt"

	"gnnsched/internal/exit"
)

// LimitsAnnotation is the annotation of a node with its Limits as JSON, such as {"network": "1250M", "disk": 500000000}.
const LimitsAnnotation = "gnnsched.io/usage-limits"

// maxLimits bounds the annotation of a node, in bytes.
const maxLimits = 1 << 10

// Limits are a node's rates in each direction, in bytes per second; 0: not limited. Share and Divide give each pod its part,
// in the simulator as on the simulated cluster.
type Limits struct {
	Network float64 `json:"network"`
	Disk    float64 `json:"disk"`
}

// Amounts returns the limits by dimension. CPU and memory are 0.
func (l Limits) Amounts() Amounts {
	return Amounts{NetworkIn: l.Network, NetworkOut: l.Network, DiskRead: l.Disk, DiskWrite: l.Disk}
}

// ParseLimits reads a node's annotation. Errors are short and free of control characters.
func ParseLimits(value string) (out Limits, err error) {
	if len(value) > maxLimits {
		return out, fmt.Errorf("annotation %s has %d bytes, more than %d", LimitsAnnotation, len(value), maxLimits)
	}
	var e struct {
		Network amount `json:"network"`
		Disk    amount `json:"disk"`
	}
	f := &fields{at: "limits"}
	if err := unmarshalStrict([]byte(value), &e); err != nil {
		f.errs = append(f.errs, err)
	}
	for _, x := range []struct {
		field string
		from  amount
		to    *float64
	}{{"network", e.Network, &out.Network}, {"disk", e.Disk, &out.Disk}} {
		*x.to = f.number(x.field, x.from)
		between(*x.to, 0, maxRate, x.field, func(field, format string, a ...any) {
			f.errs = append(f.errs, fmt.Errorf("%s.%s: %s", f.at, field, fmt.Sprintf(format, a...)))
		})
	}
	if err := errors.Join(f.errs...); err != nil {
		return Limits{}, errors.New("annotation " + LimitsAnnotation + ": " + exit.Clean(err.Error(), maxMessage))
	}
	return out, nil
}
