package checkpoint

import "testing"

func TestCheckOnline(t *testing.T) {
	of := func(graph Graph) *Checkpoint {
		return &Checkpoint{Manifest: Manifest{Architecture: Architecture{Graph: graph, Encoder: GNN, Head: DQN, Hidden: 8}}}
	}
	for graph, can := range map[Graph]bool{KindsGraph: true, GPUGraph: false, ClusterGraph: false} {
		if err := of(graph).CheckOnline(); (err == nil) != can {
			t.Errorf("graph %q: %v", graph, err)
		}
	}
}
