package server

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"gnnsched/internal/exit"
)

// What the command accepts, it can write for another kubeconfig, and reads again with the same profiles.
// What it refuses is the user's fault.
func FuzzParseFile(f *testing.F) {
	for _, name := range []string{"full.yaml", "smallest.yaml"} {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(header))
	f.Add([]byte(header + "profiles: [{}, {schedulerName: a, plugins: {multiPoint: {enabled: [{name: GPUShares}]}}}]\n"))
	f.Add([]byte("profiles: [null]\nextenders: [null]\nleaderElection: null\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := parseFile("f", b)
		if err != nil {
			if exit.Code(err) != exit.Usage {
				t.Fatalf("exit code %d: %v", exit.Code(err), err)
			}
			return
		}
		text, err := file.YAMLFor("/given")
		if err != nil {
			t.Fatal(err)
		}
		again, err := parseFile("f", text)
		if err != nil || again.Kubeconfig() != "/given" || !slices.Equal(again.SchedulerNames(), file.SchedulerNames()) {
			t.Fatalf("not the same after a round trip: %v\n%s", err, text)
		}
	})
}
