package plugin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"gnnsched/gnn/checkpoint"
	"gnnsched/scheduler/cluster"
	"gnnsched/scheduler/gpu"
	"gnnsched/scheduler/gpushare"
)

// The typical pods follow what comes, and are looked at again ever more seldom.
func TestDemandFollowsWhatComes(t *testing.T) {
	d, err := newDemand("")
	if err != nil {
		t.Fatal(err)
	}
	if typical, changed := d.typical(); typical != nil || changed {
		t.Errorf("before any pod: %v, %v", typical.Pods(), changed)
	}
	changes := 0
	for i := range 1000 {
		p := cluster.Pod{Requests: cluster.Resources{MilliCPU: 500, GPUMilli: 500, Pods: 1}, GPUModels: []string{"T4"}}
		if i%4 == 0 {
			p = cluster.Pod{Requests: cluster.Resources{MilliCPU: 8000, GPU: 1, Pods: 1}}
		}
		d.come(&p, nil)
		if _, changed := d.typical(); changed {
			changes++
		}
	}
	if changes < 10 || changes > 40 {
		t.Errorf("%d changes in 1000 pods", changes)
	}
	typical, _ := d.typical()
	pods := typical.Pods()
	if len(pods) != 2 || pods[0].Milli != 500 || !cmp.Equal(pods[0].Models, []string{"T4"}) || pods[0].Frequency < 0.7 || pods[0].Frequency > 0.8 {
		t.Errorf("got %+v", pods)
	}
	var none *demand // of a policy that does not go by it
	none.come(&cluster.Pod{}, nil)
	if typical, changed := none.typical(); typical != nil || changed {
		t.Error("nothing is known of no workload")
	}
}

// A file says what the workload is, whatever comes.
func TestDemandOfAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pods.csv")
	if err := os.WriteFile(file, []byte("name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,100,1,1,300\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := newDemand(file)
	if err != nil {
		t.Fatal(err)
	}
	d.come(&cluster.Pod{Requests: cluster.Resources{GPU: 8}}, nil)
	typical, changed := d.typical()
	want := []gpu.Pod{{MilliCPU: 100, Devices: 1, Milli: 300, Frequency: 1}}
	if d := cmp.Diff(want, typical.Pods()); d != "" || !changed {
		t.Errorf("changed %v\n%s", changed, d)
	}
	if _, changed := d.typical(); changed {
		t.Error("it changed again")
	}
	for file, want := range map[string]string{"nowhere.csv": "nowhere.csv", file + "x": "pods.csvx"} {
		if _, err := newDemand(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// A checkpoint for GPU devices decides like any other, and chooses the devices.
func TestGPUCheckpointDecides(t *testing.T) {
	const profile = "gpu-network"
	file := untrainedOf(t, checkpoint.Architecture{Graph: checkpoint.GPUGraph, Encoder: checkpoint.GNN, Head: checkpoint.DQN, Hidden: 8}, 3, nil)
	b := newBed(t, profile, Args{Checkpoint: file, Deadline: duration(time.Minute)})
	defer b.load(t, clusterState{nodes: []*v1.Node{gpuNode("a", "T4", 2), gpuNode("b", "G2", 4)}})()
	for _, r := range []cluster.Resources{share(400), {GPU: 2}, {MilliCPU: 100}} {
		pod := gpuPod("p", r)
		bound, _, err := b.attempt(t, profile, pod)
		if err != nil {
			t.Fatal(err)
		}
		if devices := gpushare.Devices(bound.Annotations); int64(devices.Len()) != max(r.GPU, min(r.GPUMilli, 1)) {
			t.Errorf("%+v is on %q", r, bound.Annotations[gpushare.Index])
		}
		if b.plugin.gpu == nil || b.plugin.learned != nil {
			t.Error("another policy decided")
		}
		if err := b.sched.Cache.ForgetPod(b.log, bound); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := Fallbacks(profile); n != 0 || err != nil {
		t.Errorf("%d decisions fell back, %v", n, err)
	}
}
