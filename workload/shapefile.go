package workload

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/utils/ptr"
	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fault"
	"gnnsched/workload/usage"
)

//go:embed shapes_default.yaml
var defaultShapes []byte

// DefaultShapes returns the built-in shapes, from a small web server to a batch job.
func DefaultShapes() []Shape {
	s, err := ReadShapes("built-in shapes", defaultShapes)
	if err != nil {
		panic(err) // a fault of the embedded file
	}
	return s
}

// shapeFile is the content of a shapes file.
type shapeFile struct {
	Shapes []shapeEntry `json:"shapes"`
}

type shapeEntry struct {
	Name         string            `json:"name"`
	Weight       *float64          `json:"weight,omitempty"`   // default: 1
	Requests     json.RawMessage   `json:"requests,omitempty"` // cluster.Resources, decoded later
	Limits       json.RawMessage   `json:"limits,omitempty"`   // so that errors name the field
	Labels       map[string]string `json:"labels,omitempty"`
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	Tolerations  []tolerationEntry `json:"tolerations,omitempty"`

	NodeAffinity [][]cluster.Requirement `json:"nodeAffinity,omitempty"`

	GPUModels []string        `json:"gpuModels,omitempty"`
	Usage     json.RawMessage `json:"usage,omitempty"` // usage.Model, decoded later
}

type tolerationEntry struct {
	Key      string `json:"key,omitempty"`
	Operator string `json:"operator,omitempty"` // Equal (the default) or Exists
	Value    string `json:"value,omitempty"`
	Effect   string `json:"effect,omitempty"` // empty means every effect
}

// ReadShapes decodes a shapes file. Unknown and repeated fields, a second YAML document and
// values that Kubernetes would refuse are errors. The error lists every fault, each with the
// given file name and its field.
func ReadShapes(file string, data []byte) ([]Shape, error) {
	doc, err := onlyDocument(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	asJSON, err := yaml.YAMLToJSONStrict(doc)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var f shapeFile
	strict, err := strictjson.UnmarshalStrict(asJSON, &f)
	if err := errors.Join(append(strict, err)...); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if len(f.Shapes) == 0 {
		return nil, fmt.Errorf("%s: shapes: the list is empty", file)
	}
	return f.convert(file)
}

func (f shapeFile) convert(file string) ([]Shape, error) {
	bad := &fault.List{}
	var weight float64
	out, seen := make([]Shape, len(f.Shapes)), map[string]int{}
	for i, e := range f.Shapes {
		at := fmt.Sprintf("%s: shapes[%d]", file, i)
		s, err := e.shape()
		bad.Each(at+".", errors.Join(err, s.Validate()))
		first, twice := seen[e.Name]
		bad.If(e.Name == "", "%s.name: is missing", at)
		bad.If(e.Name != "" && twice, "%s.name: %q is also the name of shapes[%d]", at, e.Name, first)
		seen[e.Name], out[i] = i, s
		weight += s.Weight
	}
	bad.If(bad.Err() == nil && weight <= 0, "%s: shapes: every weight is 0; at least one must be higher", file)
	if err := bad.Err(); err != nil {
		return nil, err
	}
	return out, nil
}

func (e shapeEntry) shape() (Shape, error) {
	s := Shape{
		Name: e.Name, Weight: ptr.Deref(e.Weight, 1), Labels: e.Labels, NodeSelector: e.NodeSelector, NodeAffinity: e.NodeAffinity,
		GPUModels: e.GPUModels,
	}
	bad := &fault.List{}
	read := func(to *cluster.Resources, field string, b json.RawMessage) {
		if len(b) > 0 {
			bad.Each(field+".", to.UnmarshalJSON(b))
		}
	}
	read(&s.Requests, "requests", e.Requests)
	read(&s.Limits, "limits", e.Limits)
	bad.If(s.Requests.Pods > 1, "requests.pods: %d must be 1: a shape is one pod", s.Requests.Pods)
	s.Requests.Pods = 1
	for i, t := range e.Tolerations {
		known := slices.Contains([]string{"", "Equal", "Exists"}, t.Operator)
		bad.If(!known, "tolerations[%d].operator: %q is not Equal or Exists", i, t.Operator)
		s.Tolerations = append(s.Tolerations, cluster.Toleration{
			Key: t.Key, Value: t.Value, Exists: t.Operator == "Exists", Effect: cluster.Effect(t.Effect),
		})
	}
	if len(e.Usage) > 0 {
		m := &usage.Model{}
		err := m.UnmarshalJSON(e.Usage)
		bad.Each("usage.", err)
		if err == nil {
			s.Usage = m
		}
	}
	return s, bad.Err()
}

// onlyDocument returns the one YAML document of data. Decoders would read the first document
// and silently ignore the rest.
func onlyDocument(data []byte) ([]byte, error) {
	r := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	var only []byte
	for {
		doc, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if j, err := yaml.YAMLToJSON(doc); err == nil && string(j) == "null" {
			continue // comments or nothing
		}
		if only != nil {
			return nil, errors.New("the file has more than one YAML document")
		}
		only = doc
	}
	if only == nil {
		return nil, errors.New("the file is empty")
	}
	return only, nil
}

// MarshalJSON implements json.Marshaler. The result has the form of an entry in a shapes file.
func (s Shape) MarshalJSON() ([]byte, error) {
	e := shapeEntry{
		Name: s.Name, Weight: &s.Weight, Labels: s.Labels, NodeSelector: s.NodeSelector, NodeAffinity: s.NodeAffinity, GPUModels: s.GPUModels,
	}
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
