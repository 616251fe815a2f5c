//go:build torch

package value

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/scheduler/experience"
	"gnnsched/scheduler/policy/neural"
)

// Guard refuses networks that a running scheduler must not get: those with weights that are not
// finite, those with scores that are not finite in trial decisions or on the scheduler's latest states, and those that
// do worse on held-out episodes in the simulator than the best that passed before, by more than a
// tolerance. The simulator is not the cluster: a network that is better for the cluster may score worse
// here, and the tolerance lets it pass. The zero value checks for finite numbers only.
type Guard struct {
	Exam      Exam    // nil for none
	Tolerance float64 // as a share of the best total so far
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
	Key() string
	// Total returns a network's total. The error wraps infer.ErrNaN if a score is not finite.
	Total(c *checkpoint.Checkpoint) (float64, error)
}

// NewExam returns the held-out episodes of a configuration for kinds, so many of them. A network's total is how much waits, over that
// under the rule price, as in training.
func NewExam(c Config, episodes int) (Exam, error) {
	c.EvaluateWorkloads = episodes
	c.Trace = "" // it may lie on another machine
	e, err := newKindTask(c)
	if err != nil {
		return nil, err
	}
	return e, e.hold()
}

// Key implements Exam.
func (c *kindTask) Key() string { return fmt.Sprint(c.config.Scenarios, c.config.EvaluateWorkloads) }

// Total implements Exam.
func (c *kindTask) Total(k *checkpoint.Checkpoint) (float64, error) {
	net, err := infer.New(k)
	if err != nil {
		return 0, err
	}
	e, err := c.evaluate(net)
	return e.Total, err
}

// standing holds the scores that a new network is compared with. It is part of the state file.
type standing struct {
	Key  string  // of the episodes
	Best float64 // lowest total so far
}

// begin takes the network that the schedulers have as the best so far, unless a best network on the same
// episodes is known.
func (g *Guard) begin(c *checkpoint.Checkpoint) (err error) {
	s := standing{Key: g.Exam.Key()}
	if s.Key == g.Key {
		return nil
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
		return total, fmt.Errorf("its score on held-out episodes is %.4f, over %.4f (the best so far has %.4f)", total, g.most, g.Best), nil
	}
	g.Best = min(g.Best, total)
	return total, nil, nil
}

// limit returns the total over which a network is refused.
func (g *Guard) limit() float64 { return g.Best * (1 + g.Tolerance) }

// finite returns an error if a weight is not finite, or a score in a trial decision, or a price of one of the steps' kinds.
func finite(c *checkpoint.Checkpoint, recent []experience.Step) error {
	net, err := infer.New(c)
	if err != nil {
		return fmt.Errorf("a weight is %w: %w", errNotFinite, err)
	}
	if err := neural.Try(c); err != nil {
		return fmt.Errorf("a score is %w: %w", errNotFinite, err)
	}
	for _, s := range recent {
		if _, err := neural.KindPrices(net, seenOf(s), s.Cluster); err != nil {
			return fmt.Errorf("a price is %w on a state that the scheduler saw: %w", errNotFinite, err)
		}
	}
	return nil
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
