package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"k8s.io/utils/clock"

	"gnnsched/cmd/internal/explain"
	"gnnsched/cmd/internal/top/state"
	"gnnsched/scheduler/decision"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/contender"
	"gnnsched/scheduler/objective"
)

// The rows of an answer are bounded, as the page shows them.
const (
	mostPods      = 1000
	mostDecisions = 50   // of a node
	searched      = 3000 // number of recent decisions searched for a node's
	mostEvents    = 500
	mostPlaced    = 20  // schedulers
	lastPlaced    = 100 // pods of each
	maxName       = 253
)

// list is an answer with a part of all rows.
type list[Row any] struct {
	Rows  []Row  `json:"rows"`
	Total int    `json:"total"`
	Error string `json:"error,omitempty"` // why there are no newer ones
}

// listOf returns at most most rows of all.
func listOf[In, Row any](all []In, most int, of func(*In) Row) list[Row] {
	out := list[Row]{Rows: []Row{}, Total: len(all)}
	for i := range all[:min(len(all), most)] {
		out.Rows = append(out.Rows, of(&all[i]))
	}
	return out
}

// pod is a pod on a node.
type pod struct {
	Pod       string    `json:"pod"`
	Workload  string    `json:"workload"`
	Scheduler string    `json:"scheduler"`
	CPU       int64     `json:"cpu"`
	Memory    int64     `json:"memory"`
	GPU       int64     `json:"gpu"`
	Devices   []int     `json:"devices,omitempty"`
	Created   time.Time `json:"created"`
}

// card is a GPU of a node.
type card struct {
	Name       string       `json:"name"`
	Partitions bool         `json:"partitions,omitempty"`
	Requested  int64        `json:"requested"`         // thousandths
	Unnamed    int64        `json:"unnamed,omitempty"` // of these, by pods that name no device
	Parts      []state.Part `json:"parts"`
	More       int          `json:"more,omitempty"` // parts that are not listed
}

// node answers with a node's pods and the last decisions for it.
func (s *server) node(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("name")
	if name == "" || len(name) > maxName {
		http.Error(w, "name a node", http.StatusBadRequest)
		return
	}
	s.ask(w, r, state.Ask{Node: name}, func(d state.Details) any {
		var chosen []decision.Record
		if s.config.Book != nil {
			last, _ := s.config.Book.After(0, searched)
			for _, r := range last {
				if r.Node == name && len(chosen) < mostDecisions {
					chosen = append(chosen, r)
				}
			}
		}
		return struct {
			Pods      list[pod]         `json:"pods"`
			Decisions []json.RawMessage `json:"decisions"`
			Cards     []card            `json:"cards"`
		}{listOf(d.Pods, mostPods, podOf), plain(chosen), cardsOf(d.Cards, mostPods)}
	})
}

// cardsOf lists at most most parts of each GPU.
func cardsOf(all []state.Card, most int) []card {
	out := make([]card, len(all))
	for i, c := range all {
		shown := min(len(c.Parts), most)
		out[i] = card{
			Name: c.Name, Partitions: c.Partitions, Requested: c.Milli, Unnamed: c.Unnamed,
			Parts: append([]state.Part{}, c.Parts[:shown]...), More: len(c.Parts) - shown,
		}
	}
	return out
}

func podOf(p *state.ListedPod) pod {
	out := pod{
		Pod: p.Namespace + "/" + p.Name, Workload: p.Workload, Scheduler: p.Scheduler, CPU: p.CPU, Memory: p.Memory, GPU: p.GPU,
		Created: p.Created.UTC(),
	}
	for i := range 64 {
		if p.Devices.Has(i) {
			out.Devices = append(out.Devices, i)
		}
	}
	return out
}

// placed holds the pods that a scheduler has bound, as the API server lists them.
type placed struct {
	Scheduler string            `json:"scheduler"`
	Bound     int               `json:"bound"`
	Nodes     int               `json:"nodes"`
	Most      int               `json:"most"` // pods on the node with the most
	Last      []json.RawMessage `json:"last"` // the pods that were bound last, as decisions
}

