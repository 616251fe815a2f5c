package play

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gnnsched/workload/record"
)

// Pods that ran at the beginning and pods of DaemonSets keep their nodes; pods leave at their recorded time; unplayed properties are
// counted.
func TestReplayOfRows(t *testing.T) {
	pods := []record.Pod{
		{UID: "1", Namespace: "a", Name: "web", Arrived: 1000, Bound: 2000, Node: "n1", Ended: 15_000, End: record.Deleted, Claims: `["data"]`,
			Affinity: `{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"zone","namespaceSelector":{"matchLabels":{"team":"x"}}}],"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1,"podAffinityTerm":{"topologyKey":"zone","namespaceSelector":{"matchExpressions":[{"key":"tier","operator":"Exists"}]}}}]}}`},
		{UID: "2", Namespace: "b", Name: "web", Arrived: 9000, Bound: 12_000, Node: "n2", OwnerKind: "ReplicaSet", OwnerName: "web-1"},
		{UID: "3", Namespace: "b", Name: "agent", Arrived: 11_000, Bound: 11_000, Node: "n3", Daemon: true, OwnerKind: "DaemonSet",
			Labels: `{"app.kubernetes.io/managed-by":"Helm"}`},
		{UID: "4", Namespace: "b", Name: "lost", Arrived: 11_000, Daemon: true},
		{UID: "6", Namespace: "b", Name: "huge", Arrived: 11_000, GPU: 1 << 20},
		{UID: "7", Namespace: "b", Name: "typo", Arrived: 12_000, GPU: 1, GPUModels: `["T4"`, NodeSelector: "{",
			Tolerations: `[{"key":"a","operator":"Exists"},5]`, Labels: "[]"},
		{UID: "8", Namespace: "b", Name: "nameless", Arrived: 12_000, GPU: 1, GPUModels: `[""]`},
		{UID: "9", Namespace: "b", Name: "tolerant", Arrived: 12_000, Tolerations: `[{"operator":"Equal"}]`},
		{UID: "5", Namespace: "b", Name: "gone", Arrived: 1000, Bound: 2000, Node: "n1", Ended: 10_000},
	}
	objects := []record.Object{{Kind: record.KindNamespace, Name: "a",
		Spec: `{"team":"x","tier":"1","istio-injection":"enabled","pod-security.kubernetes.io/enforce":"restricted"}`},
		{Kind: record.KindBudget, Namespace: "a", Name: "web"}}
	hosts := []record.Node{
		{Name: "n1", Labels: `{"kubernetes.io/hostname":"n1"}`}, {Name: "n2.lab", Labels: `{"kubernetes.io/hostname":"n2"}`},
		{Name: "n3", Labels: "["},
	}
	got, err := replayOf(pods, hosts, objects,
		[]record.Run{{From: 10_000, To: 20_000, Missing: "usage"}, {From: 20_000, To: 30_000, Missing: "usage"}})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]string{"n2": "n2.lab"}, got.Hostnames); d != "" {
		t.Error(d)
	}
	var times [][2]float64
	names := map[string]string{}
	for _, a := range got.Trace {
		times = append(times, [2]float64{a.At, a.Lifetime})
		part := got.Parts[a.Deployment.Name]
		names[a.Deployment.Name] = part.Row.Namespace + "/" + part.Row.Name + " on " + part.Node
	}
	if d := cmp.Diff([][2]float64{{0, 5}, {0, math.Inf(1)}, {1, math.Inf(1)}, {2, math.Inf(1)}}, times); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(map[string]string{"web": "a/web on n1", "web-2": "b/web on ", "agent": "b/agent on n3", "typo": "b/typo on "},
		names); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(map[string]map[string]string{"a": {"team": "x", "tier": "1"}}, got.Namespaces); d != "" {
		t.Error(d)
	}
	want := "the column gpu_models of 1 rows cannot be read; they are played without it|the column labels of 1 rows cannot be read; " +
		"they are played without it|the column node_selector of 1 rows cannot be read; they are played without it|the column tolerations of 1 " +
		"rows cannot be read; they are played without it|not played: DaemonSet pods without a node (1 pods), disruption budgets (1 pods), " +
		"owners, and so the default spreading (1 pods), pods with a GPU model that has no name (1 pods), " +
		"pods with requests that are out of range (1 pods), pods with tolerations that Kubernetes refuses (1 pods), " +
		"the label app.kubernetes.io/managed-by (1 pods), volume claims (1 pods)|1 pods select namespaces by labels, " +
		"which the record lacks of 1 namespaces|not recorded, and so not played: usage"
	if notes := strings.Join(got.Notes, "|"); notes != want {
		t.Errorf("notes %q", notes)
	}
	if _, err := replayOf(pods[8:], nil, nil, []record.Run{{From: 10_000}}); err == nil ||
		!strings.Contains(err.Error(), "no pods that can be played") {
		t.Errorf("without pods: %v", err)
	}
}
