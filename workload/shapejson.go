package workload

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"gnnsched/internal/cluster"
)

// MarshalJSON implements json.Marshaler. The result has the form of an entry in a shapes file.
func (s Shape) MarshalJSON() ([]byte, error) {
	e := shapeEntry{Name: s.Name, Weight: &s.Weight, Labels: s.Labels, NodeSelector: s.NodeSelector, GPUModels: s.GPUModels}
	requests := s.Requests
	requests.Pods = 0 // always 1
	var errs [3]error
	e.Requests, errs[0] = optional(requests)
	e.Limits, errs[1] = optional(s.Limits)
	if s.Usage != nil {
		e.Usage, errs[2] = json.Marshal(s.Usage)
	}
	for _, t := range s.Tolerations {
		x := tolerationEntry{Key: t.Key, Value: t.Value, Effect: string(t.Effect)}
		if t.Exists {
			x.Operator = "Exists"
		}
		e.Tolerations = append(e.Tolerations, x)
	}
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	return json.Marshal(e)
}

func optional(r cluster.Resources) (json.RawMessage, error) {
	if r == (cluster.Resources{}) {
		return nil, nil
	}
	return json.Marshal(r)
}

// UnmarshalJSON implements json.Unmarshaler. Like ReadShapes it refuses unknown fields, but it
// does not validate the shape.
func (s *Shape) UnmarshalJSON(b []byte) error {
	var e shapeEntry
	if err := cluster.DecodeStrict(b, &e); err != nil {
		return err
	}
	out, err := e.shape()
	if err != nil {
		return err
	}
	*s = out
	return nil
}

// WriteShapes writes a shapes file, which ReadShapes reads back. Each shape is one line, because a measured series may
// have thousands of values.
func WriteShapes(w io.Writer, shapes []Shape) error {
	var out bytes.Buffer
	out.WriteString("shapes:\n")
	for _, s := range shapes {
		b, err := json.Marshal(s)
		if err != nil {
			return err
		}
		out.WriteString("- ")
		out.Write(b)
		out.WriteByte('\n')
	}
	_, err := w.Write(out.Bytes())
	return err
}
