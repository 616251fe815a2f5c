package checkpoint

import (
	"bytes"
	"errors"
	"math/rand/v2"
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
