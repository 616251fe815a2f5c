package usage

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	strictjson "sigs.k8s.io/json"

	"gnnsched/internal/exit"
)

// Curve is the use of one dimension over time. The kinds are Constant, Day, Bursts, Walk and *Series.
type Curve interface {
	// at returns the amount. now and age are finite and 0 or more, see Model.At.
	at(seed uint64, now, age float64) float64
	// lasts returns the number of seconds for which the amount stays the same; 0 or less if that is not known.
	lasts(seed uint64, now, age float64) float64
	// clocked reports whether at depends on nothing but now.
	clocked() bool
	// validate calls bad with each field that is wrong. No amount may be over most.
	validate(most float64, bad func(field, format string, a ...any))
}

// Constant is the same amount at all times.
type Constant float64

func (c Constant) at(uint64, float64, float64) float64 { return float64(c) }

func (c Constant) lasts(uint64, float64, float64) float64 { return math.Inf(1) }

func (c Constant) clocked() bool { return true }

// Day goes up and down once a period, as a cosine:
//
//	low + (high - low) · (1 + cos(2π · (now - peak) / period)) / 2
type Day struct {
	Low    float64 `json:"low"`    // an amount
	High   float64 `json:"high"`   // an amount
	Period float64 `json:"period"` // seconds; a day has 86400
	Peak   float64 `json:"peak"`   // when it is highest, in seconds after midnight UTC
}

func (c Day) at(_ uint64, now, _ float64) float64 {
	return c.Low + (c.High-c.Low)*(1+math.Cos(2*math.Pi*(now-c.Peak)/c.Period))/2
}

func (c Day) lasts(uint64, float64, float64) float64 {
	if c.Low == c.High {
		return math.Inf(1)
	}
	return 0
}

func (c Day) clocked() bool { return true }

// Bursts is High for Length seconds once in every Every seconds, and Low otherwise. The seed decides when. Two
// dimensions of a pod with equal Every and Length have their bursts together.
type Bursts struct {
	Low    float64 `json:"low"`    // an amount
	High   float64 `json:"high"`   // an amount
	Every  float64 `json:"every"`  // seconds
	Length float64 `json:"length"` // seconds, at most Every
}

func (c Bursts) at(seed uint64, _, age float64) float64 {
	slot := index(age / c.Every)
	begin := uniform(mix(seed, slot)) * (c.Every - c.Length)
	if in := age - float64(slot)*c.Every; in >= begin && in < begin+c.Length {
		return c.High
	}
	return c.Low
}

func (c Bursts) lasts(seed uint64, _, age float64) float64 {
	slot := index(age / c.Every)
	begin := uniform(mix(seed, slot)) * (c.Every - c.Length)
	in := age - float64(slot)*c.Every
	switch {
	case in < begin:
		return begin - in - safety
	case in < begin+c.Length:
		return begin + c.Length - in - safety
	}
	return c.Every - in - safety
}

func (c Bursts) clocked() bool { return false }

// Walk is a random walk that is reflected at Low and High. It starts at a random place between them.
type Walk struct {
	Low       float64 `json:"low"`       // an amount
	High      float64 `json:"high"`      // an amount
	Deviation float64 `json:"deviation"` // standard deviation of the change within an hour
	Step      float64 `json:"step"`      // seconds between two changes
}

func (c Walk) at(seed uint64, _, age float64) float64 {
	if c.High <= c.Low {
		return c.Low
	}
	return c.reflected(seed, brownian(seed, index(age/c.Step)))
}

// atFor returns at and holds. last is the stretch of the last call.
func (c Walk) atFor(seed uint64, age float64, last **stretch) (amount, hold float64) {
	if c.High <= c.Low {
		return c.Low, c.lasts(seed, 0, age)
	}
	k := index(age / c.Step)
	now := *last
	if now == nil || now.first != k&^(stretchSteps-1) {
		now = now.next(seed, k&^(stretchSteps-1), c)
		*last = now
	}
	return now.amounts[k-now.first], float64(k+1)*c.Step - age - safety // as rest
}

// reflected returns the amount at a position of the Brownian motion.
func (c Walk) reflected(seed uint64, position float64) float64 {
	width := c.High - c.Low
	at := math.Abs(uniform(mix(seed, startOfWalk))*width + c.Deviation*math.Sqrt(c.Step/3600)*position) // reflected at 0
	if at >= 2*width {
		at = math.Mod(at, 2*width)
	}
	return c.Low + min(at, 2*width-at) // and at width
}

