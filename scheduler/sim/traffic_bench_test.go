package sim_test

import (
	"testing"

	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/objective"
)

// BenchmarkTraffic compares steps of the scenarios with traffic with steps of the same scenarios without it, in one run.
func BenchmarkTraffic(b *testing.B) {
	for _, name := range []string{"traffic", "traffic-racks"} {
		s, err := eval.Find(name)
		if err != nil {
			b.Fatal(err)
		}
		without := s.Config
		without.Traffic, without.Objective = nil, objective.Mix{{Term: objective.Balance{}, Weight: 1}}
		b.Run(name+"/without", func(b *testing.B) { benchmarkSteps(b, without) })
		b.Run(name+"/with", func(b *testing.B) { benchmarkSteps(b, s.Config) })
	}
}
