package gpustep

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// A pod counts from its first failure until it has a node, once, and not if nothing was heard of it for long.
func TestWaiting(t *testing.T) {
	var w Waiting
	now := time.Unix(0, 0)
	at := func(minutes int) time.Time { return now.Add(time.Duration(minutes) * time.Minute) }
	w.Failed("a", 8000, now)
	w.Failed("a", 8000, at(4))
	w.Failed("b", 500, at(5))
	w.Failed("no GPU", 0, at(5))
	w.Placed("unknown")
	for _, c := range []struct {
		minutes int
		want    int64
	}{{5, 8500}, {14, 8500}, {16, 500}, {17, 0}} {
		if got := w.Milli(at(c.minutes)); got != c.want {
			t.Errorf("after %d minutes %d wait, want %d", c.minutes, got, c.want)
		}
	}
	w.Failed("a", 1000, at(20))
	w.Placed("a")
	if got := w.Milli(at(20)); got != 0 {
		t.Errorf("%d wait after the pod has its node", got)
	}
	for i := range maxWaiting + 10 {
		w.Failed(types.UID(fmt.Sprint(i)), 1, at(20))
	}
	if got := w.Milli(at(20)); got != maxWaiting {
		t.Errorf("%d pods are tracked, want %d", got, maxWaiting)
	}
}
