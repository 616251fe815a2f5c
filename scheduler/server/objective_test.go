package server

import (
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"gnnsched/gnn/checkpoint"
)

// manyObjectives saves a network of random weights for balance and energy, and returns its file.
func manyObjectives(t *testing.T) string {
	t.Helper()
	c := checkpoint.Random(checkpoint.Architecture{Encoder: checkpoint.MLP, Head: checkpoint.ActorCritic, Hidden: 8,
		Features: []string{"base", "wishes"}}, rand.New(rand.NewPCG(1, 2)))
	c.Manifest.Wishes = []checkpoint.Wish{{Term: "balance", Share: 0.5, Most: 1}, {Term: "energy", Share: 0.5, Most: 1}}
	c.Manifest.Objective = "balance,energy=2.5"
	file := filepath.Join(t.TempDir(), "many.safetensors")
	if err := c.Save(file); err != nil {
		t.Fatal(err)
	}
	return file
}

// An objective is for a network that knows it. The error of another lists what it knows.
func TestProfileWithAnObjective(t *testing.T) {
	many := manyObjectives(t)
	for _, x := range []struct {
		p    Profile
		want string
	}{
		{Profile{Args: Args{Variant: "gnn", Checkpoint: many, Objective: "balance=1,energy=0.3", ObjectiveLimits: "balance=0:1,energy=0:0.5"}},
			""},
		{Profile{Args: Args{Variant: "gnn", Checkpoint: many, ObjectiveLimits: "energy=0:1"}}, ""},
		{Profile{Args: Args{Variant: "gnn", Checkpoint: many, Objective: "pack"}}, "it knows balance, energy"},
		{Profile{Args: Args{Variant: "gnn", Checkpoint: many, ObjectiveLimits: "energy"}}, "no range of shares"},
		{Profile{Args: Args{Variant: "gnn", Objective: "energy"}}, "was trained for one objective"},
		{Profile{Args: Args{Variant: "gnn", ObjectiveLimits: "energy=0:1"}}, "was trained for one objective"},
		{Profile{Args: Args{Variant: "gpu-gnn", Objective: "energy"}}, "was trained for one objective"},
		{Profile{Args: Args{Policy: "best-fit", Objective: "energy"}}, "networks of many objectives"},
		{Profile{Args: Args{Variant: DefaultProfile, Objective: "energy"}}, "no network or policy"},
		{Profile{Args: Args{Variant: "gnn", Checkpoint: many, Objective: "energy", Learn: learn("gnntrain")}},
			"a network of many objectives cannot learn"},
		{Profile{Args: Args{Variant: "gnn", Checkpoint: many + ".none", Objective: "energy"}}, "no such file"},
	} {
		x.p.SchedulerName = "many"
		err := Config{QPS: 1, Profiles: []Profile{x.p}}.Validate()
		if x.want == "" && err != nil || x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want)) {
			t.Errorf("%+v: %v, want %q", x.p, err, x.want)
		}
	}
}
