package workload

import (
	"bufio"
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/validation"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/utils/ptr"
	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"gnnsched/internal/cluster"
	"gnnsched/internal/each"
	"gnnsched/internal/exit"
	"gnnsched/workload/usage"
)

// Bounds that catch mistyped numbers.
const (
	MaxReplicas = 10_000 // pods of one Deployment
	MaxGPUs     = 64     // devices of one pod
)

// Shape describes the pods of a Deployment: their requests and where they may run.
type Shape struct {
	Name   string  // a label value; empty for shapes that are read from a plan
	Weight float64 // relative probability of being drawn, 0 or more

	Requests cluster.Resources // of one pod; Pods is 1
	Limits   cluster.Resources // of one pod; only CPU and memory; 0 means no limit

	Labels       map[string]string // of the pods, besides the labels that runsim sets
	NodeSelector map[string]string
	NodeAffinity [][]cluster.Requirement // terms of required node affinity, of which a node must meet one; none: any node
	Tolerations  []cluster.Toleration
	GPUModels    []string // GPU models that the pods accept; empty means any

	Usage *usage.Model // what one pod uses over time; nil: not known
}

// Validate returns every value that Kubernetes or the generator would refuse. Each error
// begins with the field's name in a shapes file.
func (s Shape) Validate() error {
	bad := &exit.Faults{}
	if p := validation.IsValidLabelValue(s.Name); len(p) > 0 {
		bad.Add("name: %q: %s", s.Name, p[0])
	}
	bad.If(s.Weight < 0 || math.IsNaN(s.Weight) || math.IsInf(s.Weight, 0), "weight: %v must be 0 or more", s.Weight)
	r, l := s.Requests, s.Limits
	bad.If(r.MilliCPU < 0 || r.MilliCPU > cluster.MaxMilliCPU, "requests.cpu: %s is out of range", cluster.FormatCPU(r.MilliCPU))
	bad.If(r.Memory < 0 || r.Memory > cluster.MaxMemory, "requests.memory: %s is out of range", cluster.FormatMemory(r.Memory))
	bad.If(r.GPU < 0 || r.GPU > MaxGPUs, "requests.gpu: %d is not 0 to %d", r.GPU, MaxGPUs)
	bad.If(r.GPUMilli < 0 || r.GPUMilli >= cluster.DeviceMilli,
		"requests.gpuMilli: %d is not 1 to %d thousandths of one device", r.GPUMilli, cluster.DeviceMilli-1)
	bad.If(r.GPUMilli > 0 && r.GPU > 0, "requests.gpuMilli: a pod can request whole GPUs or a share of one, not both")
	bad.If(slices.Contains(s.GPUModels, ""), "gpuModels: a model's name is empty")
	bad.If(r.Pods != 1, "requests.pods: %d must be 1: a shape is one pod", r.Pods)
	bad.If(l.Pods != 0 || l.GPU != 0 || l.GPUMilli != 0, "limits: only CPU and memory can have limits")
	bad.If(l.MilliCPU != 0 && l.MilliCPU < r.MilliCPU,
		"limits.cpu: %s is less than the request of %s", cluster.FormatCPU(l.MilliCPU), cluster.FormatCPU(r.MilliCPU))
	bad.If(l.Memory != 0 && l.Memory < r.Memory,
		"limits.memory: %s is less than the request of %s", cluster.FormatMemory(l.Memory), cluster.FormatMemory(r.Memory))
	validateLabels("labels", s.Labels, true, bad)
	validateLabels("nodeSelector", s.NodeSelector, false, bad)
	bad.Each("nodeAffinity", ValidateAffinity(s.NodeAffinity))
	for i, t := range s.Tolerations {
		validateToleration(fmt.Sprintf("tolerations[%d]", i), t, bad)
	}
	if s.Usage != nil {
		bad.Each("usage.", s.Usage.Validate())
	}
	return bad.Err()
}

// validateLabels checks keys and values. With own, keys that runsim sets are refused.
func validateLabels(field string, labels map[string]string, own bool, bad *exit.Faults) {
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		at := field + "." + k
		if p := validation.IsQualifiedName(k); len(p) > 0 {
			bad.Add("%s: %s", at, p[0])
		}
		if p := validation.IsValidLabelValue(labels[k]); len(p) > 0 {
			bad.Add("%s: %q: %s", at, labels[k], p[0])
		}
		bad.If(own && (k == LabelManagedBy || k == LabelName || strings.HasPrefix(k, "gnnsched.io/")), "%s: is set by runsim", at)
	}
}

