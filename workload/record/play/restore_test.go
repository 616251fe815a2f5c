package play

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gnnsched/workload/record"
	"gnnsched/workload/record/observe"
)

// A pod that is restored and observed again gives the row that it came from.
func TestPodOfARow(t *testing.T) {
	row := record.Pod{
		UID: "u", Namespace: "shop", Name: "web-0", Scheduler: "default-scheduler", OwnerKind: "StatefulSet", OwnerName: "web",
		Workload: "StatefulSet/web",
		Priority: 7, PriorityClass: "high", Preemption: "Never", MilliCPU: 250, Memory: 1 << 30, CPULimit: 500, MemoryLimit: 2 << 30,
		GPUMilli: 300, GPUModels: `["T4"]`, Extended: `{"example.com/fpga":"2"}`,
		Labels: `{"app":"web"}`, NodeSelector: `{"disk":"ssd"}`,
		Affinity: `{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"labelSelector":{"matchLabels":{"app":"web"}},"topologyKey":"zone"}]}}`,
		Spread:   `[{"maxSkew":1,"topologyKey":"zone","whenUnsatisfiable":"DoNotSchedule"}]`, Tolerations: `[{"key":"gpu","operator":"Exists"}]`,
		HostPorts: `["TCP/0.0.0.0/80","UDP/::1/53"]`, Holds: "[]", DoNotDisrupt: "[]", Arrived: 5000,
	}
	var r Reader
	p := r.Pod(&row)
	p.CreationTimestamp = metav1.NewTime(time.UnixMilli(row.Arrived))
	got := observe.Pod(p)
	got.Images = ""
	if d := cmp.Diff(row, got); d != "" || len(r.Notes()) > 0 {
		t.Errorf("notes %q: %s", r.Notes(), d)
	}
}

// A static pod keeps the GPU models that it names.
func TestStaticPod(t *testing.T) {
	var r Reader
	p := r.Pod(&record.Pod{Name: "agent", Daemon: true, GPUMilli: 300, GPUModels: `["T4"]`})
	if _, mirror := p.Annotations[v1.MirrorPodAnnotationKey]; !mirror || len(p.Annotations) < 2 {
		t.Errorf("annotations %v", p.Annotations)
	}
}

// Columns that cannot be read, as anyone may write them, count as empty and are counted.
func TestHostileColumns(t *testing.T) {
	var r Reader
	p := r.Pod(&record.Pod{
		Affinity: "{", Labels: `["a"]`, HostPorts: `["80","TCP/0.0.0.0/99999","TCP/0.0.0.0/0"]`, Extended: `{"a":"-1","b":"lots"}`, CPULimit: 1,
		MilliCPU: 2,
	})
	if p.Spec.Affinity != nil || len(p.Labels) > 0 || len(p.Spec.Containers[0].Ports) > 0 || len(p.Spec.Containers[0].Resources.Limits) > 0 {
		t.Errorf("pod %+v", p)
	}
	if _, ok := p.Spec.Containers[0].Resources.Requests[v1.ResourceName("a")]; ok || len(r.Notes()) != 4 {
		t.Errorf("notes %q", r.Notes())
	}
	// Nothing of such a column stays.
	p = r.Pod(&record.Pod{
		GPU: 1, GPUModels: `["T4",5]`, Labels: `{"a":"b","c":5}`, Tolerations: `[{"key":"a"},5]`, Affinity: `{"nodeAffinity":{},"podAffinity":5}`,
	})
	if len(p.Labels)+len(p.Annotations)+len(p.Spec.Tolerations) > 0 || p.Spec.Affinity != nil {
		t.Errorf("pod %+v", p)
	}
}
