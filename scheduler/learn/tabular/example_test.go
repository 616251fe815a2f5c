package tabular_test

import (
	"context"
	"fmt"
	"math/rand/v2"

	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/learn/tabular"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/sim"
)

// An agent learns to place pods on small clusters, and is compared with random placement on an episode
// that it has not seen.
func Example() {
	scenario, err := eval.Find("small8")
	if err != nil {
		fmt.Println(err)
		return
	}
	env, err := sim.New(scenario.Config)
	if err != nil {
		fmt.Println(err)
		return
	}
	config := tabular.DefaultConfig()
	config.Steps = 20_000
	agent, err := tabular.Train(context.Background(), env, config)
	if err != nil {
		fmt.Println(err)
		return
	}

	const unseen = 42 // seed of the episode
	rng := rand.New(rand.NewPCG(1, 2))
	learned, err := eval.Play(env, unseen, agent, rng) // rng breaks ties
	if err != nil {
		fmt.Println(err)
		return
	}
	random, err := eval.Play(env, unseen, heuristic.NewRandom(rng), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(agent.Name(), "costs less than random placement:", learned.Cost < random.Cost)
	// Output: tabular-q costs less than random placement: true
}
