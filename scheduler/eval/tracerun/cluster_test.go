package tracerun

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/agreement"
	"gnnsched/scheduler/eval/testbed/inprocess"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/server"
	"gnnsched/workload/driver"
)

func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func contender(t *testing.T, name string, p server.Profile) agreement.Contender {
	t.Helper()
	h, err := heuristic.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	p.SchedulerName = name
	return agreement.Contender{Contender: eval.Contender{Name: h.Name, New: h.New, RandomTies: h.RandomTies}, Profile: p}
}

// A policy puts every pod of a trace on the same node and the same devices as in the simulator, and so allocates as much
// of the GPUs, whether pods ask for them by annotations, claims or extended resources. With every profile, no device is
// allocated twice.
func TestClusterAgreesWithSimulator(t *testing.T) {
	for name, how := range map[string]driver.GPURequests{"annotations": driver.Annotated, "claims": driver.Claimed, "extended resources": driver.Extended} {
		t.Run(name, func(t *testing.T) { agrees(t, how) })
	}
}

func agrees(t *testing.T, how driver.GPURequests) {
	pods := &strings.Builder{}
	fmt.Fprintln(pods, "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec")
	for i := range 60 {
		ask := []string{"1,1000,", "1,300,", "1,460,A10|T4", "2,1000,T4", "0,0,"}[i%5]
		fmt.Fprintf(pods, "pod-%d,%d,%d,%s\n", i, 500+100*(i%7), 1024, ask)
	}
	c := Config{
		NodesFile: write(t, "nodes.csv", "sn,cpu_milli,memory_mib,gpu,model\nnode-0,16000,65536,4,T4\nnode-1,8000,32768,2,G2\nnode-2,12000,65536,4,A10\n"),
		PodsFile:  write(t, "pods.csv", pods.String()), Nodes: 3, GPUs: how, Factor: 1.3, Seeds: []uint64{42}, Settle: 3 * time.Second,
		Contenders: []agreement.Contender{
			contender(t, "fgd", server.Profile{Policy: "fgd"}),
			contender(t, "kube-scheduler", server.Profile{Variant: server.DefaultProfile}),
		},
		Launcher: inprocess.Launcher{}, Log: zerolog.Nop(), Progress: func(float64, string) {},
	}
	r, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range r.Trials {
		if got.Fallbacks != 0 || got.Bound == 0 || got.Bound == got.Pods || got.GPU.Asked < 13_000 {
			t.Errorf("%+v", got)
		}
		if got.Policy == "fgd" && (got.SameDevices != got.Pods || got.GPU.Allocation() != got.Simulated.Allocation || got.GPU.AllocationAtFull() != got.Simulated.AllocationAtFull) {
			t.Errorf("%d of %d pods are on the nodes and %d on the devices of the simulator: %+v, simulated %+v", got.Same, got.Pods, got.SameDevices, got.GPU, *got.Simulated)
		}
	}
}
