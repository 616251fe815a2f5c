package sim_test

import (
	"slices"
	"testing"

	"gnnsched/internal/fatal"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/sim"
)

// BenchmarkUsage compares steps of the scenarios with usage, as they are and with longer ticks, with steps of the
// same scenario without usage, in one run.
func BenchmarkUsage(b *testing.B) {
	for _, name := range []string{"harvest", "blind"} {
		s, err := eval.Find(name)
		fatal.If(b, err)
		without := s.Config
		without.Usage, without.Objective = nil, objective.Mix{{Term: objective.Balance{}, Weight: 1}}
		without.Shapes = slices.Clone(without.Shapes)
		for i := range without.Shapes {
			without.Shapes[i].Usage = nil
		}
		b.Run(name+"/without", func(b *testing.B) { benchmarkSteps(b, without) })
		b.Run(name+"/with", func(b *testing.B) { benchmarkSteps(b, s.Config) })
		long, usage := s.Config, *s.Usage
		usage.Tick = 300
		long.Usage = &usage
		b.Run(name+"/tick=300", func(b *testing.B) { benchmarkSteps(b, long) })
	}
}

func benchmarkSteps(b *testing.B, c sim.Config) {
	e, err := sim.New(c)
	fatal.If(b, err)
	steps := 0
	for seed := uint64(0); b.Loop(); seed++ { // whole episodes: the fill has no usage
		fatal.If(b, e.Reset(seed))
		for ; !e.Done(); steps++ {
			e.Step(steps % len(e.Candidates()))
		}
	}
	b.ReportMetric(float64(steps)/b.Elapsed().Seconds(), "steps/s")
}
