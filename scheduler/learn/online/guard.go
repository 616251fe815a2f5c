package online

import (
	"encoding/json"
	"errors"
	"fmt"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/graph"
	"gnnsched/gnn/infer"
	"gnnsched/scheduler/learn/run"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/neural"
)

// Guard refuses networks that a running scheduler must not get: those with weights that are not
// finite, those with scores that are not finite on the scheduler's latest states, and those that
// do worse on held-out episodes in the simulator than the best that passed before, by more than a
// tolerance. The simulator is not the cluster: a network that is better for the cluster may score worse
// here, and the tolerance lets it pass. The zero value checks for finite numbers only.
type Guard struct {
	HeldOut     *run.HeldOut // nil for none
	Unscheduled float64      // weight of pods left over, as in run.Score.Total
	Tolerance   float64      // as a multiple of the default scoring's total on the same episodes

	standing
}

// standing holds the scores that a new network is compared with. It is part of the state file.
type standing struct {
	Key     string  // the episodes, as JSON
	Default float64 // total of kube-scheduler's default scoring
	Best    float64 // lowest total so far
}

// begin takes the network that learning starts from as the best so far, unless a best network on
// the same episodes is known.
func (g *Guard) begin(c *checkpoint.Checkpoint) error {
	if g.HeldOut == nil {
		return nil
	}
	config, episodes := g.HeldOut.Episodes()
	key, err := json.Marshal([]any{config, episodes, g.Unscheduled})
	if err != nil {
		return fmt.Errorf("guard: %w", err)
	}
	if string(key) == g.Key {
		return nil
	}
	s, err := g.HeldOut.Evaluate(heuristic.Kubernetes{}, true)
	if err != nil {
		return fmt.Errorf("guard: %w", err)
	}
	net, err := infer.New(c)
	if err != nil {
		return err
	}
	own, err := g.HeldOut.Evaluate(neural.New("start", net), false)
	if err != nil {
		return fmt.Errorf("guard: %w", err)
	}
	g.standing = standing{Key: string(key), Default: s.Total(g.Unscheduled), Best: own.Total(g.Unscheduled)}
	return nil
}

// judge returns a network's total on the held-out episodes, and the reason why it must not pass;
// nil if it may. recent are the scheduler's latest states.
func (g *Guard) judge(c *checkpoint.Checkpoint, recent []*graph.Graph) (total float64, fault, err error) {
	net, err := infer.New(c)
	if err != nil { // a weight is not finite
		return 0, err, nil
	}
	session := net.NewSession()
	for _, s := range recent {
		if _, err := session.Score(s, nil); err != nil {
			return 0, fmt.Errorf("on a state that the scheduler saw: %w", err), nil
		}
	}
	if g.HeldOut == nil {
		return 0, nil, nil
	}
	s, err := g.HeldOut.Evaluate(neural.New("learning", net), false)
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
