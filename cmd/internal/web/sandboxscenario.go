package web

import (
	"encoding/json"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/policy/linear"
)

// weightsFile is the file that the command of a scenario expects the request's own weights in.
const weightsFile = "own.json"

// Scenario returns the request as a scenario file of gnnsched eval. Comments at its top hold the command that compares the request's
// policies on it, and the file with its own weights if a policy has them.
func (r runRequest) Scenario() (string, error) {
	config, err := r.config()
	if err != nil {
		return "", err
	}
	body, err := yaml.Marshal(eval.Scenario{Name: "sandbox", About: "the nodes, pods and objective of a sandbox", Config: config})
	if err != nil {
		return "", fmt.Errorf("write the scenario: %w", err)
	}
	var top strings.Builder
	policies, own := []string{}, false
	for _, name := range []string{r.Policy, r.Other} {
		switch x, err := r.contender(name); {
		case err != nil:
			return "", err
		case name == ownWeights:
			own = true
			policies = append(policies, "linear:"+weightsFile)
		default:
			policies = append(policies, x.Name)
		}
	}
	if policies[0] == policies[1] {
		policies = policies[:1]
	}
	fmt.Fprintf(&top, "# gnnsched eval --scenario sandbox.yaml --seed %d --seeds 20 --policies %s\n", r.Seed, strings.Join(policies, ","))
	if own {
		weights := make([]float64, len(linear.Features))
		for i, f := range linear.Features {
			weights[i] = r.Weights[f]
		}
		p, err := linear.New("own", weights)
		if err != nil {
			return "", err
		}
		text, err := json.Marshal(p)
		if err != nil {
			return "", fmt.Errorf("write the weights: %w", err)
		}
		fmt.Fprintf(&top, "# %s: %s\n", weightsFile, text)
	}
	return top.String() + string(body), nil
}
