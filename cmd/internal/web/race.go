package web

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/utils/clock"

	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/contender"
	"gnnsched/scheduler/objective"
)

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
