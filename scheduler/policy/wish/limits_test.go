package wish

import (
	"math"
	"strings"
	"testing"

	"gnnsched/gnn/feature"
)

func TestLimits(t *testing.T) {
	l, err := ParseLimits("balance=0.5:1, energy=0:0.5")
	if err != nil {
		t.Fatal(err)
	}
	for w, allowed := range map[feature.Wishes]bool{
		{1, 0, 0}: true, {0.5, 0.5, 0}: true, {0.49, 0.51, 0}: false, {0, 1, 0}: false, {0.9, 0, 0.1}: false,
	} {
		if err := l.Check(w); (err == nil) != allowed {
			t.Errorf("%v: %v", w, err)
		}
	}
	nan := float32(math.NaN())
	if l.Check(feature.Wishes{nan, nan, nan}) == nil {
		t.Error("shares that are no numbers are within the limits")
	}
	for text, want := range map[string]string{
		"": "no term", "luck=0:1": `"luck" is no term`, "balance=0:1,balance=0:1": "named twice", "balance": "no range", "balance=1": "no range",
		"balance=1:0": "no range", "balance=0:2": "no range", "balance=-1:1": "no range", "balance=NaN:1": "no range",
		"balance=0:0.4,energy=0:0.5": "no objective has such shares", "balance=0.6:1,energy=0.6:1": "no objective has such shares",
	} {
		if _, err := ParseLimits(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
