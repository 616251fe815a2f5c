package play

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
	"gnnsched/workload"
	"gnnsched/workload/record"
	"gnnsched/workload/record/observe"
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

// Required node affinity is played; one that no shape can have is not, and its pod is counted.
func TestArrivalsWithAffinity(t *testing.T) {
	required := func(terms string) string {
		return `{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[` + terms + `]}}}`
	}
	zone := `{"key":"zone","operator":"In","values":["a"]}`
	for _, c := range []struct {
		affinity, want string
		lacks          int
	}{
		{required(`{"matchExpressions":[` + zone + `]}`), "disk=ssd, zone=a", 0},
		{required(`{"matchExpressions":[` + zone + `,{"key":"cpus","operator":"Gt","values":["8"]}]}`), "disk=ssd, zone=a, cpus>8", 0},
		{required(`{"matchExpressions":[{"key":"zone","operator":"NotIn","values":["a","b"]}]}`), "disk=ssd, zone notin (a,b)", 0},
		{required(`{"matchExpressions":[` + zone + `]},{"matchExpressions":[{"key":"gpu","operator":"Exists"}]}`), "disk=ssd, zone=a or gpu", 0},
		{required(`{"matchExpressions":[{"key":"zone","operator":"In","values":["<script>"]}]}`), "disk=ssd", 1},
		{required(`{"matchExpressions":[` + zone + `],"matchFields":[{"key":"metadata.name","operator":"In","values":["n"]}]}`), "disk=ssd", 1},
		{required(`{}`), "disk=ssd", 1},
		{required(``), "disk=ssd", 1},
		{`{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1,"preference":{"matchExpressions":[` + zone + `]}}]}}`,
			"disk=ssd", 1},
	} {
		got, lacks, err := arrivals([]record.Pod{{UID: "1", Name: "web", NodeSelector: `{"disk":"ssd"}`, Affinity: c.affinity}})
		fatal.If(t, err)
		s := got[0].Deployment.Shape
		where := (&cluster.Pod{NodeSelector: s.NodeSelector, NodeAffinity: s.NodeAffinity}).Where()
		if where != c.want || lacks["node affinity"] != c.lacks {
			t.Errorf("%s: lacks %v, runs where %q, want %q", c.affinity, lacks, where, c.want)
		}
	}
}

