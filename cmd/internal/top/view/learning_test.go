package view

import (
	"math"
	"testing"
	"time"

	"gnnsched/cmd/internal/top/state"
	"gnnsched/scheduler/plugin/learningcurve"
)

// learned is n samples, every 10 s, of profiles that learn. The trainer reports from the sixth sample on.
func learned(n int, profiles ...string) learningcurve.Samples {
	s := learningcurve.Samples{Profiles: map[string]map[string]learningcurve.Column{}}
	for i := range n {
		s.Times = append(s.Times, noon.Unix()-int64(10*(n-1-i)))
	}
	for k, profile := range profiles {
		columns := map[string]learningcurve.Column{}
		s.Profiles[profile] = columns
		add := func(name string, from int, value func(i float64) float64) {
			for i := range n {
				v := math.NaN()
				if i >= from {
					v = value(float64(i + 40*k))
				}
				columns[name] = append(columns[name], v)
			}
		}
		add("sent", 0, func(i float64) float64 { return math.Floor(80*i + 200*math.Sin(i/9)) })
		add("dropped", 0, func(i float64) float64 { return math.Floor(max(i-50, 0) / 4) })
		add("unbound", 0, func(float64) float64 { return 0 })
		add("overruled", 0, func(i float64) float64 { return math.Floor(i / 7) })
		add("explored", 0, func(i float64) float64 { return math.Floor(60 * (1 - math.Exp(-i/40))) })
		add("epsilon", 0, func(i float64) float64 { return 0.1*math.Exp(-i/40) + 0.01 })
		add("waited", 0, func(i float64) float64 { return math.Floor(i / 20) })
		add("loads", 0, func(i float64) float64 { return 1 + math.Floor(i/10) })
		add("restarts", 0, func(i float64) float64 { return math.Floor(i / 100) })
		if n < 6 {
			continue
		}
		add("read", 6, func(i float64) float64 { return 80 * i })
		add("updates", 6, func(i float64) float64 { return 20 * (i - 5) })
		add("passed", 6, func(i float64) float64 { return math.Floor(i / 12) })
		add("refused", 6, func(i float64) float64 { return math.Floor(i / 50) })
		add("stale", 6, func(float64) float64 { return 0 })
		add("missing", 6, func(float64) float64 { return 3 })
		add("cost", 6, func(i float64) float64 { return 0.05 + 0.2*math.Exp(-i/60) + 0.01*math.Sin(i/3) })
		add("reward", 6, func(i float64) float64 { return -0.02 + 0.0001*i })
		add("loss", 6, func(i float64) float64 { return 0.4*math.Exp(-i/30) + 0.002*math.Cos(i) })
		add("gradient_norm", 6, func(i float64) float64 { return 3 * math.Exp(-i/80) })
		add("score", 12, func(i float64) float64 { return 1.2 - i/400 })
		add("score_limit", 12, func(i float64) float64 { return 1.25 - i/400 })
	}
	return s
}

// teaching gives a view a scheduler's samples of learning.
func teaching(s learningcurve.Samples, err error) func(*Config, *state.Frame) {
	return func(cfg *Config, _ *state.Frame) {
		cfg.Details = func(state.Ask) state.Details { return state.Details{Learning: s, LearningErr: err} }
	}
}

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
