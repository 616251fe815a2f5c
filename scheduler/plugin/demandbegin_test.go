package plugin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
	"gnnsched/internal/fragmentation"
)

// With a file, the pods that arrive do not matter.
func TestDemandOfAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pods.csv")
	fatal.If(t, os.WriteFile(file, []byte("name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,100,1,1,300\n"), 0o600))
	d, err := newDemandTracker("ours", file)
	fatal.If(t, err)
	d.countPending(&cluster.Pod{Requests: cluster.Resources{GPU: 8}})
	typical := d.typical(nil)
	want := []fragmentation.Pod{{MilliCPU: 100, Devices: 1, Milli: 300, Frequency: 1}}
	if d := cmp.Diff(want, typical.Pods(), cmpopts.IgnoreUnexported(fragmentation.Pod{})); d != "" {
		t.Error(d)
	}
	if d.typical(nil) != typical {
		t.Error("it changed")
	}
	for file, want := range map[string]string{"nowhere.csv": "nowhere.csv", file + "x": "pods.csvx"} {
		if _, err := newDemandTracker("ours", file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