// A trace that became a record is played unchanged, with each replica by itself.
func TestPodRows(t *testing.T) {
	shape := workload.Shape{Requests: cluster.Resources{MilliCPU: 500, Memory: 1 << 30, GPUMilli: 250, Pods: 1},
		Limits:       cluster.Resources{MilliCPU: 600},
		NodeSelector: map[string]string{"disk": "ssd"}, GPUModels: []string{"T4"},
		NodeAffinity: [][]cluster.Requirement{
			{{Key: "zone", Operator: "In", Values: []string{"a", "b"}}}, {{Key: "gen", Operator: "Gt", Values: []string{"2"}}},
		},
		Tolerations: []cluster.Toleration{{Key: "a", Value: "b"}, {Key: "c", Exists: true, Effect: cluster.NoExecute}}}
	one := func(name string) workload.Deployment {
		return workload.Deployment{Name: name, Replicas: 1, Shape: shape}
	}
	two := one("web")
	two.Replicas = 2
	in := workload.Trace{{At: 0, Lifetime: 2.5, Deployment: one("job")}, {At: 90_000.25, Lifetime: math.Inf(1), Deployment: two}}
	rows := PodRows(in)
	got, lacks, err := arrivals(rows)
	if err != nil || len(lacks) > 0 {
		t.Fatalf("lacks %v, %v", lacks, err)
	}
	want := workload.Trace{
		in[0], {At: 90_000.25, Lifetime: math.Inf(1), Deployment: one("web-0")}, {At: 90_000.25, Lifetime: math.Inf(1), Deployment: one("web-1")},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if rows[0].Arrived != Midnight || rows[2].Workload != "Deployment/web" || rows[1].UID == rows[2].UID || rows[0].End != record.Succeeded {
		t.Errorf("rows %+v", rows)
	}
}

// Pods of an app are of a ReplicaSet, which has as many replicas at a time as there are pods.
func TestOwned(t *testing.T) {
	at := func(from, life float64, app string) workload.Arrival {
		return workload.Arrival{At: from, Lifetime: life, Deployment: workload.Deployment{Name: "pod", Replicas: 1, Shape: workload.Shape{Labels: map[string]string{"app": app}}}}
	}
	rows := PodRows(workload.Trace{at(0, 20, "App_1"), at(10, math.Inf(1), "App_1"), at(20, math.Inf(1), "App_1"), at(5, 1, "")})
	if r := rows[0]; r.OwnerKind != record.KindReplicaSet || r.OwnerName != "app-1" || r.End != record.Deleted || rows[3].OwnerKind != record.KindJob {
		t.Errorf("%+v", rows)
	}
	var got []string
	for _, o := range Owned(rows) {
		got = append(got, fmt.Sprintf("%s %s %d-%d %s", o.Kind, o.Name, (o.From-Midnight)/1000, max(o.To-Midnight, 0)/1000, o.Scale))
	}
	want := []string{`ReplicaSet app-1 0-10 {"replicas":1}`, `ReplicaSet app-1 10-20 {"replicas":2}`, `ReplicaSet app-1 20-0 {"replicas":2}`}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestNodeRows(t *testing.T) {
	n := &cluster.Node{Name: "n-1", GPUModel: "T4", Zone: "z", Labels: map[string]string{"topology.kubernetes.io/zone": "z"},
		Taints:      []cluster.Taint{{Key: "k", Effect: cluster.NoSchedule}},
		Allocatable: cluster.Resources{MilliCPU: 4000, Memory: 1 << 30, Pods: 10, GPU: 2}}
	rows := NodeRows([]*cluster.Node{n})
	got, open, err := machine(&rows[0])
	got.Name, got.Version = n.Name, 0
	if d := cmp.Diff(n, got.Node); err != nil || !open || d != "" {
		t.Errorf("open %v, %v: %s", open, err, d)
	}
}

func TestNamespaceNote(t *testing.T) {
	far := func(selector string) string {
		return `{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"kubernetes.io/hostname","namespaceSelector":` + selector + `}]}}`
	}
	labelled := record.Object{Kind: record.KindNamespace, Name: "other", Spec: `{"team":"x"}`}
	for what, c := range map[string]struct {
		affinity string
		objects  []record.Object
		want     string
	}{
		"a label": {far(`{"matchLabels":{"team":"x"}}`), nil,
			"1 pods select namespaces by labels, which the record lacks of 2 namespaces"},
		"a preference": {`{"podAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1,"podAffinityTerm":{"topologyKey":"zone","namespaceSelector":{"matchExpressions":[{"key":"team","operator":"DoesNotExist"}]}}}]}}`, nil, "1 pods select namespaces by labels, which the record lacks of 2 namespaces"},
		"one is known": {far(`{"matchLabels":{"team":"x"}}`), []record.Object{labelled},
			"1 pods select namespaces by labels, which the record lacks of 1 namespaces"},
		"both are known": {far(`{"matchLabels":{"team":"x"}}`), []record.Object{labelled, {Kind: record.KindNamespace, Name: "shop"}},
			""},
		"the name":                 {far(`{"matchLabels":{"kubernetes.io/metadata.name":"other"}}`), nil, ""},
		"another name and a label": {far(`{"matchLabels":{"kubernetes.io/metadata.name":"third","team":"x"}}`), nil, ""},
		"a name and a label": {far(`{"matchLabels":{"kubernetes.io/metadata.name":"other","team":"x"}}`), nil,
			"1 pods select namespaces by labels, which the record lacks of 2 namespaces"},
		"all namespaces":        {far(`{}`), nil, ""},
		"no selector":           {far(`null`), nil, ""},
		"no affinity":           {"", nil, ""},
		"none that can be read": {`{"podAntiAffinity":7}`, nil, ""},
	} {
		pods := []record.Pod{{Namespace: "shop", Name: "a", Affinity: c.affinity}, {Namespace: "other", Name: "b"}}
		if got := NamespaceNote("the record", pods, c.objects); got != c.want {
			t.Errorf("%s: %q, want %q", what, got, c.want)
		}
	}
}

// recorded writes a record with the given nodes.
func recorded(t *testing.T, nodes ...record.Node) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "a@b.record")
	w := fatal.Value(record.Create(dir, record.Options{}))(t)
	for _, n := range nodes {
		w.Node(n)
	}
	fatal.Value(w.Close())(t)
	return dir
}

