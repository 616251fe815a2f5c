package decision

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gnnsched/internal/exit"
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
	Number    uint64    `json:"number,omitempty"` // Decision.Number
	Namespace string    `json:"namespace"`
	Pod       string    `json:"pod"`
	UID       string    `json:"uid"`
	Outcome   string    `json:"outcome"` // Bound, notBound, Unschedulable or Shadow

	Node    string `json:"node,omitempty"`
	Devices []int  `json:"devices,omitempty"` // indices of the chosen GPU devices

	Claimed []ClaimedDevice `json:"claimed,omitempty"` // Decision.Claimed

	Group       string  `json:"group,omitempty"` // Decision.Group
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

	Really string `json:"really,omitempty"` // Decision.Really; set if Outcome is Shadow
}

// RecordOf returns the record of a decision.
func RecordOf(d *Decision) Record {
	r := Record{
		Schema: schemaVersion, Time: d.At.UTC(), Profile: d.Profile, Number: d.Number,
		Namespace: d.Pod.Namespace, Pod: d.Pod.Name, UID: d.Pod.UID, Outcome: outcome(d),
		Node: d.Node, Group: d.Group, Policy: d.Policy, Fallback: d.Fallback, Latency: float64(d.Latency.Nanoseconds()) / 1000,
		Nodes: d.Nodes, Feasible: d.Feasible, Preferred: d.Preferred, Failure: d.Failure, Nominated: d.Nominated, Really: d.Really,
		Claimed: d.Claimed, Refused: d.Refused, Best: d.Best, Default: d.Default,
	}
	if d.Fingerprint != 0 {
		r.Fingerprint = fmt.Sprintf("%016x", d.Fingerprint)
	}
	for i := range 64 {
		if d.Devices.Has(i) {
			r.Devices = append(r.Devices, i)
		}
	}
	if i := slices.IndexFunc(r.Best, func(c Candidate) bool { return c.Node != r.Node }); i >= 0 {
		r.RunnerUp = r.Best[i].Node
		if chosen, known := r.Find(r.Node); known {
			r.Margin = new(float64(chosen.Score) - float64(r.Best[i].Score))
		}
	}
	return r
}

// Find returns the candidate of a node. known is false if it is neither in Best nor the default's choice.
func (r *Record) Find(node string) (c Candidate, known bool) {
	if i := slices.IndexFunc(r.Best, func(c Candidate) bool { return c.Node == node }); i >= 0 {
		return r.Best[i], true
	}
	if d := r.Default; d != nil && d.Preferred && d.Node == node && node != "" {
		return d.Candidate, true
	}
	return c, false
}

func outcome(d *Decision) string {
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

// The bytes of texts in a record, and the number of reasons.
const (
	maxName    = 253 // Kubernetes' limit for names of pods and nodes
	maxReason  = 200
	maxFailure = 600
	maxReasons = 16
	maxClaimed = 64 // devices of a pod's claims, and cards of a candidate
)

// bound cuts the lists of a decision's record, and makes its texts safe to print. It copies
// what it changes, because other listeners hold it.
func (r *Record) bound() {
	if more := len(r.Refused) - maxReasons; more > 0 {
		others := Refusal{Reason: "other reasons"}
		for _, f := range r.Refused[maxReasons-1:] {
			others.Nodes += f.Nodes
		}
		r.Refused = append(slices.Clone(r.Refused[:maxReasons-1]), others)
	}
	r.Refused, r.Best = slices.Clone(r.Refused), slices.Clone(r.Best[:min(len(r.Best), MaxBest)])
	r.Claimed = slices.Clone(r.Claimed[:min(len(r.Claimed), maxClaimed)])
	if r.Default != nil {
		r.Default = new(*r.Default)
	}
	r.shorten()
}

// shorten makes a record's texts safe to print.
func (r *Record) shorten() {
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
		c := &r.Claimed[i]
		for _, s := range []*string{&c.Claim, &c.Request, &c.Driver, &c.Pool, &c.Name} {
			*s = short(*s, maxName)
		}
	}
	for i := range r.Best {
		shorten(&r.Best[i])
	}
	if r.Default != nil {
		shorten(&r.Default.Candidate)
	}
}

// shorten bounds a candidate's texts. It copies the names of cards.
func shorten(c *Candidate) {
	c.Node, c.Cards = short(c.Node, maxName), slices.Clone(c.Cards[:min(len(c.Cards), maxClaimed)])
	for i := range c.Cards {
		c.Cards[i] = short(c.Cards[i], 3*maxName) // driver, pool and name
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
	return strings.ReplaceAll(exit.Clean(s, n), "\n", " ")
}

// maxRecordBytes bounds a record that is read. The largest that a Book writes is far smaller.
const maxRecordBytes = 1 << 20

// ParseRecord reads a record from its JSON object, and makes its texts safe to print. Fields that are not known are
// ignored.
func ParseRecord(line []byte) (Record, error) {
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
	case len(r.Best) > MaxBest || len(r.Refused) > maxReasons || len(r.Devices) > 64 || len(r.Claimed) > maxClaimed:
		return errors.New("a list in the record is too long")
	}
	r.shorten()
	return nil
}
