package plugin

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/cluster"
	"gnnsched/internal/fragmentation"
)

// With a file, the pods that arrive do not matter.
func TestDemandOfAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pods.csv")
	if err := os.WriteFile(file, []byte("name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,100,1,1,300\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := newDemandTracker("ours", file, false)
	if err != nil {
		t.Fatal(err)
	}
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
		if _, err := newDemandTracker("ours", file, false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// Where pods leave, the pods of a file count by their lifetimes, if all have one.
func TestDemandOfAFileByLifetime(t *testing.T) {
	const header = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
	for name, c := range map[string]struct {
		pods  string
		leave bool
		want  float64 // share of the pods with eight devices
	}{
		"pods stay":          {"a,1,1,1,1000,,LS,Running,0,100,0\nb,1,1,8,1000,,LS,Running,0,300,0\n", false, 0.5},
		"pods leave":         {"a,1,1,1,1000,,LS,Running,0,100,0\nb,1,1,8,1000,,LS,Running,0,300,0\n", true, 0.75},
		"lifetimes are lost": {"a,1,1,1,1000,,LS,Running,0,,0\nb,1,1,8,1000,,LS,Running,0,300,0\n", true, 0.5},
	} {
		file := filepath.Join(t.TempDir(), "pods.csv")
		if err := os.WriteFile(file, []byte(header+c.pods), 0o600); err != nil {
			t.Fatal(err)
		}
		d, err := newDemandTracker("ours", file, c.leave)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := 0.0
		for _, p := range d.typical(nil).Pods() {
			if p.Devices == 8 {
				got += p.Frequency
			}
		}
		if math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: the pods with eight devices are %v, want %v", name, got, c.want)
		}
	}
}

// A network begins with the pods that arrived in its training, or, where pods leave, with those that ran.
func TestDemandBegins(t *testing.T) {
	arrived, ran := []checkpoint.TypicalPod{{GPU: 1, Frequency: 1}}, []checkpoint.TypicalPod{{GPU: 8, Frequency: 1}}
	for _, c := range []struct {
		name    string
		running []checkpoint.TypicalPod
		leave   bool
		want    int64
	}{
		{"pods stay", ran, false, 1},
		{"pods leave", ran, true, 8},
		{"pods leave, and the training does not say how long they ran", nil, true, 1},
	} {
		d, err := newDemandTracker("ours", "", c.leave)
		if err != nil {
			t.Fatal(err)
		}
		d.begin(&checkpoint.TypicalPods{Pods: arrived, Running: c.running})
		if pods := d.typical(nil).Pods(); len(pods) != 1 || pods[0].Devices != c.want {
			t.Errorf("%s: %+v", c.name, pods)
		}
	}
}
