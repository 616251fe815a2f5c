package view

import (
	"math"
	"testing"
	"time"
)

// The curve of a growing value goes from the lowest to the highest sign, and unknown values are spaces.
func TestCurve(t *testing.T) {
	for want, values := range map[string][]float64{
		" ▁▂▃▄▅▆▇█": {math.NaN(), 0, 1, 2, 3, 4, 5, 6, 7}, "▁▁": {5, 5}, "█▁": {3, -1}, "": nil,
	} {
		_, low, high := binned(values, 9)
		if got := curve(values, low, high); got != want {
			t.Errorf("%v is %q, want %q", values, got, want)
		}
	}
}

// The cells of a curve hold the mean of their values; the oldest may have fewer.
func TestBinned(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		values    []float64
		n         int
		want      []float64
		low, high float64
	}{
		{[]float64{1, 2, 3}, 3, []float64{1, 2, 3}, 1, 3},
		{[]float64{1, 2, 3}, 9, []float64{1, 2, 3}, 1, 3},
		{[]float64{1, 2, 3, 4}, 2, []float64{1.5, 3.5}, 1.5, 3.5},
		{[]float64{9, 1, 2, 3, 5}, 3, []float64{9, 1.5, 4}, 1.5, 9},
		{[]float64{nan, nan, 3, nan}, 2, []float64{nan, 3}, 3, 3},
	} {
		got, low, high := binned(c.values, c.n)
		same := len(got) == len(c.want) && low == c.low && high == c.high
		for i := range got {
			same = same && (got[i] == c.want[i] || math.IsNaN(got[i]) && math.IsNaN(c.want[i]))
		}
		if !same {
			t.Errorf("%v in %d: %v from %v to %v, want %v", c.values, c.n, got, low, high, c.want)
		}
	}
}

// The time that curves cover has no zeros at its end, and keeps its units.
func TestShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 50 * time.Second: "50s", time.Minute: "1m", 90 * time.Second: "1m30s", 10 * time.Minute: "10m",
		24*time.Minute + 50*time.Second: "24m50s",
		time.Hour:                       "1h", 100 * time.Minute: "1h40m", time.Hour + 10*time.Second: "1h0m10s", 2 * time.Hour: "2h",
		10 * time.Hour: "10h",
	} {
		if got := short(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}
