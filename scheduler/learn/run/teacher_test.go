package run

import (
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/fatal"
)

func TestTeacherByName(t *testing.T) {
	if p, err := TeacherByName("best-fit", nil); err != nil || p.Name() != "best-fit" {
		t.Error(p, err)
	}
	file := filepath.Join(t.TempDir(), "taught.safetensors")
	c := checkpoint.Random(checkpoint.Architecture{Encoder: checkpoint.MLP, Head: checkpoint.DQN, Hidden: 4}, rand.New(rand.NewPCG(1, 2)))
	fatal.If(t, c.Save(file))
	if p, err := TeacherByName(file, nil); err != nil || p.Name() != file {
		t.Error(p, err)
	}
	for name, want := range map[string]string{
		"nobody": "nobody", "nowhere.json": "nowhere.json", "nowhere.safetensors": "nowhere.safetensors",
		"random": "--resume", "round-robin": "--resume", // whose state is not saved
		"fgd": "gnntrain gpu", "gpu-packing": "gnntrain gpu",
	} {
		if _, err := TeacherByName(name, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", name, err, want)
		}
	}
}
