package checkpoint

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gnnsched/gnn/feature"
)

// A manifest keeps its wishes. Wishes that make no sense are refused, and those of a network that does not read them.
func TestWishesInTheManifest(t *testing.T) {
	a := Architecture{Encoder: MLP, Head: ActorCritic, Hidden: 8, Features: []string{"base", "whole", "wishes"}}
	c := Random(a, rand.New(rand.NewPCG(1, 2)))
	if bytes.Contains(encode(t, c), []byte(`"wishes\":`)) || c.Wishes() != (feature.Wishes{}) {
		t.Error("a network without wishes has some")
	}
	c.Manifest.Wishes = []Wish{{Term: "energy", Share: 0.75, Most: 1}, {Term: "balance", Share: 0.25, Least: 0.25, Most: 0.5}}
	got, err := Read(bytes.NewReader(encode(t, c)))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(c, got); d != "" {
		t.Error(d)
	}
	if w := got.Wishes(); w != (feature.Wishes{0.25, 0.75, 0}) {
		t.Errorf("shares %v", w)
	}
	for name, wishes := range map[string][]Wish{
		"unknown":     {{Term: "luck", Share: 1, Most: 1}},
		"twice":       {{Term: "energy", Share: 0.5, Most: 1}, {Term: "energy", Share: 0.5, Most: 1}},
		"sum":         {{Term: "energy", Share: 0.5, Most: 1}},
		"range":       {{Term: "energy", Share: 1, Most: 0.5}},
		"over 1":      {{Term: "energy", Share: 1, Most: 2}},
		"less than 0": {{Term: "energy", Share: 1, Least: -1, Most: 1}},
	} {
		c.Manifest.Wishes = wishes
		if err := c.Validate(); !errors.Is(err, ErrSchema) {
			t.Errorf("%s: %v", name, err)
		}
	}
	other := random(MLP)
	other.Manifest.Wishes = []Wish{{Term: "energy", Share: 1, Most: 1}}
	if err := other.Validate(); !errors.Is(err, ErrSchema) {
		t.Errorf("a network that reads no objective has wishes: %v", err)
	}
}
