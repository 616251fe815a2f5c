package checkpoint

import (
	"strings"
	"testing"
)

func TestCheckOnline(t *testing.T) {
	of := func(graph Graph, features ...string) *Checkpoint {
		return &Checkpoint{Manifest: Manifest{Architecture: Architecture{Graph: graph, Encoder: GNN, Head: DQN, Hidden: 8, Features: features}}}
	}
	for _, c := range []struct {
		network *Checkpoint
		refused string // a part of the reason; empty for a network that can learn
	}{
		{of(ClusterGraph), ""},
		{of(ClusterGraph, "base", "whole"), ""},
		{of(GPUGraph), `graph "gpu"`},
		{of(ClusterGraph, "base", "traffic"), "peers"},
	} {
		err := c.network.CheckOnline()
		if (err == nil) != (c.refused == "") || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%v: %v, want %q", c.network.Manifest.Architecture, err, c.refused)
		}
	}
}
