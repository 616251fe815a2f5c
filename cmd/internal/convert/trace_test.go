package convert

import (
	"path/filepath"
	"strings"
	"testing"

	"gnnsched/internal/exit"
	"gnnsched/workload/record"
	"gnnsched/workload/record/play"
	"gnnsched/workload/trace"
)

const (
	openbNodes = "sn,cpu_milli,memory_mib,gpu,model\nn-0,64000,262144,2,T4\nn-1,32000,131072,0,\n"
	openbPods  = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n" +
		"p-0,6000,10240,1,460,T4,LS,Running,100,400,110\np-1,1000,1024,0,0,,BE,Running,160,,\n"
	aaml = "name,pod_count,cpu_request,cpu_limit,mem_request,mem_limit,action\nbrave-otter,2,250m,500m,512Mi,1Gi,add\n,,,,,,reset\n"
)

// A trace becomes a record, which is played as the trace is.
func TestRecordOfATrace(t *testing.T) {
	dir := t.TempDir()
	list, pods := file(t, filepath.Join(dir, "nodes.csv"), openbNodes), file(t, filepath.Join(dir, "pods.csv"), openbPods)
	to := filepath.Join(dir, "openb.record")
	if _, err := convert(t, "--out", to, list, pods); err != nil {
		t.Fatal(err)
	}
	r, err := record.Open(to)
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := r.NodesAt(0)
	if err != nil || len(nodes) != 2 || nodes[0].GPU != 2 || nodes[0].GPUModel != "T4" || nodes[1].MilliCPU != 32_000 {
		t.Errorf("nodes %+v, %v", nodes, err)
	}
	runs, err := r.Runs()
	if err != nil || len(runs) != 1 || runs[0].Source != "openb" || runs[0].Program != "v1.2.3" || runs[0].From != play.Midnight ||
		runs[0].To != play.Midnight+300_000 {
		t.Errorf("runs %+v, %v", runs, err)
	}
	got, err := trace.Load(to)
	if err != nil || len(got.Arrivals) != 2 || got.Arrivals[0].Lifetime != 300 || got.Arrivals[1].At != 60 ||
		got.Arrivals[0].Deployment.Shape.Requests.GPUMilli != 460 || len(got.Notes) > 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestRecordOfAPlan(t *testing.T) {
	dir := t.TempDir()
	to := filepath.Join(dir, "aaml.record")
	if _, err := convert(t, "--out", to, file(t, filepath.Join(dir, "a.csv"), aaml)); err != nil {
		t.Fatal(err)
	}
	got, err := trace.Load(to)
	if err != nil || len(got.Arrivals) != 2 || got.Arrivals[1].Deployment.Name != "brave-otter-1" || got.Arrivals[1].Lifetime != 1 ||
		got.Arrivals[1].Deployment.Shape.Limits.MilliCPU != 500 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestRecordOfATraceRefuses(t *testing.T) {
	dir := t.TempDir()
	list, pods := file(t, filepath.Join(dir, "nodes.csv"), openbNodes), file(t, filepath.Join(dir, "pods.csv"), openbPods)
	bad := file(t, filepath.Join(dir, "bad.csv"), "arrival,cpu_request,mem_request\n0,lots,1Gi\n")
	for want, files := range map[string][]string{
		"is a second node list": {list, list},
		"is a second trace":     {pods, pods},
		"bad.csv:2":             {bad},
		"no such file":          {filepath.Join(dir, "none.csv")},
	} {
		to := filepath.Join(dir, "x.record")
		if _, err := convert(t, append([]string{"--out", to}, files...)...); err == nil || !strings.Contains(err.Error(), want) ||
			exit.Code(err) != exit.Usage {
			t.Errorf("%v, want %q", err, want)
		}
		if record.Is(to) {
			t.Errorf("%q left a record", want)
		}
	}
}
