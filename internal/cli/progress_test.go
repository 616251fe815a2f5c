package cli

import (
	"bytes"
	"strings"
	"testing"

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
