package runfolder

import (
	"fmt"
	"math"
	"slices"
)

// Row is a row of one of the folder's files.
type Row interface {
	file() string // the name of the file
	check() error // an error if the row cannot be shown
}

// Scenario is the setting in which contenders were compared: a cluster with a workload, simulated, recorded or real.
type Scenario struct {
	Name      string   `json:"name"`
	About     string   `json:"about,omitempty"`
	Objective string   `json:"objective,omitempty"`
	Baseline  string   `json:"baseline,omitempty"` // the baseline of the comparisons
	Samples   int      `json:"samples,omitempty"`  // independent samples; differences of fewer than 2 have no interval
	Rule      string   `json:"rule,omitempty"`     // how differences are marked, for people
	TimeUnit  string   `json:"timeUnit,omitempty"` // of Frame.At, Decision.At and waiting times
	Soon      float64  `json:"soon,omitempty"`     // a pod that got its node within this time has not waited in Waits.Waited
	Metrics   []Metric `json:"metrics,omitempty"`  // in the order in which they are shown, the objective first
}

// Metric describes the values of a name in Episode and Difference.
type Metric struct {
	Name   string `json:"name"`
	Title  string `json:"title"`
	Digits int    `json:"digits"`         // after the point
	More   bool   `json:"more,omitempty"` // more is better; else less is
}

// State is a verdict in a word.
type State string

// The states of verdicts.
const (
	Better State = "better" // significantly so
	Worse  State = "worse"
	Level  State = "level" // no difference that is more than chance, or none at all
	// Unclear: the interval excludes 0 but p is not low enough, or the contrary.
	Unclear State = "unclear"
	Pass    State = "pass" // a threshold that holds
	Fail    State = "fail"
	Note    State = "note" // a statement without judgement
)

// Verdict is a sentence about a contender. The first verdicts of a run are shown first.
type Verdict struct {
	Scenario  string `json:"scenario,omitempty"`
	Contender string `json:"contender,omitempty"`
	State     State  `json:"state"`
	Text      string `json:"text"` // a sentence without a full stop
}

// Episode holds the metrics of one contender in one episode.
type Episode struct {
	Scenario  string             `json:"scenario"`
	Contender string             `json:"contender"`
	Seed      uint64             `json:"seed"`
	Values    map[string]float64 `json:"values"` // by Metric.Name
}

// Difference is the mean of a contender's metric minus the baseline's on the same episodes.
type Difference struct {
	Scenario  string   `json:"scenario"`
	Contender string   `json:"contender"`
	Metric    string   `json:"metric"`
	Mean      float64  `json:"mean"`
	Low       *float64 `json:"low,omitempty"` // ends of the 95 % interval
	High      *float64 `json:"high,omitempty"`
	Relative  *float64 `json:"relative,omitempty"` // Mean divided by the baseline's mean
	P         *float64 `json:"p,omitempty"`        // adjusted for the comparisons that were made; nil if there are too few samples for a mark
	Mark      State    `json:"mark,omitempty"`     // Better, Worse, Level or Unclear; empty if there are too few samples
}

// Frame is the cluster at one time. The frames of a scenario, contender and seed are in order of time.
type Frame struct {
	Scenario  string  `json:"scenario"`
	Contender string  `json:"contender"`
	Seed      uint64  `json:"seed,omitempty"`
	At        float64 `json:"at"`
	Waiting   int     `json:"waiting"` // pods without a node
	Nodes     []Node  `json:"nodes"`
}

// Node is a node's load. Fractions are relative to the node's allocatable amounts, and may exceed 1.
type Node struct {
	Name   string  `json:"name"`
	CPU    float64 `json:"cpu"`
	Memory float64 `json:"memory"`
	GPU    float64 `json:"gpu,omitempty"`
	Pods   int64   `json:"pods"`
}

