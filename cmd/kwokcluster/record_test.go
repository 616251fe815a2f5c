package main

import (
	"flag"
	"path/filepath"
	"testing"

	ucli "github.com/urfave/cli/v2"
	corev1 "k8s.io/api/core/v1"

	"gnnsched/internal/cluster/kube"
	"gnnsched/workload/record"
)

// The nodes of a record become pools of one node, with everything that the scheduler reads of them.
func TestPoolsOfARecord(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "prod.record")
	w, err := record.Create(dir, record.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w.Node(record.Node{Name: "gpu.example", From: 1000, MilliCPU: 96_000, Memory: 1 << 40, Pods: 250, GPU: 8, GPUModel: "A100",
		Labels: `{"kubernetes.io/hostname":"gpu.example","kubernetes.io/arch":"arm64","topology.kubernetes.io/zone":"b"}`,
		Taints: `[{"key":"nvidia.com/gpu","value":"present","effect":"NoSchedule"}]`, Extended: `{"example.com/fpga":"2"}`})
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	set := flag.NewFlagSet("up", flag.ContinueOnError)
	set.String("pools", dir, "")
	got, err := pools(ucli.NewContext(app(nil), set, nil))
	if err != nil || len(got) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	p := got[0]
	fpgas := p.Capacity["example.com/fpga"]
	if p.Name != "gpu-example" || p.Capacity.Cpu().String() != "96" || fpgas.Value() != 2 || kube.AmountsIn(p.Capacity).GPUCount != 8 &&
		kube.AmountsIn(p.Capacity).GPU != 8 {
		t.Errorf("pool %+v", p)
	}
	if p.Labels["kubernetes.io/arch"] != "arm64" || p.Labels["topology.kubernetes.io/zone"] != "b" ||
		p.Labels["kubernetes.io/hostname"] != "" || p.Labels[kube.GPUModelLabel] != "A100" {
		t.Errorf("labels %v", p.Labels)
	}
	if len(p.Taints) != 1 || p.Taints[0] != (corev1.Taint{Key: "nvidia.com/gpu", Value: "present", Effect: corev1.TaintEffectNoSchedule}) {
		t.Errorf("taints %v", p.Taints)
	}
}
