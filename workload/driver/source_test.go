package driver

import (
	"strings"
	"testing"

	"gnnsched/internal/cluster"
	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
	"gnnsched/workload/trace/openb"
)

// The pods of an inflated list stay. They request the factor times the cluster's GPUs.
func TestInflated(t *testing.T) {
	pods, err := openb.ReadPods(strings.NewReader("name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time\n"+
		"b,500,1024,1,250,9,12\na,500,1024,1,1000,4,10\nc,500,1024,0,0,5,20\n"), "pods.csv")
	fatal.If(t, err)
	source := Inflated(pods, 1.3, 42, 0)
	plan, err := source.Plan(Room{Allocatable: cluster.Resources{GPU: 4}})
	fatal.If(t, err)
	f := plan.Fills()[0]
	if f.Deleted != 0 || f.Requests.TotalGPUMilli() < 5200 || f.Requests.TotalGPUMilli() >= 6200 {
		t.Errorf("got %+v", f)
	}
	if _, err := source.Plan(Room{}); exit.Code(err) != exit.Usage || !strings.Contains(err.Error(), "has no GPUs") {
		t.Errorf("got %v", err)
	}
	var c Config
	if source.Pace(&c); !c.Bare || c.Speed != 0 {
		t.Errorf("paced as %+v: want bare pods without times", c)
	}
}

func TestTraced(t *testing.T) {
	pods, err := openb.ReadPods(strings.NewReader("name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time\n"+
		"b,500,1024,1,250,9,12\na,500,1024,1,1000,4,10\n"), "pods.csv")
	fatal.If(t, err)
	source := Traced(openb.Trace(pods), 60, 1, nil)
	plan, err := source.Plan(Room{})
	if err != nil || !source.Fixed {
		t.Fatal(err, source.Fixed)
	}
	if f := plan.Fills()[0]; f.Pods != 1 || f.Deployments != 1 || f.Deleted != 1 {
		t.Errorf("got %+v: want one pod that comes and goes", f)
	}
	var c Config
	if source.Pace(&c); !c.Bare || c.Speed != 60 {
		t.Errorf("paced as %+v", c)
	}
}
