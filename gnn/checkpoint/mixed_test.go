package checkpoint

import (
	"errors"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func gpuRandom() *Checkpoint {
	return Random(Architecture{Graph: GPUGraph, Encoder: GNN, Head: ActorCritic, Hidden: 8}, rand.New(rand.NewPCG(3, 4)))
}

// A file of two networks gives both back, with the fingerprints that they had alone.
func TestJoinAndParts(t *testing.T) {
	nodes, devices := random(MLP), gpuRandom()
	joined, err := Join(nodes, devices, 0.25)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "m.safetensors")
	if err := joined.Save(path); err != nil {
		t.Fatal(err)
	}
	got, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(joined, got); d != "" {
		t.Error(d)
	}
	if got.Manifest.Architecture.Mixed.Tolerance != 0.25 {
		t.Errorf("tolerance %v", got.Manifest.Architecture.Mixed.Tolerance)
	}
	n, d := got.Parts()
	for name, part := range map[string][2]*Checkpoint{"nodes": {nodes, n}, "devices": {devices, d}} {
		if err := part[1].Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if d := cmp.Diff(part[0], part[1]); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	again, err := Join(nodes, devices, 0.25)
	if err != nil || !again.Manifest.Architecture.Equal(got.Manifest.Architecture) {
		t.Errorf("the same parts have another architecture: %v", err)
	}
	if other, err := Join(nodes, devices, 0.5); err != nil || other.Manifest.Architecture.Equal(got.Manifest.Architecture) {
		t.Errorf("another tolerance has the same architecture: %v", err)
	}
}

func TestJoinRefuses(t *testing.T) {
	nodes, devices := random(GNN), gpuRandom()
	joined, err := Join(nodes, devices, 0)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		nodes, devices *Checkpoint
		tolerance      float32
	}{
		"in the wrong order":   {devices, nodes, 0.1},
		"of one kind":          {nodes, nodes, 0.1},
		"a mixed part":         {joined, devices, 0.1},
		"a negative tolerance": {nodes, devices, -1},
	} {
		if _, err := Join(c.nodes, c.devices, c.tolerance); !errors.Is(err, ErrSchema) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, change := range map[string]func(*Architecture){
		"no parts":             func(a *Architecture) { a.Mixed = nil },
		"parts of a plain one": func(a *Architecture) { a.Graph = ClusterGraph },
	} {
		a := joined.Manifest.Architecture
		change(&a)
		if a.Validate() == nil {
			t.Errorf("%s: valid", name)
		}
	}
}

// The shipped network for mixed clusters consists of the shipped networks of today.
func TestShippedMixed(t *testing.T) {
	mixed, err := Shipped("mixed")
	if err != nil {
		t.Fatal(err)
	}
	nodes, devices := mixed.Parts()
	for name, part := range map[string]*Checkpoint{"acdqn": nodes, "gpu-gnn": devices} {
		if alone, err := Shipped(name); err != nil || alone.Fingerprint() != part.Fingerprint() {
			t.Errorf("its part %s is not the shipped one (%v); run gnntrain join", name, err)
		}
	}
}
