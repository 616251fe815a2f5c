package cluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Resources are the amounts that a pod requests or a node offers.
type Resources struct {
	MilliCPU int64 // thousandths of a CPU core
	Memory   int64 // bytes
	GPU      int64 // whole devices
	GPUMilli int64 // thousandths of one device, for a pod that shares it, 1 to 999; GPU is then 0
	Pods     int64 // pod slots; 1 for a pod
}

// Plus returns r + o.
func (r Resources) Plus(o Resources) Resources {
	return Resources{r.MilliCPU + o.MilliCPU, r.Memory + o.Memory, r.GPU + o.GPU, r.GPUMilli + o.GPUMilli, r.Pods + o.Pods}
}

// Minus returns r - o.
func (r Resources) Minus(o Resources) Resources {
	return Resources{r.MilliCPU - o.MilliCPU, r.Memory - o.Memory, r.GPU - o.GPU, r.GPUMilli - o.GPUMilli, r.Pods - o.Pods}
}

// Times returns n·r.
func (r Resources) Times(n int64) Resources {
	return Resources{n * r.MilliCPU, n * r.Memory, n * r.GPU, n * r.GPUMilli, n * r.Pods}
}

// TotalGPUMilli returns whole devices and shares together, in thousandths of a device.
func (r Resources) TotalGPUMilli() int64 { return DeviceMilli*r.GPU + r.GPUMilli }

// Within reports whether every resource of r fits into free. GPUs are compared in total, not by
// device. As in kube-scheduler, a request of 0 always fits, even into a negative rest.
func (r Resources) Within(free Resources) bool {
	return fits(r.MilliCPU, free.MilliCPU) && fits(r.Memory, free.Memory) && fits(r.TotalGPUMilli(), free.TotalGPUMilli()) &&
		fits(r.Pods, free.Pods)
}

// FitsInto returns how many times the CPU and memory of r fit into free, or 1<<20 if r requests
// neither.
func (r Resources) FitsInto(free Resources) int64 {
	n := int64(1) << 20
	if r.MilliCPU > 0 {
		n = min(n, free.MilliCPU/r.MilliCPU)
	}
	if r.Memory > 0 {
		n = min(n, free.Memory/r.Memory)
	}
	return max(n, 0)
}

func fits(want, free int64) bool { return want == 0 || want <= free }

// The amounts that a pod counts with in scores if it requests none, as in kube-scheduler: a pod uses something, whatever it requests.
const (
	countedMilliCPU = 100
	countedMemory   = 200 << 20
)

// Counted returns what a pod that requests r counts with in scores: r, with upstream's amounts in place of CPU and memory that it does
// not request. Whether a pod fits is decided by r alone.
func (r Resources) Counted() Resources {
	if r.MilliCPU == 0 {
		r.MilliCPU = countedMilliCPU
	}
	if r.Memory == 0 {
		r.Memory = countedMemory
	}
	return r
}

// Fraction returns a/b. Of a resource that a node lacks (b is not positive) it is 0 for an amount of 0, and else 1: such a node is full.
func Fraction(a, b int64) float64 {
	switch {
	case b > 0:
		return float64(a) / float64(b)
	case a > 0:
		return 1
	}
	return 0
}

// amounts is the JSON form of Resources, with quantities in Kubernetes' notation.
type amounts struct {
	CPU    scalar `json:"cpu,omitempty"`    // "500m" or 1.5
	Memory scalar `json:"memory,omitempty"` // "64Gi" or bytes
	GPU    int64  `json:"gpu,omitempty"`
	Pods   int64  `json:"pods,omitempty"`

	GPUMilli int64 `json:"gpuMilli,omitempty"`

	MilliCPU int64 `json:"milliCPU,omitempty"` // read only, from files of the first versions
}

// scalar holds a JSON string or number as text, so that error messages can quote it as written.
type scalar string

func (s *scalar) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, (*string)(s))
	}
	*s = scalar(b)
	return nil
}

// MarshalJSON implements json.Marshaler: {"cpu":"16","memory":"64Gi","pods":110}. Amounts of 0
// are left out.
func (r Resources) MarshalJSON() ([]byte, error) {
	a := amounts{GPU: r.GPU, GPUMilli: r.GPUMilli, Pods: r.Pods}
	if r.MilliCPU != 0 {
		a.CPU = scalar(FormatCPU(r.MilliCPU))
	}
	if r.Memory != 0 {
		a.Memory = scalar(FormatMemory(r.Memory))
	}
	return json.Marshal(a)
}