// placements answers with each scheduler's bound pods, also for schedulers of other processes.
func (s *server) placements(w http.ResponseWriter, r *http.Request) {
	s.ask(w, r, state.Ask{Placed: true}, func(d state.Details) any {
		return listOf(d.Placed, mostPlaced, func(p *state.Placed) placed {
			last := make([]decision.Record, min(len(p.Last), lastPlaced))
			for i := range last {
				last[i] = p.Last[i].Record
			}
			return placed{p.Scheduler, p.Bound, p.Nodes, p.Most, plain(last)}
		})
	})
}

// events answers with the cluster's newest events.
func (s *server) events(w http.ResponseWriter, r *http.Request) {
	s.ask(w, r, state.Ask{Events: true}, func(d state.Details) any {
		out := listOf(d.Events, mostEvents, func(e *state.Event) state.Event {
			utc := *e
			utc.Time = e.Time.UTC()
			return utc
		})
		if d.EventsErr != nil {
			out.Error = state.Printable(d.EventsErr.Error())
		}
		return out
	})
}

// ask answers with details of the cluster, one request at a time: some need a walk over all pods.
func (s *server) ask(w http.ResponseWriter, r *http.Request, what state.Ask, answer func(state.Details) any) {
	src := s.source.Load()
	if src == nil {
		http.Error(w, "the cluster is not read yet", http.StatusServiceUnavailable)
		return
	}
	s.answer(w, r, func() (any, error) { return answer((*src).Details(what)), nil })
}

// answer writes what work returns, one work at a time, or status 404 with its error. A client that reads slowly makes no other wait.
func (s *server) answer(w http.ResponseWriter, r *http.Request, work func() (any, error)) {
	select {
	case s.asking <- struct{}{}:
	case <-r.Context().Done():
		return
	}
	v, err := func() (any, error) {
		defer func() { <-s.asking }() // also if work panics
		return work()
	}()
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	respond(w, v)
}

// decision says in words why a pod got its node, as `gnnsched explain` does.
func (s *server) decision(w http.ResponseWriter, r *http.Request) {
	uid := r.URL.Query().Get("uid")
	if s.config.Book == nil || uid == "" || len(uid) > maxName {
		http.Error(w, "name a pod by its uid", http.StatusBadRequest)
		return
	}
	s.answer(w, r, func() (any, error) {
		found := s.config.Book.Last(decision.Query{UID: uid})
		at := slices.IndexFunc(found, func(d decision.Record) bool { return d.Time.Format(time.RFC3339Nano) == r.URL.Query().Get("time") })
		if at < 0 {
			return nil, errors.New("the scheduler does not keep this decision any more")
		}
		return reason{s.why(found[at])}, nil
	})
}

// reason is the answer to why a pod got its node.
type reason struct {
	Why string `json:"why"`
}

// why explains a decision.
func (s *server) why(r decision.Record) string {
	var text bytes.Buffer
	if explain.Write(&text, r, s.config.Checkpoint) != nil { // the file has other weights by now
		text.Reset()
		if err := explain.Write(&text, r, ""); err != nil {
			return state.Printable(err.Error())
		}
	}
	return text.String()
}

func respond(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client may have gone
}

// publishUsage publishes the measurements of the scheduler's sources of usage, if it has any.
func (s *server) publishUsage() {
	if s.config.Usage == nil {
		return
	}
	if reports := s.config.Usage(); len(reports) > 0 {
		s.tell(topicUsage, reports)
	}
}

// The rows of the page that has ktop's filter.
const (
	mostPending = 1000
	mostCauses  = 100
	maxFilter   = 1000 // bytes
)

// filterOf returns the filter of a request. It answers a too long filter with status 400.
func filterOf(w http.ResponseWriter, r *http.Request) (text string, ok bool) {
	text = r.URL.Query().Get("filter")
	if len(text) > maxFilter {
		http.Error(w, fmt.Sprintf("the filter has %d bytes, more than %d; shorten it", len(text), maxFilter), http.StatusBadRequest)
		return "", false
	}
	return text, true
}

