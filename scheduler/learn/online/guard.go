package online

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/scheduler/experience"
	"gnnsched/scheduler/learn/run"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/neural"
)

// Guard refuses networks that a running scheduler must not get: those with weights that are not
// finite, those with scores that are not finite in trial decisions or on the scheduler's latest states, and those that
// do worse on held-out episodes in the simulator than the best that passed before, by more than a
// tolerance. The simulator is not the cluster: a network that is better for the cluster may score worse
// here, and the tolerance lets it pass. The zero value checks for finite numbers only.
type Guard struct {
	Exam      Exam    // nil for none
	Tolerance float64 // as a multiple of the default scoring's total on the same episodes
	// Patience is the number of networks in a row that are refused for their score before learning goes back to
	// the last one that passed; 0 counts as 1. Until then it goes on with what it has learned, while the schedulers keep
	// the last one that passed. A network that is not finite ends this at once: no update mends it.
	Patience int

	standing
	most float64 // total over which the network judged last was refused; 0 without episodes
}

// errNotFinite is the reason for refusing a network that no update mends.
var errNotFinite = errors.New("not finite")

// gone reports whether learning goes back to the last network that passed, after a number of refusals in a row of
// which fault is the latest.
func (g *Guard) gone(refused int, fault error) bool {
	return refused >= max(g.Patience, 1) || errors.Is(fault, errNotFinite)
}

// Exam is a number of held-out episodes in a simulator, the same for every network. It gives totals, less is better.
type Exam interface {
	// Key identifies the episodes.
	Key() (string, error)
	// Default returns the total of kube-scheduler's default scoring.
	Default() (float64, error)
	// Total returns a network's total. The error wraps infer.ErrNaN if a score is not finite.
	Total(c *checkpoint.Checkpoint) (float64, error)
}

// HeldOut is the exam of networks for any cluster, on episodes of a configuration.
type HeldOut struct {
	*run.HeldOut
	Unscheduled float64 // weight of pods left over, as in run.Score.Total
}

// Key implements Exam: it is the episodes as JSON.
func (h HeldOut) Key() (string, error) {
	config, episodes := h.Episodes()
	key, err := json.Marshal([]any{config, episodes, h.Unscheduled})
	return string(key), err
}

// Default implements Exam.
func (h HeldOut) Default() (float64, error) {
	s, err := h.Evaluate(heuristic.Kubernetes{}, true)
	return s.Total(h.Unscheduled), err
}

// Total implements Exam.
func (h HeldOut) Total(c *checkpoint.Checkpoint) (float64, error) {
	net, err := infer.New(c)
	if err != nil {
		return 0, err
	}
	s, err := h.Evaluate(neural.New("learning", net, nil), false)
	return s.Total(h.Unscheduled), err
}

// standing holds the scores that a new network is compared with. It is part of the state file.
type standing struct {
	Key     string  // the episodes, as JSON
	Default float64 // total of kube-scheduler's default scoring
	Best    float64 // lowest total so far
}

// begin takes the network that the schedulers have as the best so far, unless a best network on the same
// episodes is known.
func (g *Guard) begin(c *checkpoint.Checkpoint) error {
	key, err := g.Exam.Key()
	if err != nil || key == g.Key {
		return err
	}
	s := standing{Key: key}
	if s.Default, err = g.Exam.Default(); err != nil {
		return fmt.Errorf("guard: %w", err)
	}
	if s.Best, err = g.Exam.Total(c); err != nil {
		return fmt.Errorf("guard: %w", err)
	}
	g.standing = s
	return nil
}

// judge sets most, and returns a network's total on the held-out episodes, and the reason why it must not pass;
// nil if it may. kept is the network that the schedulers have, recent are their latest steps.
func (g *Guard) judge(c, kept *checkpoint.Checkpoint, recent []experience.Step) (total float64, fault, err error) {
	g.most = 0
	if fault := finite(c, recent); fault != nil {
		return 0, fault, nil
	}
	if g.Exam == nil {
		return 0, nil, nil
	}
	if err := g.begin(kept); err != nil {
		return 0, nil, err
	}
	g.most = g.limit()
	total, err = g.Exam.Total(c)
	if errors.Is(err, infer.ErrNaN) {
		return 0, fmt.Errorf("a score is %w on held-out episodes: %w", errNotFinite, err), nil
	}
	if err != nil {
		return 0, nil, err
	}
	if !(total <= g.most) {
		return total, fmt.Errorf("its score on held-out episodes is %.4f, over %.4f (the best so far has %.4f, the default scoring %.4f)",
			total, g.most, g.Best, g.Default), nil
	}
	g.Best = min(g.Best, total)
	return total, nil, nil
}

// limit returns the total over which a network is refused.
func (g *Guard) limit() float64 { return g.Best + g.Tolerance*g.Default }

// finite returns an error if a weight is not finite, or a score in a trial decision or on one of the steps' states.
func finite(c *checkpoint.Checkpoint, recent []experience.Step) error {
	score, err := scorer(c)
	if err != nil {
		return fmt.Errorf("a weight is %w: %w", errNotFinite, err)
	}
	if err := neural.Try(c); err != nil {
		return fmt.Errorf("a score is %w: %w", errNotFinite, err)
	}
	for _, s := range recent {
		if err := score(s); err != nil {
			return fmt.Errorf("a score is %w on a state that the scheduler saw: %w", errNotFinite, err)
		}
	}
	return nil
}

// scorer returns a function that scores a step's state and returns an error if a score is not finite.
func scorer(c *checkpoint.Checkpoint) (func(experience.Step) error, error) {
	net, err := infer.New(c)
	if err != nil {
		return nil, err
	}
	session := net.NewSession()
	return func(s experience.Step) error {
		_, err := session.Score(s.State, nil)
		return err
	}, nil
}

// lockAgain is the time between two tries to get a lock.
const lockAgain = 100 * time.Millisecond

// ErrLocked is the error of Lock if another trainer keeps the lock.
var ErrLocked = errors.New("another trainer learns into the same file")

// Lock makes this process the only trainer that learns into a file of weights, until unlock is called or
// the process ends. It waits for another trainer, at most for patience: when one scheduler takes over
// from another, the trainer of the first may still write what it has learned. The lock is on a file beside
// the weights, which stays.
func Lock(ctx context.Context, weights string, patience time.Duration) (unlock func(), err error) {
	f, err := os.OpenFile(weights+".online.lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the weights: %w", err)
	}
	limit := time.Now().Add(patience)
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("lock the weights: %w", err), f.Close())
		}
		if time.Now().After(limit) {
			return nil, errors.Join(fmt.Errorf("%s: %w", weights, ErrLocked), f.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), f.Close())
		case <-time.After(lockAgain):
		}
	}
}