// Waits sums up the waiting times of a class of pods, in the scenario's unit of time.
type Waits struct {
	Scenario  string    `json:"scenario"`
	Contender string    `json:"contender"`
	Class     string    `json:"class"`
	Pods      int       `json:"pods"`                // all pods of the class
	Waited    int       `json:"waited"`              // pods that did not get a node at once, or within Scenario.Soon
	Never     int       `json:"never"`               // of these, those without a node at the end; not in Quantiles
	Mean      float64   `json:"mean"`                // of the pods with a node
	Quantiles []float64 `json:"quantiles,omitempty"` // of the pods with a node, as Quantiles lists them
}

// Quantiles are the quantiles that Waits holds.
var Quantiles = []float64{0.5, 0.9, 0.95, 0.99, 1}

// Summarise sets the counts and quantiles of a class from the number of pods that got a node at once, the waiting times of pods that got
// one later, and the number of pods without one. It sorts the times.
func (w *Waits) Summarise(atOnce int, times []float64, never int) {
	slices.Sort(times)
	placed := atOnce + len(times)
	w.Pods, w.Waited, w.Never, w.Mean, w.Quantiles = placed+never, len(times)+never, never, 0, nil
	if placed == 0 {
		return
	}
	for _, t := range times {
		w.Mean += t / float64(placed)
	}
	for _, q := range Quantiles {
		v := 0.0
		if i := int(math.Ceil(q*float64(placed))) - 1 - atOnce; i >= 0 {
			v = times[i]
		}
		w.Quantiles = append(w.Quantiles, v)
	}
}

// Decision is the choice of a node for one pod. Runs keep a bounded sample.
type Decision struct {
	Scenario  string  `json:"scenario,omitempty"`
	Contender string  `json:"contender"`
	Seed      uint64  `json:"seed,omitempty"`
	At        float64 `json:"at"`
	Pod       string  `json:"pod"` // namespace/name, or the name
	Class     string  `json:"class,omitempty"`
	Waited    float64 `json:"waited"`
	Feasible  int     `json:"feasible"` // nodes that the pod fitted on; 0 if that is not known
	Node      string  `json:"node"`
	Score     float64 `json:"score"` // higher is better; comparable within a decision
	// RunnerUp is the best other node; empty if there is none, or its score is not comparable.
	RunnerUp      string  `json:"runnerUp,omitempty"`
	RunnerUpScore float64 `json:"runnerUpScore,omitempty"`
	Note          string  `json:"note,omitempty"` // such as the reason of a fallback, or the default profile's choice
}

// Table is anything else that the report shows as a table.
type Table struct {
	Scenario string     `json:"scenario,omitempty"`
	Title    string     `json:"title"`
	Text     string     `json:"text,omitempty"` // a paragraph above the table
	Columns  []string   `json:"columns"`
	Rows     [][]string `json:"rows"`
}

func (Scenario) file() string   { return "scenarios.jsonl" }
func (Verdict) file() string    { return "verdicts.jsonl" }
func (Episode) file() string    { return "episodes.jsonl" }
func (Difference) file() string { return "differences.jsonl" }
func (Frame) file() string      { return "frames.jsonl" }
func (Waits) file() string      { return "waits.jsonl" }
func (Decision) file() string   { return "decisions.jsonl" }
func (Table) file() string      { return "tables.jsonl" }

func (s Scenario) check() error   { return named("name", s.Name) }
func (v Verdict) check() error    { return named("text", v.Text) }
func (e Episode) check() error    { return named("contender", e.Contender) }
func (d Difference) check() error { return named("metric", d.Metric) }
func (f Frame) check() error      { return named("contender", f.Contender) }
func (d Decision) check() error   { return named("pod", d.Pod) }

func (w Waits) check() error {
	if n := len(w.Quantiles); n != 0 && n != len(Quantiles) {
		return fmt.Errorf("%d quantiles, want %d", n, len(Quantiles))
	}
	return named("class", w.Class)
}

func (t Table) check() error {
	for i, r := range t.Rows {
		if len(r) != len(t.Columns) {
			return fmt.Errorf("row %d has %d cells, and there are %d columns", i+1, len(r), len(t.Columns))
		}
	}
	return named("title", t.Title)
}

func named(field, value string) error {
	if value == "" {
		return fmt.Errorf("%s is missing", field)
	}
	return nil
}
