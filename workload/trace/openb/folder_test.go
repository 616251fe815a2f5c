package openb

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestPodLists(t *testing.T) {
	dir := t.TempDir()
	if names, err := PodLists(dir); err == nil || !strings.Contains(err.Error(), "holds no openb_pod_list_*.csv") {
		t.Errorf("an empty folder: %v, %v", names, err)
	}
	for _, name := range []string{NodesFile, "openb_pod_list_gpuspec33.csv", "openb_pod_list_default.csv", "notes.csv"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	names, err := PodLists(dir)
	if want := []string{"default", "gpuspec33"}; err != nil || !slices.Equal(names, want) {
		t.Fatalf("%v, %v, want %v", names, err, want)
	}
	for _, name := range names {
		if path := PodsFile(dir, name); filepath.Dir(path) != dir || ListName(path) != name {
			t.Errorf("list %s is in %s", name, path)
		}
	}
	if got := ListName("my/own.csv"); got != "own" {
		t.Errorf("another file's list is called %q", got)
	}
}
