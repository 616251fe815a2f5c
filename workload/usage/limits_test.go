package usage

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParseLimits(t *testing.T) {
	for text, want := range map[string]Limits{
		`{}`: {}, `{"network": "1250M"}`: {Network: 1.25e9}, `{"network": 1e9, "disk": "500Mi"}`: {Network: 1e9, Disk: 500 << 20},
	} {
		if got, err := ParseLimits(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		``: "unexpected end", `{"network": "fast"}`: "limits.network: \"fast\" is not an amount",
		`{"disk": -1}`:      "limits.disk: -1 is not 0 to 1e+12",
		`{"network": 2e12}`: "limits.network", `{"disc": 1}`: "unknown field", `{"disk": "` + strings.Repeat("9", maxLimits): "bytes, more than",
	} {
		if got, err := ParseLimits(text); err == nil || !strings.Contains(err.Error(), want) || got != (Limits{}) {
			t.Errorf("%s: %+v, %v, want %q", text, got, err, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Float64Range(0, maxRate)
		want := Limits{Network: rate.Draw(t, "network"), Disk: rate.Draw(t, "disk")}
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := ParseLimits(string(text)); err != nil || got != want {
			t.Fatalf("%+v, %v, want %+v", got, err, want)
		}
	})
}

func FuzzParseLimits(f *testing.F) {
	f.Add(`{"network": "1250M", "disk": 5e8}`)
	f.Add(`{"network": "1e999"}`)
	f.Fuzz(func(t *testing.T, text string) {
		l, err := ParseLimits(text)
		if err != nil {
			if s := err.Error(); len(s) > 600 || strings.ContainsAny(s, "\x00\x1b\r") {
				t.Fatalf("%q", s)
			}
			return
		}
		checkAmounts(t, l.Amounts())
	})
}