// UnmarshalJSON implements json.Unmarshaler. It rejects unknown fields and negative amounts. Errors
// begin with the name of the field.
func (r *Resources) UnmarshalJSON(b []byte) error {
	var a amounts
	if err := DecodeStrict(b, &a); err != nil {
		return err
	}
	out := Resources{MilliCPU: a.MilliCPU, GPU: a.GPU, GPUMilli: a.GPUMilli, Pods: a.Pods}
	var errs []error
	read := func(to *int64, field string, v scalar, parse func(string) (int64, error)) {
		if v == "" {
			return
		}
		n, err := parse(string(v))
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", field, err))
		}
		*to = n
	}
	read(&out.MilliCPU, "cpu", a.CPU, ParseCPU)
	read(&out.Memory, "memory", a.Memory, ParseMemory)
	for _, x := range []struct {
		field string
		n     int64
	}{{"gpu", a.GPU}, {"gpuMilli", a.GPUMilli}, {"pods", a.Pods}, {"milliCPU", a.MilliCPU}} {
		if x.n < 0 {
			errs = append(errs, fmt.Errorf("%s: %d %w", x.field, x.n, errNegative))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	*r = out
	return nil
}

// DecodeStrict decodes JSON and rejects fields that into does not have. Implementations of
// json.Unmarshaler need it, because the setting of the outer decoder does not reach them.
func DecodeStrict(b []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// The largest amounts of a pod or a node. A larger number is rejected as a wrong unit.
const (
	MaxMilliCPU = 10_000 * 1000 // 10,000 cores
	MaxMemory   = 16 << 40      // 16 TiB
)

var errNegative = errors.New("is negative")

// ParseCPU parses an amount of CPU in Kubernetes' notation ("100m", "0.1", "1") and returns
// thousandths of a core.
func ParseCPU(s string) (int64, error) {
	q, err := resource.ParseQuantity(s)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is not an amount of CPU; write cores (0.5) or thousandths of one (500m)", s)
	case q.Sign() < 0:
		return 0, fmt.Errorf("%q %w", s, errNegative)
	case q.CmpInt64(MaxMilliCPU/1000) > 0:
		return 0, fmt.Errorf("%q is more than %d cores; is an m missing?", s, MaxMilliCPU/1000)
	}
	m := q.MilliValue()
	if resource.NewMilliQuantity(m, resource.DecimalSI).Cmp(q) != 0 {
		return 0, fmt.Errorf("%q is finer than a thousandth of a core", s)
	}
	return m, nil
}

// ParseMemory parses an amount of memory in Kubernetes' notation ("128Mi", "1.5Gi", plain bytes)
// and returns bytes, rounded up.
func ParseMemory(s string) (int64, error) {
	q, err := resource.ParseQuantity(s)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is not an amount of memory; write 512Mi, 2Gi or plain bytes", s)
	case strings.HasSuffix(s, "m"):
		return 0, fmt.Errorf("%q is in thousandths of a byte; write M or Mi for megabytes", s)
	case q.Sign() < 0:
		return 0, fmt.Errorf("%q %w", s, errNegative)
	case q.CmpInt64(MaxMemory) > 0:
		return 0, fmt.Errorf("%q is more than 16Ti", s)
	}
	return q.Value(), nil
}

// FormatCPU formats thousandths of a core for ParseCPU: "100m", "2".
func FormatCPU(milli int64) string {
	return resource.NewMilliQuantity(milli, resource.DecimalSI).String()
}

// FormatMemory formats bytes for ParseMemory, without rounding: "64Gi", "1000".
func FormatMemory(bytes int64) string {
	return resource.NewQuantity(bytes, resource.BinarySI).String()
}

// KindText names pods that request r and may run where Pod.Where says: "500m CPU, 1 GiB, disk=ssd".
func KindText(r Resources, where string) string {
	parts := []string{FormatCPU(r.MilliCPU) + " CPU", strconv.FormatFloat(float64(r.Memory)/(1<<30), 'g', 3, 64) + " GiB"}
	switch {
	case r.GPU > 0:
		parts = append(parts, fmt.Sprintf("%d GPU", r.GPU))
	case r.GPUMilli > 0:
		parts = append(parts, fmt.Sprintf("%dm GPU", r.GPUMilli))
	}
	if where != "" {
		parts = append(parts, where)
	}
	return strings.Join(parts, ", ")
}
