package online

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

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
