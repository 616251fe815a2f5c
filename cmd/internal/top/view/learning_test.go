package view

import (
	"math"

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
