package sim

import (
	"os"
	"path/filepath"
	"testing"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/objective"
)

// A pod list of the openb format is a trace like any other: its pods come and go at its times, on any
// nodes.
func TestPodListIsATrace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pods.csv")
	err := os.WriteFile(file, []byte("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time\n"+
		"late,1000,1024,1,600,T4,50,90\nearly,1000,1024,1,700,,10,40\nelsewhere,1000,1024,1,100,G2,20,30\n"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	c := Config{
		Nodes: Exactly(1), Sizes: []NodeSize{{Weight: 1, Allocatable: cluster.Resources{MilliCPU: 8000, Memory: 8 << 30, GPU: 1, Pods: 10}, GPUModel: "T4"}},
		Trace: &Trace{File: file}, Objective: objective.Mix{{Term: objective.Balance{}, Weight: 1}},
	}
	e, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Reset(1); err != nil {
		t.Fatal(err)
	}
	var order []string
	for !e.Done() {
		order = append(order, e.Pending().Name)
		e.Step(0)
	}
	if o := e.Outcome(); len(order) != 2 || order[0] != "early" || order[1] != "late" || o.Unscheduled != 1 {
		t.Errorf("%v ran, %+v", order, o)
	}
}
