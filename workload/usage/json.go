package usage

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	strictjson "sigs.k8s.io/json"

	"gnnsched/internal/exit"
)

// modelEntry is the JSON form of a Model. Each dimension is a number or a quantity in Kubernetes' notation
// (250m, 1Gi), which is a constant, or an object with one kind of curve.
type modelEntry struct {
	CPU        json.RawMessage `json:"cpu,omitempty"`
	Memory     json.RawMessage `json:"memory,omitempty"`
	NetworkIn  json.RawMessage `json:"networkIn,omitempty"`
	NetworkOut json.RawMessage `json:"networkOut,omitempty"`
	DiskRead   json.RawMessage `json:"diskRead,omitempty"`
	DiskWrite  json.RawMessage `json:"diskWrite,omitempty"`
	Work       float64         `json:"work,omitempty"` // core-seconds
}

// dimensions returns the fields by Dimension.
func (e *modelEntry) dimensions() [Dimensions]*json.RawMessage {
	return [Dimensions]*json.RawMessage{&e.CPU, &e.Memory, &e.NetworkIn, &e.NetworkOut, &e.DiskRead, &e.DiskWrite}
}

// curveEntry is the form of a curve in JSON. It is written with the tags of its own type.
type curveEntry struct {
	Day    *dayEntry    `json:"day"`
	Bursts *burstsEntry `json:"bursts"`
	Walk   *walkEntry   `json:"walk"`
	Series *seriesEntry `json:"series"`
}

type dayEntry struct {
	Low    amount   `json:"low"`
	High   amount   `json:"high"`
	Period *float64 `json:"period"` // default: 86400
	Peak   *float64 `json:"peak"`   // default: half the period
}

type burstsEntry struct {
	Low    amount  `json:"low"`
	High   amount  `json:"high"`
	Every  float64 `json:"every"`
	Length float64 `json:"length"`
}

type walkEntry struct {
	Low       amount   `json:"low"`
	High      amount   `json:"high"`
	Deviation amount   `json:"deviation"`
	Step      *float64 `json:"step"` // default: 60
}

// seriesEntry is a Series whose scale may be a quantity; default: 1.
type seriesEntry struct {
	Series
	Scale amount `json:"scale"`
}

// amount is the text of a number or a quantity; empty if it is absent.
type amount string

func (a *amount) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, (*string)(a))
	}
	*a = amount(b)
	return nil
}

// maxAmount is the longest text of an amount, in bytes.
const maxAmount = 40

// number returns the amount as a number; 0 if it is absent.
func (a amount) number() (float64, error) {
	if a == "" || a == "null" {
		return 0, nil
	}
	if len(a) <= maxAmount {
		if x, err := strconv.ParseFloat(string(a), 64); err == nil && x-x == 0 { // neither NaN nor infinite
			return x, nil
		}
		if q, err := resource.ParseQuantity(string(a)); err == nil {
			return q.AsApproximateFloat64(), nil
		}
	}
	return 0, fmt.Errorf("%s is not an amount; write a number, or a quantity such as 250m, 512Mi or 10M", exit.Quote(string(a)))
}

// fields reads amounts and collects the faults, each with its field.
type fields struct {
	at   string
	errs []error
}

func (f *fields) number(field string, a amount) float64 {
	x, err := a.number()
	if err != nil {
		f.errs = append(f.errs, fmt.Errorf("%s.%s: %w", f.at, field, err))
	}
	return x
}

// unmarshalStrict decodes JSON and refuses unknown and repeated fields.
func unmarshalStrict(b []byte, into any) error {
	strict, err := strictjson.UnmarshalStrict(b, into)
	return errors.Join(append(strict, err)...)
}

