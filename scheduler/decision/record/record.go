package record

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"gnnsched/internal/quote"
	"gnnsched/scheduler/decision"
	"gnnsched/scheduler/policy"
)

// schemaVersion is the version of Record's form. It rises when a field changes its meaning or goes.
const schemaVersion = 1

// Outcomes of a decision.
const (
	Bound         = "bound"
	notBound      = "not bound" // reserving or binding failed, or had not ended when 64 later pods had a node
	Unschedulable = "unschedulable"
	Shadow        = "shadow" // made in the shadow of another scheduler: it places nothing; without a node if none fits
)

// Record is a decision in the form in which it is served and written.
type Record struct {
	Schema    int       `json:"schema"`
	Time      time.Time `json:"time"`
	Profile   string    `json:"profile"`
	Number    uint64    `json:"number,omitempty"` // decision.Decision.Number
	Namespace string    `json:"namespace"`
	Pod       string    `json:"pod"`
	UID       string    `json:"uid"`
	Outcome   string    `json:"outcome"` // Bound, notBound, Unschedulable or Shadow

	Node    string `json:"node,omitempty"`
	Devices []int  `json:"devices,omitempty"` // indices of the chosen GPU devices

	Claimed []ClaimedDevice `json:"claimed,omitempty"` // decision.Decision.Claimed

	Group       string  `json:"group,omitempty"` // decision.Decision.Group
	Policy      string  `json:"policy,omitempty"`
	Fingerprint string  `json:"fingerprint,omitempty"` // of the weights, 16 hexadecimal digits
	Fallback    string  `json:"fallback,omitempty"`
	Latency     float64 `json:"latencyMicroseconds,omitempty"`

	Nodes     int       `json:"nodes,omitempty"`
	Refused   []Refusal `json:"refused,omitempty"`
	Feasible  int       `json:"feasible"`
	Preferred int       `json:"preferred"`

	Best     []Candidate `json:"best,omitempty"`
	RunnerUp string      `json:"runnerUp,omitempty"` // the best candidate that was not chosen
	Margin   *float64    `json:"margin,omitempty"`   // score of the node minus the runner-up's score; absent if one is not known
	Default  *Default    `json:"default,omitempty"`

	Failure   string `json:"failure,omitempty"`
	Nominated string `json:"nominated,omitempty"`

	Really string `json:"really,omitempty"` // decision.Decision.Really; set if Outcome is Shadow
}

// ClaimedDevice is a decision.ClaimedDevice.
type ClaimedDevice struct {
	Claim   string `json:"claim,omitempty"`
	Request string `json:"request"`
	Driver  string `json:"driver"`
	Pool    string `json:"pool"`
	Name    string `json:"device"`
	Milli   int64  `json:"milli,omitempty"`
}

// Refusal is a decision.Refusal.
type Refusal struct {
	Plugin string `json:"plugin,omitempty"`
	Reason string `json:"reason"`
	Nodes  int    `json:"nodes"`
}

// Candidate is a decision.Candidate.
type Candidate struct {
	Node  string   `json:"node"`
	Score float32  `json:"score"`
	Read  *Reading `json:"read,omitempty"`
	Cards []string `json:"cards,omitempty"`
}

// Default is a decision.Default.
type Default struct {
	Candidate
	Ties      int  `json:"ties"`
	Preferred bool `json:"preferred"`
}

// Reading is a policy.Reading.
type Reading struct {
	Kind     policy.ReadingKind `json:"kind"`
	Features Numbers            `json:"features"`
	Weights  Numbers            `json:"weights,omitempty"`
}

// Numbers is a vector. Its JSON form is the base64 of the numbers as little-endian float32.
type Numbers []float32

