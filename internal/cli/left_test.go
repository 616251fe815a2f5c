package cli

import (
	"testing"
	"time"
)

// The time left follows from the time that the done share took, and is not said too early.
func TestLeft(t *testing.T) {
	at := time.Unix(0, 0)
	l := TimeLeft{now: func() time.Time { return at }}
	for _, c := range []struct {
		after time.Duration // since the last step
		done  float64
		want  string
	}{
		{0, 0, ""}, {time.Second, 0.5, ""}, // too early
		{9 * time.Second, 0.5, ", about 10 s left"}, {90 * time.Second, 0.5, ", about 2 min left"}, {5 * time.Hour, 0.75, ", about 1.7 h left"},
		{time.Second, 1, ""},
	} {
		at = at.Add(c.after)
		if got := l.After(c.done); got != c.want {
			t.Errorf("%v later at %v: %q, want %q", c.after, c.done, got, c.want)
		}
	}
}
