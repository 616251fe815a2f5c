package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"gnnsched/gnn/checkpoint"
)

// shipped is a producer. It lists the shipped networks: their sizes, or how they were trained according to their manifests.
//
//	<!-- generated: shipped sizes -->
//	<!-- generated: shipped training -->
func shipped(_, of string) (string, error) {
	switch of {
	case "sizes":
		return shippedTable([]string{"network", "graph", "encoder", "head", "width", "weights", "features"}, shippedSize, 4, 5)
	case "training":
		return shippedTable([]string{"network", "objective", "method", "first teacher or rule", "seed", "commit"}, shippedTraining, 4)
	}
	return "", fmt.Errorf("ask for sizes or training")
}

// shippedTable returns a table with a row for each network: its name, then the cells that describe returns for it.
func shippedTable(head []string, describe func(*checkpoint.Checkpoint) ([]string, error), numeric ...int) (string, error) {
	return tryListed(head, checkpoint.ShippedNames(), func(name string) ([]string, error) {
		c, err := checkpoint.Shipped(name)
		if err != nil {
			return nil, err
		}
		cells, err := describe(c)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return append([]string{span(name)}, cells...), nil
	}, numeric...)
}

// shippedSize returns the cells of a network in the table of sizes.
func shippedSize(c *checkpoint.Checkpoint) ([]string, error) {
	weights := 0
	for _, t := range c.Weights {
		weights += len(t.Data)
	}
	a := c.Manifest.Architecture
	return []string{
		cmp.Or(string(a.Graph), "any"), fmt.Sprint(a.Encoder), fmt.Sprint(a.Head), fmt.Sprint(a.Hidden), fmt.Sprint(weights), featureSets(a),
	}, nil
}

// shippedConfig holds the fields of a training configuration that the table of training shows. Imitation names a
// teacher; for the GPU graph it is the number of iterations with FGD as the teacher.
type shippedConfig struct {
	Method     string          `json:"method"`
	ByRollouts bool            `json:"byRollouts"` // the old spelling of the method rollouts
	Imitation  json.RawMessage `json:"imitation"`
	Wishes     []string        `json:"wishes"`
	Residual   string          `json:"residual"`
}

// shippedTraining returns the cells of a network in the table of training.
func shippedTraining(c *checkpoint.Checkpoint) ([]string, error) {
	m := c.Manifest
	var t shippedConfig
	if err := json.Unmarshal(m.Config, &t); err != nil {
		return nil, err
	}
	method, teacher := "values of nodes", "FGD"
	if m.Architecture.Graph != checkpoint.GPUGraph {
		var imitation struct {
			Teacher string `json:"teacher"`
		}
		if err := json.Unmarshal(t.Imitation, &imitation); err != nil {
			return nil, err
		}
		method, teacher = "rewards", span(imitation.Teacher)
		if t.Residual != "" { // it begins as a rule, and imitates nothing
			teacher = span(strings.TrimSuffix(filepath.Base(t.Residual), ".safetensors"))
		}
		if t.ByRollouts || t.Method == "rollouts" {
			method = "rollouts"
		}
	}
	objective := m.Objective
	if len(t.Wishes) > 0 {
		objective = "any of " + strings.Join(t.Wishes, ", ")
	}
	return []string{objective, method, teacher, fmt.Sprint(m.Seed), m.Commit}, nil
}
