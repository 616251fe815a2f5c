//go:build !service && !k136

package karpenter

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gnnsched/internal/fatal"
	"gnnsched/scheduler/autoscale"
)

func inZone(zone string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{v1.LabelTopologyZone: zone} }
}

func daemon(p *v1.Pod) {
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "agent"}}
}

func TestProvisioning(t *testing.T) {
	tainted := pool("gpu", atOnce, `"weight": 10,`)
	tainted.Manifest = []byte(strings.Replace(string(tainted.Manifest), `"requirements"`,
		`"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}], "requirements"`, 1))
	plain := pool("plain", atOnce, "")
	for name, c := range map[string]struct {
		pools   []autoscale.Pool
		pods    []*v1.Pod
		daemons []*v1.Pod
		want    string
		note    string
	}{
		"the cheapest type that fits": {pods: []*v1.Pod{pod("p", "1")}, want: "   1s start plain-000001 m2 a"},
		"two pods share a node": {pods: []*v1.Pod{pod("p", "1500m"), pod("q", "1500m")},
			want: "   1s start plain-000001 m4 a"},
		"a zone":               {pods: []*v1.Pod{pod("p", "1", inZone("b"))}, want: "   1s start plain-000001 m2 b"},
		"daemons need room":    {pods: []*v1.Pod{pod("p", "1")}, daemons: []*v1.Pod{pod("d", "1", daemon)}, want: "   1s start plain-000001 m4 a"},
		"a label of the pool":  {pods: []*v1.Pod{pod("p", "1", func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"team": "x"} })}, want: "   1s start plain-000001 m2 a"},
		"a label of the types": {pods: []*v1.Pod{pod("p", "1", func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"cloud.example/cores": "8"} })}, want: "   1s start plain-000001 m8 a"},
		"taints of a pool": {pools: []autoscale.Pool{tainted, plain}, pods: []*v1.Pod{pod("p", "1")},
			want: "   1s start plain-000001 m2 a"},
		"a pool of higher weight": {pools: []autoscale.Pool{tainted, plain},
			pods: []*v1.Pod{pod("p", "1", func(p *v1.Pod) { p.Spec.Tolerations = []v1.Toleration{{Operator: v1.TolerationOpExists}} })},
			want: "   1s start gpu-000001 m2 a"},
		"a limit": {pools: []autoscale.Pool{pool("plain", atOnce, `"limits": {"cpu": "3"},`)},
			pods: []*v1.Pod{pod("p", "1500m"), pod("q", "1500m")},
			want: "   1s start plain-000001 m2 a", note: "all available instance types exceed limits"},
		"too large": {pods: []*v1.Pod{pod("p", "9")}, note: "no instance type has enough resources"},
		"no such label": {pods: []*v1.Pod{pod("p", "1", func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"no": "such"} })},
			note: `label "no" does not have known values`},
	} {
		t.Run(name, func(t *testing.T) {
			if c.pools == nil {
				c.pools = []autoscale.Pool{plain}
			}
			w := newWorld(t, shop(c.pools...))
			w.c.Waiting, w.c.Daemons = c.pods, c.daemons
			if got := w.run(30 * time.Second); got != c.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, c.want)
			}
			notes := strings.Join(w.scaler.(interface{ Notes() []string }).Notes(), "\n")
			if !strings.Contains(notes, c.note) || c.note == "" && notes != "" {
				t.Errorf("notes: %s\nwant: %s", notes, c.note)
			}
		})
	}
}

// A batch ends a second after its last pod, and ten seconds after its first one.
func TestBatch(t *testing.T) {
	w := newWorld(t, shop(pool("plain", atOnce, "")))
	var started time.Duration
	for i := 0; started == 0 && i < 100; i++ {
		w.c.Waiting = append(w.c.Waiting, pod(strings.Repeat("p", i+1), "10m"))
		plan := w.step()
		if len(plan.Start) > 0 {
			started = w.c.Now.Sub(start)
		}
		w.c.Now = w.c.Now.Add(500 * time.Millisecond)
	}
	if started != 10*time.Second {
		t.Errorf("started after %v", started)
	}
}

// A batch goes by when pods came, not by when the scaler was shown them.
func TestBatchBetweenSteps(t *testing.T) {
	w := newWorld(t, shop(pool("plain", atOnce, "")))
	w.step()
	for i, ms := range []int{300, 700} {
		w.c.Waiting = append(w.c.Waiting, pod(fmt.Sprint("p", i), "1", func(p *v1.Pod) { p.CreationTimestamp.Time = start.Add(time.Duration(ms) * time.Millisecond) }))
	}
	w.c.Now = start.Add(900 * time.Millisecond)
	if plan := w.step(); plan.Next.Sub(start) != 1700*time.Millisecond {
		t.Errorf("the batch ends at %v", plan.Next)
	}
}

// Karpenter goes by what the class of a pool says of zones and pods.
func TestClassOfNodes(t *testing.T) {
	catalog, err := autoscale.Read([]byte("[{name: m, resources: {cpu: 8, memory: 32Gi}, offerings: [{zone: a, price: 1}, {zone: b, price: 2}]}]"), []byte(
		"{kind: NodePool, metadata: {name: p}, spec: {template: {spec: {nodeClassRef: {name: c}, requirements: []}}}}\n---\n"+
			"{kind: EC2NodeClass, metadata: {name: c}, spec: {kubelet: {maxPods: 1}}, status: {subnets: [{zone: b}]}}"))
	fatal.If(t, err)
	w := newWorld(t, catalog)
	w.c.Waiting = []*v1.Pod{pod("p", "1"), pod("q", "1")}
	if got := w.run(5 * time.Second); got != "   1s start p-000001 m b\n   1s start p-000002 m b" {
		t.Error(got)
	}
}
