//go:build torch

package value

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"
)

// A trainer waits until the one before it has written what it learned, and gives up after a while.
func TestLock(t *testing.T) {
	weights := filepath.Join(t.TempDir(), "w.safetensors")
	unlock, err := Lock(t.Context(), weights, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(t.Context(), weights, 2*lockAgain); !errors.Is(err, ErrLocked) {
		t.Errorf("a second trainer: %v, want %v", err, ErrLocked)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if _, err := Lock(stopped, weights, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("a trainer that is told to stop: %v", err)
	}
	time.AfterFunc(2*lockAgain, unlock)
	if _, err := Lock(t.Context(), weights, time.Minute); err != nil {
		t.Errorf("after the first has ended: %v", err)
	}
	if _, err := Lock(t.Context(), filepath.Join(weights, "none"), 0); err == nil || errors.Is(err, ErrLocked) {
		t.Errorf("no such directory: %v", err)
	}
}
