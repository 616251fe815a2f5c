package cluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

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
