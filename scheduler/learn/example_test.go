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
	fmt.Println("steps:", job.Steps, "environments:", job.Rollouts.Envs)
	fmt.Println("network:", job.Architecture().Encoder, job.Architecture().Head)

	_, err = learn.ReadJob("my.yaml", []byte("learningRate: 2"), "gnn")
	fmt.Println(err)
	// Output:
	// steps: 200000 environments: 16
	// network: mlp actor-critic
	// my.yaml: learning rate is 2, want 1e-09 to 1
}