// MarshalJSON implements json.Marshaler.
func (n Numbers) MarshalJSON() ([]byte, error) {
	b := make([]byte, 0, 4*len(n))
	for _, x := range n {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return append(base64.StdEncoding.AppendEncode([]byte{'"'}, b), '"'), nil
}

// UnmarshalJSON implements json.Unmarshaler. It fails for numbers that are not finite.
func (n *Numbers) UnmarshalJSON(text []byte) error {
	var b []byte
	if err := json.Unmarshal(text, &b); err != nil {
		return err
	}
	if len(b)%4 != 0 {
		return fmt.Errorf("%d bytes are no vector of float32", len(b))
	}
	*n = make(Numbers, len(b)/4)
	for i := range *n {
		x := math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			return errors.New("a number is not finite")
		}
		(*n)[i] = x
	}
	return nil
}

// Of returns the record of a decision.
func Of(d *decision.Decision) Record {
	r := Record{
		Schema: schemaVersion, Time: d.At.UTC(), Profile: d.Profile, Number: d.Number,
		Namespace: d.Pod.Namespace, Pod: d.Pod.Name, UID: d.Pod.UID, Outcome: outcome(d),
		Node: d.Node, Group: d.Group, Policy: d.Policy, Fallback: d.Fallback, Latency: float64(d.Latency.Nanoseconds()) / 1000,
		Nodes: d.Nodes, Feasible: d.Feasible, Preferred: d.Preferred, Failure: d.Failure, Nominated: d.Nominated, Really: d.Really,
	}
	if d.Fingerprint != 0 {
		r.Fingerprint = fmt.Sprintf("%016x", d.Fingerprint)
	}
	for i := range 64 {
		if d.Devices.Has(i) {
			r.Devices = append(r.Devices, i)
		}
	}
	for _, c := range d.Claimed {
		r.Claimed = append(r.Claimed, ClaimedDevice(c))
	}
	for _, f := range d.Refused {
		r.Refused = append(r.Refused, Refusal(f))
	}
	for _, c := range d.Best {
		r.Best = append(r.Best, candidate(c))
	}
	if d.Default != nil {
		r.Default = &Default{candidate(d.Default.Candidate), d.Default.Ties, d.Default.Preferred}
	}
	if up, ok := d.RunnerUp(); ok {
		r.RunnerUp = up.Node
		if chosen, known := d.Chosen(); known {
			margin := float64(chosen.Score) - float64(up.Score)
			r.Margin = &margin
		}
	}
	return r
}

func outcome(d *decision.Decision) string {
	switch {
	case d.Really != "":
		return Shadow
	case d.Node == "":
		return Unschedulable
	case d.Bound:
		return Bound
	}
	return notBound
}

func candidate(c decision.Candidate) Candidate {
	out := Candidate{Node: c.Node, Score: c.Score, Cards: c.Cards}
	if c.Read != nil {
		out.Read = &Reading{c.Read.Kind, c.Read.Features, c.Read.Weights}
	}
	return out
}

// The bytes of texts in a record, and the number of reasons.
const (
	maxName    = 253 // Kubernetes' limit for names of pods and nodes
	maxReason  = 200
	maxFailure = 600
	maxReasons = 16
	maxClaimed = 64 // devices of a pod's claims, and cards of a candidate
)

// bound cuts a decision's texts and lists. It copies the lists that it changes, because other listeners hold them.
func bound(d decision.Decision) decision.Decision {
	d.Profile, d.Policy = short(d.Profile, maxName), short(d.Policy, maxName)
	d.Pod = decision.Pod{Namespace: short(d.Pod.Namespace, maxName), Name: short(d.Pod.Name, maxName), UID: short(d.Pod.UID, maxName)}
	d.Node, d.Nominated, d.Really = short(d.Node, maxName), short(d.Nominated, maxName), short(d.Really, maxName)
	d.Failure = short(d.Failure, maxFailure)
	var refused []decision.Refusal
	for i, r := range d.Refused {
		r.Plugin, r.Reason = short(r.Plugin, maxName), short(r.Reason, maxReason)
		if i < maxReasons {
			refused = append(refused, r)
			continue
		}
		last := &refused[maxReasons-1]
		*last = decision.Refusal{Reason: "other reasons", Nodes: last.Nodes + r.Nodes}
	}
	d.Refused = refused
	d.Best = slices.Clone(d.Best[:min(len(d.Best), decision.MaxBest)])
	for i := range d.Best {
		d.Best[i].Cards = shortCards(d.Best[i].Cards)
	}
	if d.Default != nil {
		asked := *d.Default
		asked.Cards = shortCards(asked.Cards)
		d.Default = &asked
	}
	d.Claimed = slices.Clone(d.Claimed[:min(len(d.Claimed), maxClaimed)])
	for i := range d.Claimed {
		c := (*ClaimedDevice)(&d.Claimed[i])
		c.shorten()
	}
	return d
}

