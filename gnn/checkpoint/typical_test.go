package checkpoint

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gnnsched/internal/each"
	"gnnsched/internal/fatal"
)

func TestTypicalPodsRoundTrip(t *testing.T) {
	at := filepath.Join(t.TempDir(), "net.safetensors")
	if got, err := LoadTypical(at); got != nil || err != nil {
		t.Errorf("without a file: %v, %v", got, err)
	}
	want := &TypicalPods{Family: []string{"a", "b"},
		Pods: []TypicalPod{{MilliCPU: 500, GPUMilli: 300, GPUModels: []string{"T4"}, Frequency: 0.75}, {GPU: 8, Frequency: 0.25}}}
	fatal.If(t, want.Save(at))
	got, err := LoadTypical(at)
	fatal.If(t, err)
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for text, say := range map[string]string{
		"{": "unexpected end", `{"pods":[]}`: "no typical pods", `{"podz":[]}`: "no typical pods",
		`{"pods":[{"frequency":0}]}`: "pods[0]: frequency", `{"pods":[{"frequency":1,"gpu":-1}]}`: "-1 GPUs",
		`{"pods":[{"frequency":1,"gpu":1,"gpuMilli":5}]}`: "pods[0]",
	} {
		fatal.If(t, os.WriteFile(TypicalPath(at), []byte(text), 0o600))
		if _, err := LoadTypical(at); err == nil || !strings.Contains(err.Error(), say) || !strings.Contains(err.Error(), "net.typical.json") {
			t.Errorf("%s: %v, want %q", text, err, say)
		}
	}
	fatal.If(t, os.Remove(TypicalPath(at)))
	fatal.If(t, os.Mkdir(TypicalPath(at), 0o700))
	if _, err := LoadTypical(at); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a directory: %v", err)
	}
}

// Every shipped network for GPU clusters has the typical pods of the family that its manifest names, and
// no other network has any.
func TestShippedTypicalPods(t *testing.T) {
	for _, name := range ShippedNames() {
		c, err := Shipped(name)
		fatal.If(t, err)
		pods, err := ShippedTypical(name)
		fatal.If(t, err)
		if c.Manifest.Architecture.Graph != GPUGraph {
			if pods != nil {
				t.Errorf("%s has typical pods", name)
			}
			continue
		}
		var config struct{ Family []string }
		fatal.If(t, json.Unmarshal(c.Manifest.Config, &config))
		if pods == nil || !slices.Equal(pods.Family, config.Family) {
			t.Fatalf("%s was trained on %v, its typical pods are of %v", name, config.Family, pods)
		}
		sum := each.Sum(pods.Pods, func(p TypicalPod) float64 { return p.Frequency })
		if math.Abs(sum-1) > 1e-9 {
			t.Errorf("%s: the frequencies add up to %v", name, sum)
		}
	}
}
