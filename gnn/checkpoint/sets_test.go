package checkpoint

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gnnsched/gnn/feature/featuretest"
	"gnnsched/internal/fatal"
)

// Another set leaves checkpoints that name no sets valid: gpu-gnn is one. The manifest of a checkpoint
// without named sets has no field for them.
func TestOldCheckpointsStayValid(t *testing.T) {
	for _, name := range ShippedNames() {
		c, err := Shipped(name)
		fatal.If(t, err)
		if name == "gpu-gnn" && c.Manifest.Architecture.Features != nil {
			t.Errorf("%s names the sets %v", name, c.Manifest.Architecture.Features)
		}
	}
	if b := encode(t, random(GNN)); bytes.Contains(b, []byte("features\\\"")) {
		t.Error("the manifest of a checkpoint of the usual set names features")
	}
}

// An architecture that names another set reads wider inputs, has another schema, and is the same after it was written and read.
func TestArchitectureWithMoreSets(t *testing.T) {
	for _, g := range []Graph{ClusterGraph, GPUGraph} {
		usual := Architecture{Graph: g, Encoder: GNN, Head: ActorCritic, Hidden: 8}
		more := usual
		more.Features = featuretest.Names
		if usual.Equal(more) || usual.Schema() == more.Schema() {
			t.Errorf("graph %q: more sets make no difference", g)
		}
		c := Random(more, rand.New(rand.NewPCG(1, 2)))
		got, err := Read(bytes.NewReader(encode(t, c)))
		fatal.If(t, err)
		if d := cmp.Diff(c, got); d != "" {
			t.Errorf("graph %q: %s", g, d)
		}
		if a, b := usual.Params()[0].Shape[1], more.Params()[0].Shape[1]; a+1 != b {
			t.Errorf("graph %q: %d inputs of a node, %d without the set", g, b, a)
		}
		c.Manifest.Architecture = usual
		if err := c.Validate(); !errors.Is(err, ErrSchema) {
			t.Errorf("graph %q: weights for more sets pass for the usual ones: %v", g, err)
		}
		more.Features = []string{"nonsense"}
		if more.Validate() == nil || more.Schema() != "" {
			t.Errorf("graph %q: a set that nobody knows is valid", g)
		}
	}
}

// Sets that read devices are for the mixed graph, and it has no others.
func TestDevicesMakeTheGraphMixed(t *testing.T) {
	for _, c := range []struct {
		graph    Graph
		features []string
		valid    bool
	}{
		{MixedGraph, []string{"base", "devices"}, true},
		{ClusterGraph, []string{"base", "devices"}, false},
		{MixedGraph, []string{"base", "whole"}, false},
		{ClusterGraph, []string{"base", "whole"}, true},
	} {
		a := Architecture{Graph: c.graph, Encoder: GNN, Head: ActorCritic, Hidden: 8, Features: c.features}
		if err := a.Validate(); (err == nil) != c.valid {
			t.Errorf("%v on the graph %q: %v", c.features, c.graph, err)
		}
	}
}

// A file with two networks, as earlier versions wrote it for mixed clusters, is refused with what to use in its place.
func TestTwoNetworksInOneFileAreRefused(t *testing.T) {
	manifest := `{"schema":"47c903d9fd1e5ee6+3efa61a97e19d20b","architecture":{"graph":"mixed","encoder":"","head":"","hidden":0,"mixed":{"nodes":{"encoder":"mlp","head":"actor-critic","hidden":32,"features":["base","whole"]},"devices":{"graph":"gpu","encoder":"gnn","head":"dqn","hidden":64},"tolerance":0.3}}}`
	header, err := json.Marshal(map[string]any{"__metadata__": map[string]string{manifestKey: manifest}})
	fatal.If(t, err)
	file := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
	if _, err := Read(bytes.NewReader(file)); !errors.Is(err, ErrSchema) || !strings.Contains(err.Error(), "take the shipped network mixed") {
		t.Errorf("%v", err)
	}
}