// UnmarshalJSON implements json.Unmarshaler. Unknown and repeated fields and values that Validate refuses are errors; each error begins
// with its field.
func (m *Model) UnmarshalJSON(b []byte) error {
	var e modelEntry
	if err := unmarshalStrict(b, &e); err != nil {
		return err
	}
	out := Model{Work: e.Work}
	var errs []error
	for i, raw := range e.dimensions() {
		if len(*raw) == 0 {
			continue
		}
		c, err := readCurve(names[i], *raw)
		if err != nil {
			errs = append(errs, err)
		}
		out.Curves[i] = c
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := out.Validate(); err != nil {
		return err
	}
	*m = out
	return nil
}

// readCurve reads the curve of the dimension with a name.
func readCurve(name string, raw json.RawMessage) (Curve, error) {
	if !bytes.HasPrefix(raw, []byte("{")) {
		var a amount
		err := json.Unmarshal(raw, &a)
		x := 0.0
		if err == nil {
			x, err = a.number()
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return Constant(x), nil
	}
	var e curveEntry
	if err := unmarshalStrict(raw, &e); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	f := &fields{at: name}
	var c Curve
	kinds := 0
	if e.Day != nil {
		c, kinds = e.Day.curve(f), kinds+1
	}
	if e.Bursts != nil {
		c, kinds = e.Bursts.curve(f), kinds+1
	}
	if e.Walk != nil {
		c, kinds = e.Walk.curve(f), kinds+1
	}
	if e.Series != nil {
		c, kinds = e.Series.curve(f), kinds+1
	}
	if kinds != 1 {
		f.errs = append(f.errs, fmt.Errorf("%s: has %d kinds of curves; write an amount, or one of day, bursts, walk and series", name, kinds))
	}
	return c, errors.Join(f.errs...)
}

func (e *dayEntry) curve(f *fields) Curve {
	period := ptr.Deref(e.Period, 86400)
	return Day{Low: f.number("day.low", e.Low), High: f.number("day.high", e.High), Period: period, Peak: ptr.Deref(e.Peak, period/2)}
}

func (e *burstsEntry) curve(f *fields) Curve {
	return Bursts{Low: f.number("bursts.low", e.Low), High: f.number("bursts.high", e.High), Every: e.Every, Length: e.Length}
}

func (e *walkEntry) curve(f *fields) Curve {
	return Walk{
		Low: f.number("walk.low", e.Low), High: f.number("walk.high", e.High), Deviation: f.number("walk.deviation", e.Deviation),
		Step: ptr.Deref(e.Step, 60),
	}
}

func (e *seriesEntry) curve(f *fields) Curve {
	e.Series.Scale = 1
	if e.Scale != "" {
		e.Series.Scale = f.number("series.scale", e.Scale)
	}
	return &e.Series
}

// MarshalJSON implements json.Marshaler. UnmarshalJSON reads the result back without any loss.
func (m *Model) MarshalJSON() ([]byte, error) {
	e := modelEntry{Work: m.Work}
	for i, raw := range e.dimensions() {
		c := m.Curves[i]
		if c == nil {
			continue
		}
		b, err := json.Marshal(entryOf(c))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", names[i], err)
		}
		*raw = b
	}
	return json.Marshal(e)
}

// entryOf returns the JSON form of a curve.
func entryOf(c Curve) any {
	switch c := c.(type) {
	case Constant:
		return c
	case Day:
		return map[string]Curve{"day": c}
	case Bursts:
		return map[string]Curve{"bursts": c}
	case Walk:
		return map[string]Curve{"walk": c}
	case *Series:
		return map[string]Curve{"series": c}
	}
	panic(fmt.Sprintf("usage: unknown kind of curve %T", c))
}

// Annotation is the annotation of a pod with its model as JSON.
const Annotation = "gnnsched.io/usage"

// maxAnnotation is the longest annotation that is read, in bytes. All annotations of an object together have
// 256 KiB.
const maxAnnotation = 64 << 10

// maxMessage is the longest error of ParseAnnotation, in bytes.
const maxMessage = 500

// ParseAnnotation reads a pod's annotation. The owner of the pod wrote it, so it may hold anything: errors
// are short and free of control characters.
func ParseAnnotation(value string) (*Model, error) {
	if len(value) > maxAnnotation {
		return nil, fmt.Errorf("annotation %s has %d bytes, more than %d; use fewer values", Annotation, len(value), maxAnnotation)
	}
	m := &Model{}
	if err := m.UnmarshalJSON([]byte(value)); err != nil {
		return nil, errors.New("annotation " + Annotation + ": " + exit.Clean(err.Error(), maxMessage))
	}
	return m, nil
}

// FormatAnnotation returns the annotation of a pod with a model. It returns an error if the annotation would be longer than maxAnnotation,
// which happens only with long series.
func FormatAnnotation(m *Model) (string, error) {
	b, err := json.Marshal(m)
	if err != nil {
		return "", err
	}
	if len(b) > maxAnnotation {
		return "", fmt.Errorf("the model has %d bytes as an annotation of a pod, more than %d; use fewer values or a larger step", len(b),
			maxAnnotation)
	}
	return string(b), nil
}
