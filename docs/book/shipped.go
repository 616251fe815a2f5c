package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"gnnsched/gnn/checkpoint"
)

// The producer shipped lists the shipped networks: how large they are, or what trained them by their manifests.
//
//	<!-- generated: shipped sizes -->
//	<!-- generated: shipped training -->
func init() { producers["shipped"] = shipped }

// shippedConfig holds the fields of a training configuration that a table shows. Imitation names a teacher, or for the GPU graph the number of
// iterations that FGD plays.
type shippedConfig struct {
	ByRollouts bool            `json:"byRollouts"`
	Imitation  json.RawMessage `json:"imitation"`
	Wishes     []string        `json:"wishes"`
}

func shipped(_, of string) (string, error) {
	heads := map[string]string{
		"sizes":    "| network | graph | encoder | head | width | weights | features |\n|---|---|---|---|--:|--:|---|\n",
		"training": "| network | objective | method | first teacher | seed | commit |\n|---|---|---|---|--:|---|\n",
	}
	if heads[of] == "" {
		return "", fmt.Errorf("ask for sizes or training")
	}
	var out strings.Builder
	out.WriteString(heads[of])
	for _, name := range checkpoint.ShippedNames() {
		c, err := checkpoint.Shipped(name)
		if err != nil {
			return "", err
		}
		line := shippedSize
		if of == "training" {
			line = shippedTraining
		}
		text, err := line(c)
		if err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		fmt.Fprintf(&out, "| `%s` | %s |\n", name, text)
	}
	return out.String(), nil
}

// shippedSize returns the cells of a network's row in the table of sizes.
func shippedSize(c *checkpoint.Checkpoint) (string, error) {
	weights := 0
	for _, t := range c.Weights {
		weights += len(t.Data)
	}
	a := c.Manifest.Architecture
	return fmt.Sprintf("%s | %s | %s | %d | %d | %s", cmp.Or(string(a.Graph), "any"), a.Encoder, a.Head, a.Hidden, weights, cmp.Or(strings.Join(a.Features, ", "), "base")), nil
}

// shippedTraining returns the cells of a network's row in the table of what trained it.
func shippedTraining(c *checkpoint.Checkpoint) (string, error) {
	m := c.Manifest
	var t shippedConfig
	if err := json.Unmarshal(m.Config, &t); err != nil {
		return "", err
	}
	method, teacher := "values of nodes", "FGD"
	if m.Architecture.Graph != checkpoint.GPUGraph {
		var imitation struct {
			Teacher string `json:"teacher"`
		}
		if err := json.Unmarshal(t.Imitation, &imitation); err != nil {
			return "", err
		}
		method, teacher = "rewards", "`"+imitation.Teacher+"`"
		if t.ByRollouts {
			method = "rollouts"
		}
	}
	objective := m.Objective
	if len(t.Wishes) > 0 {
		objective = "any of " + strings.Join(t.Wishes, ", ")
	}
	return fmt.Sprintf("%s | %s | %s | %d | %s", objective, method, teacher, m.Seed, m.Commit), nil
}
