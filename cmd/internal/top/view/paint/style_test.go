package paint

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"
)

// TestBar: a bar has the given width and grows with the fraction; only 0 looks empty, and only 1 or
// more looks full.
func TestBar(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		st := New(Look{Color: rapid.Bool().Draw(t, "color"), Unicode: rapid.Bool().Draw(t, "unicode")})
		width := rapid.IntRange(1, 50).Draw(t, "width")
		a, b := rapid.Float64Range(0, 1.5).Draw(t, "a"), rapid.Float64Range(0, 1.5).Draw(t, "b")
		if a > b {
			a, b = b, a
		}
		length := func(f float64) float64 {
			s := ansi.Strip(st.Bar(width, f, false))
			if ansi.StringWidth(s) != width {
				t.Fatalf("%q is not %d wide", s, width)
			}
			n := float64(strings.Count(s, st.full))
			if st.half != "" {
				n += float64(strings.Count(s, st.half)) / 2
			}
			if (n == 0) != (f == 0) && width > 1 || (n == float64(width)) != (f >= 1) && width > 1 {
				t.Fatalf("%v is drawn as %q", f, s)
			}
			return n
		}
		if length(a) > length(b) {
			t.Fatalf("%v is longer than %v", a, b)
		}
	})
}
