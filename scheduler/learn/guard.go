package learn

import (
	"encoding/json"
	"errors"
	"fmt"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/graph"
	"gnnsched/gnn/infer"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/neural"
)

// Guard keeps networks from a scheduler that learns while it works: those that are not finite,
// or give scores that are not for states that the scheduler has seen lately, and those that do
// worse on held-out simulated episodes than the best that passed before, by more than a
// tolerance. The simulator is not the cluster: the tolerance leaves room for what is right there
// alone. The zero value looks at finiteness alone.
type Guard struct {
	Held        *HeldOut // nil for none
	Unscheduled float64  // weight of pods left over, as of Score.Total
	Tolerance   float64  // in units of the default scoring's total on the same episodes

	standing
}

// standing is what networks are compared with.
type standing struct {
	Key     string  // the episodes, as JSON
	Default float64 // total of kube-scheduler's default scoring
	Best    float64 // lowest total so far
}

// begin takes the network that learning starts from for the best so far, unless another on the same
// episodes is known.
func (g *Guard) begin(c *checkpoint.Checkpoint) error {
	if g.Held == nil {
		return nil
	}
	key, err := json.Marshal([]any{g.Held.env.Config(), g.Held.seeds, g.Unscheduled})
	if err != nil {
		return fmt.Errorf("guard: %w", err)
	}
	if string(key) == g.Key {
		return nil
	}
	s, err := g.Held.Evaluate(heuristic.Kubernetes{}, true)
	if err != nil {
		return fmt.Errorf("guard: %w", err)
	}
	net, err := infer.New(c)
	if err != nil {
		return err
	}
	own, err := g.Held.Evaluate(neural.New("start", net), false)
	if err != nil {
		return fmt.Errorf("guard: %w", err)
	}
	g.standing = standing{Key: string(key), Default: s.Total(g.Unscheduled), Best: own.Total(g.Unscheduled)}
	return nil
}

// judge returns why a network must not pass, nil if it may, and its total on the episodes.
func (g *Guard) judge(c *checkpoint.Checkpoint, recent []*graph.Graph) (total float64, fault, err error) {
	net, err := infer.New(c)
	if err != nil { // NaN or infinity among the weights
		return 0, err, nil
	}
	session := net.NewSession()
	for _, s := range recent {
		if _, err := session.Score(s, nil); err != nil {
			return 0, fmt.Errorf("on a state that the scheduler saw: %w", err), nil
		}
	}
	if g.Held == nil {
		return 0, nil, nil
	}
	s, err := g.Held.Evaluate(neural.New("learning", net), false)
	if errors.Is(err, infer.ErrNaN) {
		return 0, err, nil
	}
	if err != nil {
		return 0, nil, err
	}
	total = s.Total(g.Unscheduled)
	if most := g.Best + g.Tolerance*g.Default; !(total <= most) {
		return total, fmt.Errorf("its score on held-out episodes is %.4f, over %.4f (the best so far has %.4f, the default scoring %.4f)", total, most, g.Best, g.Default), nil
	}
	g.Best = min(g.Best, total)
	return total, nil, nil
}
