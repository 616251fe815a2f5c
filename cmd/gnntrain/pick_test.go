//go:build torch

package main

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/learn/value"
)

// writeRun writes the network of a run with a seed, a number of steps and a held-out score.
func writeRun(t *testing.T, path string, seed uint64, steps int, training map[string]float64) {
	t.Helper()
	c := checkpoint.Random(checkpoint.Architecture{Encoder: checkpoint.MLP, Head: checkpoint.DQN, Hidden: 4}, rand.New(rand.NewPCG(seed, 1)))
	c.Manifest.Seed, c.Manifest.Training = seed, training
	c.Manifest.Config = json.RawMessage(`{"seed":` + strconv.FormatUint(seed, 10) + `,"steps":` + strconv.Itoa(steps) + `}`)
	fatal.If(t, c.Save(path))
}

func TestPick(t *testing.T) {
	t.Chdir(t.TempDir())
	ctx := context.Background()
	writeRun(t, "a", 1, 10, map[string]float64{value.HeldOutScore: 0.5})
	writeRun(t, "b", 2, 10, map[string]float64{value.HeldOutScore: 0.25})
	writeRun(t, "c", 3, 10, map[string]float64{value.HeldOutScore: 0.75})
	writeRun(t, "longer", 4, 20, map[string]float64{value.HeldOutScore: 0.1})
	writeRun(t, "unjudged", 5, 10, nil)
	typical := checkpoint.TypicalPods{Pods: []checkpoint.TypicalPod{{MilliCPU: 1000, GPUMilli: 190, Frequency: 1}}}
	fatal.If(t, typical.Save("b"))

	code, out, errs := gnntrain(t, ctx, "pick", "--out", "best", "a", "b", "c")
	if code != exit.OK || !strings.Contains(out, "  seed 1: held-out score 0.5000, a\n* seed 2: held-out score 0.2500, b\n  seed 3:") {
		t.Fatalf("code %d: %s%s", code, out, errs)
	}
	if best, err := checkpoint.Load("best"); err != nil || best.Manifest.Seed != 2 {
		t.Errorf("%+v, %v", best, err)
	}
	if beside, err := checkpoint.LoadTypical("best"); err != nil || beside == nil {
		t.Errorf("the typical pods did not come along: %v, %v", beside, err)
	}
	for args, say := range map[string]string{
		"pick --out best":            "name the networks to choose from",
		"pick --out best a longer":   "a and longer differ in more than the seed",
		"pick --out best a unjudged": "unjudged: its manifest has no heldOutScore",
		"pick --out best a missing":  "missing",
		"pick a":                     "out",
	} {
		if code, _, errs := gnntrain(t, ctx, strings.Fields(args)...); code == exit.OK || !strings.Contains(errs, say) {
			t.Errorf("%s: code %d: %s", args, code, errs)
		}
	}
}
