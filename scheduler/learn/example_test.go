package learn_test

import (
	"fmt"

	"gnnsched/scheduler/learn"
)

// A file holds what differs from the variant's defaults.
func ExampleReadJob() {
	job, err := learn.ReadJob("my.yaml", []byte(`
variant: acdqn
steps: 200000
environment: {scenario: mixed, load: {min: 0.5, max: 0.95}}
`), "gnn")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("steps:", job.Steps, "environments:", job.PPO.Envs)
	fmt.Println("network:", job.Architecture().Encoder, job.Architecture().Head)

	_, err = learn.ReadJob("my.yaml", []byte("gamma: 2"), "gnn")
	fmt.Println(err)
	// Output:
	// steps: 200000 environments: 32
	// network: mlp actor-critic
	// my.yaml: gamma is 2, want 0 to 1
}
