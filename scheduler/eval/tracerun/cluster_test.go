package tracerun

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/agreement"
	sources "gnnsched/scheduler/eval/contender"
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

// network returns a shipped network, in the simulator and on the cluster, with time for each decision even on a slow machine.
func network(t *testing.T, name string) agreement.Contender {
	t.Helper()
	x, err := sources.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return agreement.Contender{Contender: x,
		Profile: server.Profile{SchedulerName: name, Args: server.Args{Variant: name, Deadline: metav1.Duration{Duration: time.Minute}}}}
}

// A policy puts every pod of a trace on the same node and the same devices as in the simulator, and so allocates as much
// of the GPUs, whether pods ask for them by annotations, claims or extended resources. With every profile, no device is
// allocated twice.
func TestClusterAgreesWithSimulator(t *testing.T) {
	for name, how := range map[string]driver.GPURequests{"annotations": driver.Annotated, "claims": driver.Claimed,
		"extended resources": driver.Extended} {
		t.Run(name, func(t *testing.T) { agrees(t, how) })
	}
}

// Pods with claims, with extended resources and with annotations compete for the GPUs of one cluster, with fgd also for the GPUs of one
// machine; upstream's placements are drawn. With each profile, no device is given twice and each pod has its devices named, else Run
// returns an error.
func TestMixedRequests(t *testing.T) {
	c := config(t, driver.Mixed)
	c.Nodes, c.NodesFile = 6, write(t, "nodes.csv", `sn,cpu_milli,memory_mib,gpu,model
node-0,64000,262144,8,T4
node-1,64000,262144,8,G2
node-2,64000,262144,8,A10
node-3,64000,262144,8,T4
node-4,64000,262144,8,G2
node-5,64000,262144,8,A10
`)
	r, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range r.Trials {
		if got.Fallbacks != 0 || got.Bound == got.Pods || got.GPU.Allocation() > 1 || got.Policy == "fgd" && got.Tally.Shared == 0 {
			t.Errorf("%s: %+v, %+v", got.Policy, got, *got.Tally)
		}
		for _, k := range []kind{got.Tally.Claims, got.Tally.Extended, got.Tally.Annotations} {
			if k.Bound == 0 || k.Bound > k.Pods {
				t.Errorf("%s: %+v", got.Policy, *got.Tally)
			}
		}
		t.Logf("%s: %+v, %.1f %% of the GPUs", got.Policy, *got.Tally, 100*got.GPU.Allocation())
	}
	var b bytes.Buffer
	if err := r.Write(&b, false); err != nil || !strings.Contains(b.String(), "machines with all three") {
		t.Errorf("%v: %s", err, b.String())
	}
}

func agrees(t *testing.T, how driver.GPURequests) {
	c := config(t, how)
	if how == driver.Claimed {
		c.Contenders = append(c.Contenders, network(t, "gpu-gnn"))
	}
	r, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range r.Trials {
		if got.Fallbacks != 0 || got.Bound == 0 || got.Bound == got.Pods || got.GPU.Asked < 13_000 {
			t.Errorf("%+v", got)
		}
		if got.Policy != "kube-scheduler" && (got.SameDevices != got.Pods || got.GPU.Allocation() != got.Simulated.Allocation ||
			got.GPU.AllocationAtFull() != got.Simulated.AllocationAtFull) {
			t.Errorf("%d of %d pods are on the nodes and %d on the devices of the simulator: %+v, simulated %+v",
				got.Same, got.Pods, got.SameDevices, got.GPU, *got.Simulated)
		}
		if chosen := how != driver.Annotated && got.Policy != "kube-scheduler"; (got.Choices.Taken > 0) != chosen || got.Choices.Other != 0 {
			t.Errorf("%s, choices of devices: %+v", got.Policy, got.Choices)
		}
	}
}

// config returns a comparison of FGD and upstream's profile on three machines with ten GPUs.
func config(t *testing.T, how driver.GPURequests) Config {
	pods := &strings.Builder{}
	fmt.Fprintln(pods, "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec")
	for i := range 60 {
		ask := []string{"1,1000,", "1,300,", "1,460,A10|T4", "2,1000,T4", "0,0,"}[i%5]
		fmt.Fprintf(pods, "pod-%d,%d,%d,%s\n", i, 500+100*(i%7), 1024, ask)
	}
	return Config{
		NodesFile: write(t, "nodes.csv",
			"sn,cpu_milli,memory_mib,gpu,model\nnode-0,16000,65536,4,T4\nnode-1,8000,32768,2,G2\nnode-2,12000,65536,4,A10\n"),
		PodsFile: write(t, "pods.csv", pods.String()), Nodes: 3, GPUs: how, Factor: 1.3, Seeds: []uint64{42},
		Contenders: []agreement.Contender{
			contender(t, "fgd", server.Profile{Args: server.Args{Policy: "fgd"}}),
			contender(t, "kube-scheduler", server.Profile{Args: server.Args{Variant: server.DefaultProfile}}),
		},
		Launcher: inprocess.Launcher{}, Log: zerolog.Nop(), Progress: func(float64, string) {},
	}
}