func (c *ClaimedDevice) shorten() {
	for _, s := range []*string{&c.Claim, &c.Request, &c.Driver, &c.Pool, &c.Name} {
		*s = short(*s, maxName)
	}
}

// short bounds a text to about n bytes and one line, without control characters. Nearly all texts are so already.
func short(s string, n int) string {
	plain := len(s) <= n
	for i := 0; i < len(s) && plain; i++ {
		plain = s[i] >= ' ' && s[i] < 0x7f
	}
	if plain {
		return s
	}
	return strings.ReplaceAll(quote.Message(s, n), "\n", " ")
}

// maxRecordBytes bounds a record that is read. The largest that a Book writes is far smaller.
const maxRecordBytes = 1 << 20

// Parse reads a record from its JSON object, and makes its texts safe to print. Fields that are not known are
// ignored.
func Parse(line []byte) (Record, error) {
	if len(line) > maxRecordBytes {
		return Record{}, fmt.Errorf("a record of more than %d bytes", maxRecordBytes)
	}
	var r Record
	if err := json.Unmarshal(line, &r); err != nil {
		return Record{}, fmt.Errorf("no record of a decision: %w", err)
	}
	return r, r.check()
}

// check validates a record that was read, and makes its texts safe to print.
func (r *Record) check() error {
	switch {
	case r.Schema == 0:
		return errors.New("no record of a decision: it has no schema")
	case r.Schema != schemaVersion:
		return fmt.Errorf("a record of schema %d, but this version reads schema %d", r.Schema, schemaVersion)
	case r.Outcome != Bound && r.Outcome != notBound && r.Outcome != Unschedulable && r.Outcome != Shadow:
		return fmt.Errorf("outcome %s is not known", strconv.QuoteToASCII(short(r.Outcome, maxReason)))
	case (r.Outcome == Shadow) != (r.Really != ""):
		return fmt.Errorf("outcome %s does not go with a pod that is really on %q", r.Outcome, short(r.Really, maxName))
	case r.Outcome != Shadow && (r.Outcome == Unschedulable) != (r.Node == ""):
		return fmt.Errorf("outcome %s does not go with node %q", r.Outcome, short(r.Node, maxName))
	case len(r.Best) > decision.MaxBest || len(r.Refused) > maxReasons || len(r.Devices) > 64 || len(r.Claimed) > maxClaimed:
		return errors.New("a list in the record is too long")
	}
	for _, s := range []*string{
		&r.Profile, &r.Namespace, &r.Pod, &r.UID, &r.Node, &r.Group, &r.Policy, &r.Fingerprint, &r.Fallback, &r.RunnerUp, &r.Nominated, &r.Really,
	} {
		*s = short(*s, maxName)
	}
	r.Failure = short(r.Failure, maxFailure)
	for i := range r.Refused {
		r.Refused[i].Plugin, r.Refused[i].Reason = short(r.Refused[i].Plugin, maxName), short(r.Refused[i].Reason, maxReason)
	}
	for i := range r.Claimed {
		r.Claimed[i].shorten()
	}
	for i := range r.Best {
		r.Best[i].shorten()
	}
	if r.Default != nil {
		r.Default.shorten()
	}
	return nil
}

func (c *Candidate) shorten() {
	c.Node = short(c.Node, maxName)
	c.Cards = shortCards(c.Cards)
}

// shortCards returns a bounded copy of the names of cards.
func shortCards(names []string) []string {
	out := slices.Clone(names[:min(len(names), maxClaimed)])
	for i := range out {
		out[i] = short(out[i], 3*maxName) // driver, pool and name
	}
	return out
}
