package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// On a terminal, progress is one line that does not wrap. A new phase is a log line.
func TestBar(t *testing.T) {
	var screen, lines bytes.Buffer
	v := NewBar(&screen, true, zerolog.New(&lines))
	for range 3 {
		v.Show(0.5, "a", strings.Repeat("long ", 100))
	}
	v.Show(1, "b", "short")
	v.Close()
	for drawn := range strings.SplitSeq(screen.String(), "\r") {
		if len([]rune(drawn)) > 100 { // 80 columns and the codes that draw over the line
			t.Errorf("too wide: %q", drawn)
		}
	}
	if strings.Contains(screen.String(), "\n") || strings.Count(lines.String(), "\n") != 2 {
		t.Errorf("screen %q, lines %q", screen.String(), lines.String())
	}
}

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
