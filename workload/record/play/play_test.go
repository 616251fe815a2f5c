package play

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
	"gnnsched/workload"
	"gnnsched/workload/record"
)

func TestArrivals(t *testing.T) {
	pods := []record.Pod{
		{UID: "1", Name: "web", MilliCPU: 500, Memory: 1 << 30, CPULimit: 1000, MemoryLimit: 5, NodeSelector: `{"disk":"ssd"}`,
			Tolerations: `[{"key":"gpu","operator":"Exists"},{"key":"n","operator":"Gt","value":"5"}]`,
			Arrived:     10_000, Bound: 12_000, Ended: 72_500, End: record.Succeeded, Affinity: `{"podAntiAffinity":{}}`, Priority: 5},
		{UID: "2", Name: "web", MilliCPU: 1, Arrived: 11_000, Spread: `[{}]`},
		{UID: "3", Name: "Agent.x", Daemon: true, Arrived: 1},
		{UID: "4", Name: "Never.Ran_", GPU: 2, Arrived: 40_000, Ended: 45_000, End: record.Deleted},
	}
	got, lacks, err := arrivals(pods)
	fatal.If(t, err)
	want := workload.Trace{
		{At: 0, Lifetime: 60.5, Deployment: workload.Deployment{Name: "web", Replicas: 1, Shape: workload.Shape{
			Requests: cluster.Resources{MilliCPU: 500, Memory: 1 << 30, Pods: 1}, Limits: cluster.Resources{MilliCPU: 1000},
			NodeSelector: map[string]string{"disk": "ssd"}, Tolerations: []cluster.Toleration{{Key: "gpu", Exists: true}}}}},
		{At: 1, Lifetime: math.Inf(1), Deployment: workload.Deployment{Name: "web-2", Replicas: 1,
			Shape: workload.Shape{Requests: cluster.Resources{MilliCPU: 1, Pods: 1}}}},
		{At: 30, Lifetime: 5, Deployment: workload.Deployment{Name: "never-ran", Replicas: 1,
			Shape: workload.Shape{Requests: cluster.Resources{GPU: 2, Pods: 1}}}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if text := describe(lacks); text != "pod anti-affinity (1 pods), priority (1 pods), topology spread (1 pods)" {
		t.Error(text)
	}
	for want, bad := range map[string][]record.Pod{
		"no pods besides":                    pods[2:3],
		"pod x/a: node_selector: ":           {{UID: "1", Namespace: "x", Name: "a", NodeSelector: "{"}},
		"pod x/a: nodeSelector.<script>: ":   {{UID: "1", Namespace: "x", Name: "a", NodeSelector: `{"<script>":"a"}`}},
		"pod x/a: requests.gpu: 65 is not 0": {{UID: "1", Namespace: "x", Name: "a", GPU: 65}},
	} {
		if _, _, err := arrivals(bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// A required node affinity becomes part of the node selector if a selector can say it; else the pod counts as played without it.
func TestArrivalsWithAffinity(t *testing.T) {
	required := func(terms string) string {
		return `{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[` + terms + `]}}}`
	}
	zone := `{"key":"zone","operator":"In","values":["a"]}`
	for _, c := range []struct {
		affinity string
		want     map[string]string
		lacks    int
	}{
		{required(`{"matchExpressions":[` + zone + `]}`), map[string]string{"disk": "ssd", "zone": "a"}, 0},
		{required(`{"matchExpressions":[` + zone + `,{"key":"disk","operator":"In","values":["ssd"]}]}`),
			map[string]string{"disk": "ssd", "zone": "a"}, 0},
		{required(`{"matchExpressions":[` + zone + `,{"key":"disk","operator":"In","values":["hdd"]}]}`), map[string]string{"disk": "ssd"}, 1},
		{required(`{"matchExpressions":[{"key":"zone","operator":"In","values":["a","b"]}]}`), map[string]string{"disk": "ssd"}, 1},
		{required(`{"matchExpressions":[{"key":"zone","operator":"NotIn","values":["a"]}]}`), map[string]string{"disk": "ssd"}, 1},
		{required(`{"matchExpressions":[{"key":"zone","operator":"In","values":["<script>"]}]}`), map[string]string{"disk": "ssd"}, 1},
		{required(`{"matchExpressions":[` + zone + `]},{"matchExpressions":[` + zone + `]}`), map[string]string{"disk": "ssd"}, 1},
		{required(`{"matchExpressions":[` + zone + `],"matchFields":[{"key":"metadata.name","operator":"In","values":["n"]}]}`),
			map[string]string{"disk": "ssd"}, 1},
		{required(`{}`), map[string]string{"disk": "ssd"}, 1},
		{`{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1,"preference":{"matchExpressions":[` + zone + `]}}]}}`,
			map[string]string{"disk": "ssd"}, 1},
	} {
		got, lacks, err := arrivals([]record.Pod{{UID: "1", Name: "web", NodeSelector: `{"disk":"ssd"}`, Affinity: c.affinity}})
		fatal.If(t, err)
		if d := cmp.Diff(c.want, got[0].Deployment.Shape.NodeSelector); d != "" || lacks["node affinity"] != c.lacks {
			t.Errorf("%s: lacks %v: %s", c.affinity, lacks, d)
		}
	}
}
