//go:build torch

package main

import (
	"context"
	"os"
	"strings"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/exit"
)

// Two shipped networks become one file, with the typical pods of the one for GPUs.
func TestJoin(t *testing.T) {
	t.Chdir(t.TempDir())
	ctx := context.Background()
	if code, _, errs := gnntrain(t, ctx, "join", "--tolerance", "0.2"); code != exit.OK {
		t.Fatalf("code %d: %s", code, errs)
	}
	c, err := checkpoint.Load("mixed.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	if m := c.Manifest.Architecture.Mixed; m == nil || m.Tolerance != 0.2 || m.Nodes.Encoder != checkpoint.MLP || m.Devices.Encoder != checkpoint.GNN {
		t.Errorf("%+v", c.Manifest.Architecture)
	}
	if b, err := os.ReadFile("mixed.typical.json"); err != nil || !strings.Contains(string(b), "gpuMilli") {
		t.Errorf("the typical pods: %s, %v", b, err)
	}
	for args, say := range map[string]string{
		"join more":                           "unexpected argument",
		"join --nodes gpu-gnn":                "name a network for any cluster",
		"join --devices missing.safetensors":  "missing.safetensors",
		"join --nodes mixed.safetensors":      "name a network for any cluster",
		"join --tolerance 2 --out no/m.safet": "tolerance 2 is outside 0 to 1",
	} {
		if code, _, errs := gnntrain(t, ctx, strings.Fields(args)...); code == exit.OK || !strings.Contains(errs, say) {
			t.Errorf("%s: code %d: %s", args, code, errs)
		}
	}
}