func (c Walk) clocked() bool { return false }

func (c Walk) lasts(_ uint64, _, age float64) float64 { return rest(age, c.Step) }

// startOfWalk is the index of the draw of a walk's start, which no step of a walk has.
const startOfWalk = math.MaxUint64

// brownian returns the position of a standard Brownian motion after k steps. It draws the positions at
// powers of two, and from them the position at k by halving, as in Lévy's construction: about 2·log2(k) draws.
func brownian(seed, k uint64) float64 {
	if k == 0 {
		return 0
	}
	from, to := uint64(0), uint64(1)
	low, high := 0.0, normal(mix(seed, 1))
	for k > to {
		step := math.Sqrt(float64(to))
		from, to = to, 2*to
		low, high = high, high+step*normal(mix(seed, to))
	}
	for k != from && k != to {
		half := from + (to-from)/2
		w := middle(low, high, to-from, mix(seed, half))
		if k >= half {
			from, low = half, w
		} else {
			to, high = half, w
		}
	}
	if k == from {
		return low
	}
	return high
}

// middle draws the position in the middle of the given number of steps, between the positions at their ends.
func middle(low, high float64, steps, bits uint64) float64 {
	return (low+high)/2 + math.Sqrt(float64(steps))/2*normal(bits)
}

// Series is a measured series: value i holds from i·Step until (i+1)·Step.
type Series struct {
	Step   float64   `json:"step"`             // seconds
	Scale  float64   `json:"scale"`            // amount of the value 1
	Values []float32 `json:"values"`           // 0 or more; at least one
	Offset float64   `json:"offset,omitempty"` // seconds into the series at which it begins

	Once        bool `json:"once,omitempty"`        // after the end the last value holds; otherwise the series begins again
	Clock       bool `json:"clock,omitempty"`       // follows the clock from midnight UTC; otherwise the pod's age
	RandomStart bool `json:"randomStart,omitempty"` // begins at a place that the seed draws, plus Offset; with Clock on a day that it draws
}

func (c *Series) at(seed uint64, now, age float64) float64 {
	t := age + c.Offset
	if c.Clock {
		t = now + c.Offset
	}
	n := uint64(len(c.Values))
	i := index(t / c.Step)
	if c.RandomStart {
		i += c.start(seed)
	}
	switch {
	case i < n:
	case c.Once:
		i = n - 1
	default:
		i %= n
	}
	return float64(c.Values[i]) * c.Scale
}

// start returns the begin in the series that the seed draws. With Clock it is a number of whole days, if the series has several and a day
// has whole steps, so that the time of day stays.
func (c *Series) start(seed uint64) uint64 {
	n := uint64(len(c.Values))
	if day := day / c.Step; c.Clock && day == math.Floor(day) && uint64(day) <= n {
		return mix(seed, 0) % (n / uint64(day)) * uint64(day)
	}
	return mix(seed, 0) % n
}

// day is the number of seconds in a day.
const day = 86400

func (c *Series) lasts(_ uint64, now, age float64) float64 {
	if c.Clock {
		return rest(now+c.Offset, c.Step)
	}
	return rest(age+c.Offset, c.Step)
}

func (c *Series) clocked() bool { return c.Clock && !c.RandomStart }

// safety is the time, in seconds, for which nothing is sure before a change, for the sake of rounding.
const safety = 1e-3

// rest returns the time that certainly stays within its step.
func rest(at, step float64) float64 { return float64(index(at/step)+1)*step - at - safety }

// index returns the whole part of a number of steps, which is not negative.
func index(steps float64) uint64 { return uint64(min(steps, 1<<52)) }

// mix returns 64 bits that look random, of a seed and an index: the finalizer of splitmix64.
func mix(seed, i uint64) uint64 {
	z := seed + (i+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// uniform returns a number from 0 to less than 1.
func uniform(bits uint64) float64 { return float64(bits>>11) / (1 << 53) }

// normal returns a number that is nearly normal with mean 0 and variance 1: the sum of four uniform ones.
func normal(bits uint64) float64 {
	sum := bits&0xffff + bits>>16&0xffff + bits>>32&0xffff + bits>>48
	return (float64(sum)/0xffff - 2) * 1.7320508075688772 // √3
}

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