// pendingPods answers with the pending pods that pass a filter, the oldest first, and with the reasons why they wait.
func (s *server) pendingPods(w http.ResponseWriter, r *http.Request) {
	f, ok := filterOf(w, r)
	if !ok {
		return
	}
	s.ask(w, r, state.Ask{Pending: true}, func(d state.Details) any {
		found := state.Select(d.Pending, f, (*state.PendingPod).Texts)
		return struct {
			Pods   list[pending]     `json:"pods"`
			Causes list[state.Cause] `json:"causes"`
			All    int               `json:"all"` // without the filter
		}{
			listOf(found, mostPending, pendingOf),
			listOf(state.CausesOf(found), mostCauses, func(c *state.Cause) state.Cause { return *c }),
			len(d.Pending),
		}
	})
}

// Race is how contenders fare that place the same arrivals at the same time, each on a cluster of its own.
type Race struct {
	Arrivals int         `json:"arrivals"` // in all
	Sides    []Side      `json:"sides"`
	First    *Difference `json:"first"` // nil before it
}

// Side is a contender of a race.
type Side struct {
	Name    string       `json:"name"`
	Steps   [][3]float64 `json:"steps"` // after each decision: the arrivals so far, the cost, the waiting pods
	Mean    float64      `json:"mean"`  // cost of the steps
	Waiting []Waiting    `json:"waiting"`
	Done    bool         `json:"done"`
}

// Waiting is a pod that fits on no node now.
type Waiting struct {
	Pod    string `json:"pod"`
	CPU    int64  `json:"cpu"`
	Memory int64  `json:"memory"`
}

// Difference is the first decision of a learned scheduler for which the default scheduler prefers another node in the same state.
type Difference struct {
	Decision int    `json:"decision"` // from 1
	Pod      string `json:"pod"`
	Node     string `json:"node"`
	Other    string `json:"other"`   // the default scheduler's
	Sandbox  string `json:"sandbox"` // where the page's sandbox shows it
}

// Contest returns an episode that the sandbox can play too, and where a learned scheduler and the default scheduler differ first in it; nil
// for nowhere.
func Contest(seed uint64, learned string) (eval.Scenario, *Difference, error) {
	const load, turnover = 95, 1
	r := runRequest{
		Nodes: []podGroup{{Count: 6, CPU: 16, Memory: 64}, {Count: 3, CPU: 32, Memory: 128}, {Count: 1, CPU: 64, Memory: 256}}, // the form's
		Pods:  "mixed", Load: load / 100., Turnover: turnover, Seed: seed, Objective: map[string]float64{"balance": 1},
		Policy: learned, Other: contender.Kubernetes,
	}
	c, err := r.config()
	if err != nil {
		return eval.Scenario{}, nil, err
	}
	if c.Objective, err = objective.Parse("waiting"); err != nil { // that gnn learned
		return eval.Scenario{}, nil, err
	}
	d, err := r.difference()
	if d != nil {
		d.Sandbox = fmt.Sprintf("#sandbox/policy=%s&load=%d&turnover=%d&seed=%d&at=%d", learned, load, turnover, seed, d.Decision)
	}
	return eval.Scenario{Name: "race", About: "the sandbox's nodes and pods", Config: c}, d, err
}

// difference plays until each of the policies prefers another node, and not only draws it among equals.
func (r runRequest) difference() (*Difference, error) {
	x, err := r.begin(context.Background(), newPace(clock.RealClock{}))
	if err != nil {
		return nil, err
	}
	nodes := x.start().Nodes
	for k := 1; !x.own.env.Done(); k++ {
		s, err := x.step()
		if err != nil {
			return nil, err
		}
		own, other := slices.Index(s.Rows, s.Node), slices.Index(s.Rows, s.Other)
		if *s.Scores[own] != *s.Scores[other] && *s.OtherScores[own] != *s.OtherScores[other] {
			return &Difference{Decision: k, Pod: s.Pod, Node: nodes[s.Node].Name, Other: nodes[s.Other].Name}, nil
		}
	}
	return nil, nil
}
