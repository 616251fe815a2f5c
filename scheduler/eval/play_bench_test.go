package eval

import (
	"fmt"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/sim"
)

// BenchmarkPlay is how many placements a second a policy makes in the simulator, episodes'
// resets included, on clusters such as hetero80's.
func BenchmarkPlay(b *testing.B) {
	s, err := Find("hetero80")
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"round-robin", "linear", "gnn", "dqn"} {
		for _, nodes := range []int{16, 100, 1000} {
			b.Run(fmt.Sprintf("%s/nodes=%d", name, nodes), func(b *testing.B) {
				c := s.Config
				c.Nodes = sim.Exactly(nodes)
				env, err := sim.New(c)
				if err != nil {
					b.Fatal(err)
				}
				placed := 0
				for i := 0; b.Loop(); i++ {
					o, err := Play(env, uint64(1+i%3), player(b, name), nil)
					if err != nil {
						b.Fatal(err)
					}
					placed += o.Placed
				}
				b.ReportMetric(float64(placed)/b.Elapsed().Seconds(), "placements/s")
			})
		}
	}
}

func player(b *testing.B, name string) policy.Policy {
	if h, err := policy.FindHeuristic(name); err == nil {
		return h.New(1)
	}
	c, err := checkpoint.Shipped(name)
	if err != nil {
		b.Fatal(err)
	}
	net, err := infer.New(c)
	if err != nil {
		b.Fatal(err)
	}
	return policy.NewLearned(name, net)
}