// operators are the operators of node affinity, as package labels spells them.
var operators = map[string]selection.Operator{
	"In": selection.In, "NotIn": selection.NotIn, "Exists": selection.Exists, "DoesNotExist": selection.DoesNotExist,
	"Gt": selection.GreaterThan, "Lt": selection.LessThan,
}

// ValidateAffinity returns everything in terms of required node affinity that Kubernetes would refuse or no node could meet. Each error
// begins with the place in the list.
func ValidateAffinity(terms [][]cluster.Requirement) error {
	var errs []error
	for i, term := range terms {
		if len(term) == 0 {
			errs = append(errs, fmt.Errorf("[%d]: a term without requirements is met by no node", i))
		}
		for j, r := range term {
			operator, known := operators[r.Operator]
			if !known {
				errs = append(errs, fmt.Errorf("[%d][%d].operator: %q is not In, NotIn, Exists, DoesNotExist, Gt or Lt", i, j, r.Operator))
			} else if _, err := labels.NewRequirement(r.Key, operator, r.Values); err != nil {
				errs = append(errs, fmt.Errorf("[%d][%d]: %w", i, j, err))
			}
		}
	}
	return errors.Join(errs...)
}

func validateToleration(at string, t cluster.Toleration, bad *exit.Faults) {
	bad.If(t.Key == "" && !t.Exists, "%s.key: is required with the operator Equal", at)
	if t.Key != "" {
		if p := validation.IsQualifiedName(t.Key); len(p) > 0 {
			bad.Add("%s.key: %q: %s", at, t.Key, p[0])
		}
	}
	bad.If(t.Exists && t.Value != "", "%s.value: must be empty with the operator Exists", at)
	if p := validation.IsValidLabelValue(t.Value); len(p) > 0 {
		bad.Add("%s.value: %q: %s", at, t.Value, p[0])
	}
	switch t.Effect {
	case "", cluster.NoSchedule, cluster.PreferNoSchedule, cluster.NoExecute:
	default:
		bad.Add("%s.effect: %q is not NoSchedule, PreferNoSchedule or NoExecute", at, t.Effect)
	}
}

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

// Arrival is a Deployment with times. They are in seconds, or in steps if the arrival comes
// from a plan without times.
type Arrival struct {
	At         float64 // when the pods arrive
	Lifetime   float64 // run time of each pod; +Inf for pods that stay
	Deployment Deployment
}

// Trace is a list of arrivals by ascending time. The first one is at 0.
type Trace []Arrival

// Pods returns the number of pods that arrive.
func (t Trace) Pods() int {
	return each.Sum(t, func(a Arrival) int { return a.Deployment.Replicas })
}

// Trace returns the plan's Deployments with times, counting one unit of time for each step.
// A Deployment lives until it is deleted or until the next reset.
func (p Plan) Trace() Trace {
	var out Trace
	running := map[string]int{}
	for i, s := range p.Steps {
		switch s.Action {
		case Add:
			running[s.Deployment.Name] = len(out)
			out = append(out, Arrival{At: float64(i), Lifetime: math.Inf(1), Deployment: s.Deployment})
		case Delete:
			if j, ok := running[s.Deployment.Name]; ok {
				out[j].Lifetime = float64(i) - out[j].At
				delete(running, s.Deployment.Name)
			}
		case Reset:
			for _, j := range running {
				out[j].Lifetime = float64(i) - out[j].At
			}
			clear(running)
		}
	}
	return out.FromZero()
}

// Plan returns the trace as steps. Each Deployment is added at its time and deleted when its
// lifetime has passed since then, even if it never ran. At equal times, deletions come first.
func (t Trace) Plan() Plan {
	var p Plan
	for _, a := range t {
		p.Steps = append(p.Steps, Step{Action: Add, Deployment: a.Deployment, At: a.At})
		if !math.IsInf(a.Lifetime, 1) {
			p.Steps = append(p.Steps, Step{Action: Delete, Deployment: a.Deployment, At: a.At + a.Lifetime})
		}
	}
	slices.SortStableFunc(p.Steps, func(a, b Step) int { return cmp.Or(cmp.Compare(a.At, b.At), int(b.Action)-int(a.Action)) })
	return p
}

// FromZero sorts the trace by time and shifts it so that the first arrival is at 0. Arrivals
// at equal times keep their order. It changes the trace in place and returns it.
func (t Trace) FromZero() Trace {
	slices.SortStableFunc(t, func(a, b Arrival) int { return cmp.Compare(a.At, b.At) })
	for i := len(t) - 1; i >= 0; i-- {
		t[i].At -= t[0].At
	}
	return t
}

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
	bad := &exit.Faults{}
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
	bad := &exit.Faults{}
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
