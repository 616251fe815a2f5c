package view

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
		st := newStyles(Look{Color: rapid.Bool().Draw(t, "color")})
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
			n := float64(strings.Count(s, "━")) + float64(strings.Count(s, "╸"))/2
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

// A name that is cut keeps its end, by which the pods of a workload differ.
func TestFitMiddle(t *testing.T) {
	st := newStyles(Look{})
	for _, c := range []struct {
		name  string
		width int
		want  string
	}{
		{"shop/valiant-maple-6f7c9d8b5-gcjkv", 34, "shop/valiant-maple-6f7c9d8b5-gcjkv"},
		{"shop/valiant-maple-6f7c9d8b5-gcjkv", 24, "shop/valiant-maple…gcjkv"},
		{"gnnsched-sim/valiant-maple-6f7c9d8b5-gcjkv", 24, "gnnsched-sim/valia…gcjkv"},
		{"name/without.dashes.but.very.long", 20, "name/with….very.long"},
		{"short/", 8, "short/  "},
	} {
		if got := st.fitMiddle(c.name, c.width); got != c.want {
			t.Errorf("%s in %d: %q, want %q", c.name, c.width, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		s, width := rapid.StringMatching(`[a-zé世/-]{0,40}`).Draw(t, "name"), rapid.IntRange(0, 50).Draw(t, "width")
		st := newStyles(Look{})
		if got := st.fitMiddle(s, width); ansi.StringWidth(got) != width {
			t.Fatalf("%q in %d cells is %q", s, width, got)
		}
	})
}