func TestMachines(t *testing.T) {
	hour := int64(3_600_000)
	size := record.Node{MilliCPU: 4000, Memory: 8 << 30, Pods: 110}
	with := func(name string, from, to int64, change func(*record.Node)) record.Node {
		n := size
		n.Name, n.From, n.To = name, from, to
		if change != nil {
			change(&n)
		}
		return n
	}
	dir := recorded(t,
		with("ip-10-0-0-1.ec2.internal", hour, 0, func(n *record.Node) {
			n.GPU, n.GPUModel, n.Labels = 2, "T4", `{"topology.kubernetes.io/zone":"a","disk":"ssd"}`
			n.Taints = `[{"key":"gpu","effect":"NoSchedule"}]`
			n.Extended = `{"ephemeral-storage":"10Gi","attachable-volumes-aws-ebs":"39"}`
		}),
		with("small", hour, 2*hour, nil),
		with("small", 2*hour, 3*hour, func(n *record.Node) { n.MilliCPU, n.Gone = 2000, true }),
		with("cordoned", hour, 0, func(n *record.Node) { n.Unschedulable = true }),
		with("broken", hour, 0, func(n *record.Node) { n.Taints = `[{"key":"node.kubernetes.io/not-ready","effect":"NoExecute"}]` }),
		with("virtual", hour, 0, func(n *record.Node) { n.MilliCPU = 0 }),
	)
	first := Machine{Node: &cluster.Node{Name: "ip-10-0-0-1-ec2-internal", Zone: "a", GPUModel: "T4",
		Labels:      map[string]string{"topology.kubernetes.io/zone": "a", "disk": "ssd"},
		Taints:      []cluster.Taint{{Key: "gpu", Effect: cluster.NoSchedule}},
		Allocatable: cluster.Resources{MilliCPU: 4000, Memory: 8 << 30, Pods: 110, GPU: 2}},
		Extended: corev1.ResourceList{"ephemeral-storage": resource.MustParse("10Gi")}}
	small := func(cpu int64) Machine {
		return Machine{
			Node:     &cluster.Node{Name: "small", Allocatable: cluster.Resources{MilliCPU: cpu, Memory: 8 << 30, Pods: 110}},
			Extended: corev1.ResourceList{},
		}
	}
	for path, want := range map[string][]Machine{
		dir:                           {first},
		dir + "@1970-01-01T01:00:00Z": {first, small(4000)},
		dir + "@1970-01-01T02:00:00Z": {first, small(2000)},
		dir + "@1970-01-01T03:00:00Z": {first},
	} {
		m, ok, err := record.ParseMoment(path)
		if err != nil || !ok {
			t.Fatalf("%s: %v, %v", path, ok, err)
		}
		got, notes, err := Machines(m)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if d := cmp.Diff(want, got, cmpopts.IgnoreFields(cluster.Node{}, "Version")); d != "" {
			t.Errorf("%s: %s", path, d)
		}
		if len(notes) != 1 || !strings.HasPrefix(notes[0], "3 nodes that took no pods") {
			t.Errorf("%s: notes %q", path, notes)
		}
	}
}

func TestMachinesRefuses(t *testing.T) {
	size := record.Node{Name: "n", From: 1000, MilliCPU: 4000, Memory: 8 << 30, Pods: 110}
	bad := size
	bad.Extended = `{"x.y/z":"lots"}`
	cordoned := size
	cordoned.Unschedulable = true
	for want, path := range map[string]string{
		`x.y/z: "lots" is no amount`:                     recorded(t, bad),
		"none of the 1 nodes took pods":                  recorded(t, cordoned),
		"the record begins at 1970-01-01T00:00:01Z":      recorded(t, size) + "@1970-01-01T00:00:00.5Z",
		`"noon" is no time such as 2026-03-01T12:00:00Z`: recorded(t, size) + "@noon",
	} {
		m, ok, err := record.ParseMoment(path)
		if err == nil && ok {
			_, _, err = Machines(m)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, ok, err := record.ParseMoment(t.TempDir() + "@noon"); ok || err != nil {
		t.Errorf("a folder without a record: %v, %v", ok, err)
	}
}

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
	got := fatal.Value(replayOf(pods, hosts, objects,
		[]record.Run{{From: 10_000, To: 20_000, Missing: "usage"}, {From: 20_000, To: 30_000, Missing: "usage"}}))(t)
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
	if _, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]; !mirror || len(p.Annotations) < 2 {
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
	if _, ok := p.Spec.Containers[0].Resources.Requests[corev1.ResourceName("a")]; ok || len(r.Notes()) != 4 {
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
