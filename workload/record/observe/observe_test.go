package observe

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"gnnsched/internal/fatal"
	"gnnsched/workload/record"
)

const second = 1000

func at(s int64) metav1.Time { return metav1.NewTime(time.Unix(s, 0)) }

func podOf(name string, created int64) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "shop", UID: types.UID("uid-" + name), CreationTimestamp: at(created),
			Labels:          map[string]string{"app": "web", "pod-template-hash": "7f9"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web-7f9", Controller: ptr.To(true)}},
		},
		Spec: corev1.PodSpec{SchedulerName: "default-scheduler", Containers: []corev1.Container{{
			Name: "c", Image: "nginx", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("250m"),
				"memory": resource.MustParse("1Gi"), "example.com/fpga": resource.MustParse("2")}},
		}}},
	}
}

func bind(p *corev1.Pod, node string, when int64) *corev1.Pod {
	p = p.DeepCopy()
	p.Spec.NodeName = node
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: at(when)}}
	return p
}

func finish(p *corev1.Pod, phase corev1.PodPhase, when int64) *corev1.Pod {
	p = p.DeepCopy()
	p.Status.Phase = phase
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: at(when)}}}}
	return p
}

// sink collects the last row of each key.
type sink struct {
	pods  map[string]record.Pod
	nodes []record.Node
	rows  int

	objects []record.Object
}

func (s *sink) Pod(p record.Pod)       { s.pods[p.UID] = p; s.rows++ }
func (s *sink) Node(n record.Node)     { s.nodes = append(s.nodes, n) }
func (s *sink) Object(o record.Object) { s.objects = append(s.objects, o) }

// follower returns a follower with a clock that the test sets.
func follower(open record.State) (f *Follower, s *sink, clock *int64) {
	clock, s = new(int64), &sink{pods: map[string]record.Pod{}}
	return NewFollower(Config{Out: s, Now: func() int64 { return *clock }, Open: open}), s, clock
}

func TestPodFields(t *testing.T) {
	p := podOf("a", 100)
	p.Spec.Priority, p.Spec.PreemptionPolicy, p.Spec.PriorityClassName = ptr.To[int32](7), ptr.To(corev1.PreemptNever), "high"
	p.Spec.NodeSelector = map[string]string{"disk": "ssd"}
	p.Spec.Tolerations = []corev1.Toleration{
		{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
			TolerationSeconds: ptr.To[int64](300)}, {Key: "gpu", Operator: corev1.TolerationOpExists},
	}
	p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "zone",
		WhenUnsatisfiable: corev1.DoNotSchedule}}
	p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: "kubernetes.io/hostname"}}}}
	p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80}, {ContainerPort: 81, HostPort: 8081}}
	p.Spec.Volumes = []corev1.Volume{
		{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}},
		{Name: "h", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/run"}}},
		{Name: "e", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: "c", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}},
	}
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}}
	want := record.Pod{
		UID: "uid-a", Namespace: "shop", Name: "a", OwnerKind: "ReplicaSet", OwnerName: "web-7f9", Workload: "Deployment/web",
		Scheduler: "default-scheduler",
		Priority:  7, PriorityClass: "high", Preemption: "Never", MilliCPU: 250, Memory: 1 << 30, Extended: `{"example.com/fpga":"2"}`,
		Labels: `{"app":"web","pod-template-hash":"7f9"}`, NodeSelector: `{"disk":"ssd"}`, Tolerations: `[{"key":"gpu","operator":"Exists"}]`,
		Spread:    `[{"maxSkew":1,"topologyKey":"zone","whenUnsatisfiable":"DoNotSchedule"}]`,
		Affinity:  `{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"kubernetes.io/hostname"}]}}`,
		HostPorts: `["TCP/0.0.0.0/8081"]`, Claims: `["data"]`, Images: `["nginx"]`, Holds: `["emptyDir","hostPath","resourceClaim"]`,
		DoNotDisrupt: "[]", Arrived: 100 * second, Bound: 103 * second, Node: "n1",
	}
	if d := cmp.Diff(want, Pod(bind(p, "n1", 103))); d != "" {
		t.Error(d)
	}
}

func TestOwners(t *testing.T) {
	for _, c := range []struct {
		kind, name, hash, workload string
		daemon                     bool
	}{
		{"ReplicaSet", "web-7f9", "7f9", "Deployment/web", false},
		{"ReplicaSet", "bare", "", "ReplicaSet/bare", false},
		{"Job", "backup-28934120", "", "CronJob/backup", false},
		{"Job", "train-2", "", "Job/train-2", false},
		{"DaemonSet", "logs", "", "DaemonSet/logs", true},
		{"StatefulSet", "db", "", "StatefulSet/db", false},
	} {
		p := podOf("a", 1)
		p.OwnerReferences[0].Kind, p.OwnerReferences[0].Name, p.Labels["pod-template-hash"] = c.kind, c.name, c.hash
		if got := Pod(p); got.Workload != c.workload || got.Daemon != c.daemon {
			t.Errorf("%s %s: workload %s, daemon %v", c.kind, c.name, got.Workload, got.Daemon)
		}
	}
	p := podOf("kube-proxy-n1", 1)
	p.OwnerReferences, p.Annotations = nil, map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	if got := Pod(p); !got.Daemon || got.Workload != "" {
		t.Errorf("a static pod: %+v", got)
	}
}

// Amounts that no machine has are accepted by an API server. A record with them must stay readable.
func TestAbsurdAmounts(t *testing.T) {
	p := podOf("a", 1)
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
		"cpu": resource.MustParse("9E"), "memory": resource.MustParse("9E"), "nvidia.com/gpu": resource.MustParse("9E"),
	}
	w := fatal.Value(record.Create(t.TempDir()+"/r", record.Options{}))(t)
	f := NewFollower(Config{Out: w, Now: func() int64 { return 5 * second }})
	f.Pod(p, true)
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{Allocatable: p.Spec.Containers[0].Resources.Requests},
	}
	f.Node(n)
	fatal.Value(w.Close())(t)
}

// A pod's way: it arrives, is bound, ends, and is deleted. Within the second that the API names, the follower's clock counts.
func TestWayOfAPod(t *testing.T) {
	f, s, clock := follower(record.State{})
	p := podOf("a", 100)
	*clock = 100*second + 250
	f.Pod(p, true)
	*clock = 100*second + 900
	b := bind(p, "n1", 100)
	f.Pod(b, true)
	rows := s.rows
	f.Pod(b, true) // a status that the record does not hold has changed
	if s.rows != rows {
		t.Error("a row was written although nothing changed")
	}
	if c := f.Counts(); c.Pods != 1 || c.Waiting != 0 || c.Arrived != 1 || c.Bound != 1 {
		t.Errorf("counts %+v", c)
	}
	*clock = 300 * second
	f.Pod(finish(b, corev1.PodSucceeded, 160), true)
	f.PodGone(finish(b, corev1.PodSucceeded, 160))
	got := s.pods["uid-a"]
	if got.Arrived != 100*second+250 || got.Bound != 100*second+900 || got.Ended != 160*second || got.End != record.Succeeded ||
		got.Node != "n1" {
		t.Errorf("%+v", got)
	}
}

// A pod with scheduling gates arrives when it has lost them. A pod that goes earlier never arrived.
func TestGates(t *testing.T) {
	f, s, clock := follower(record.State{})
	gate := func(p *corev1.Pod) *corev1.Pod {
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/quota"}}
		return p
	}
	f.Pod(gate(podOf("seen", 100)), true)
	f.Pod(gate(podOf("gone", 100)), true)
	f.Pods([]*corev1.Pod{gate(podOf("seen", 100)), gate(podOf("gone", 100)), gate(podOf("unseen", 100)), gate(podOf("lost", 100))})
	f.PodGone(gate(podOf("gone", 100)))
	if s.rows != 0 {
		t.Errorf("%d rows of pods with gates", s.rows)
	}
	*clock = 160*second + 5
	f.Pod(podOf("seen", 100), true)
	*clock = 200 * second
	f.Pods([]*corev1.Pod{bind(podOf("seen", 100), "n1", 161), bind(podOf("unseen", 100), "n1", 170)})
	for uid, want := range map[string][2]int64{"uid-seen": {160*second + 5, 161 * second}, "uid-unseen": {170 * second, 170 * second}} {
		if got := s.pods[uid]; got.Arrived != want[0] || got.Bound != want[1] {
			t.Errorf("%s arrived at %d and was bound at %d, want %d", uid, got.Arrived, got.Bound, want)
		}
	}
	if c := f.Counts(); len(s.pods) != 2 || len(f.gated) != 0 || c.Arrived != 2 || c.Waiting != 0 {
		t.Errorf("%d pods, %d gated, counts %+v", len(s.pods), len(f.gated), c)
	}
}

func TestClocksThatJump(t *testing.T) {
	f, s, clock := follower(record.State{})
	*clock = 5000 * second // far ahead of the API server
	f.Pod(podOf("a", 100), true)
	*clock = 7 * second // and then far behind
	f.PodGone(bind(podOf("a", 100), "n1", 90))
	got := s.pods["uid-a"]
	if got.Arrived != 100*second+999 || got.Bound < got.Arrived || got.Ended < got.Bound || got.End != record.Deleted {
		t.Errorf("%+v", got)
	}
}

func TestEnds(t *testing.T) {
	condition := func(reason string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions,
				corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason})
		}
	}
	for want, edit := range map[string]func(*corev1.Pod){
		record.Deleted:   func(*corev1.Pod) {},
		record.Preempted: condition(corev1.PodReasonPreemptionByScheduler),
		record.Evicted:   condition("EvictionByEvictionAPI"),
		record.Failed:    func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed },
	} {
		f, s, clock := follower(record.State{})
		*clock = 200 * second
		p := bind(podOf("a", 100), "n1", 101)
		f.Pod(p, false)
		edit(p)
		f.PodGone(p)
		if got := s.pods["uid-a"]; got.End != want || got.Ended == 0 {
			t.Errorf("%+v, want %s", got, want)
		}
	}
}

// If no kubelet reports when the containers ended, as after its node was deleted, the last condition does.
func TestEndWithoutKubelet(t *testing.T) {
	p := finish(bind(podOf("a", 100), "n1", 101), corev1.PodFailed, 0)
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByPodGC", LastTransitionTime: at(500),
	})
	ran := corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	over := corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: at(102)}}}
	for name, c := range map[string]struct {
		containers, init []corev1.ContainerStatus
		want             int64
	}{
		"no statuses":               {nil, nil, 500},
		"one runs, as far as known": {[]corev1.ContainerStatus{over, ran}, []corev1.ContainerStatus{over}, 500},
		"all ended":                 {[]corev1.ContainerStatus{over, over}, nil, 102},
	} {
		p.Status.ContainerStatuses, p.Status.InitContainerStatuses = c.containers, c.init
		if got := Pod(p); got.Ended != c.want*second || got.End != record.Evicted {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A recorder that starts again learns from a list what happened meanwhile: missing pods went unobserved, present pods go on, and an
// unchanged node has no second row.
func TestRestart(t *testing.T) {
	f, s, clock := follower(record.State{})
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	other := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}}
	*clock = 10 * second
	f.Nodes([]*corev1.Node{n, other})
	f.Pods([]*corev1.Pod{bind(podOf("stays", 5), "n1", 6), podOf("goes", 5)})
	open := record.State{Pods: []record.Pod{s.pods["uid-stays"], s.pods["uid-goes"]}, Nodes: s.nodes}

	f, s, clock = follower(open)
	*clock = 500 * second
	n.Spec.Unschedulable = true
	f.Nodes([]*corev1.Node{n})
	f.Pods([]*corev1.Pod{bind(podOf("stays", 5), "n1", 6), podOf("new", 400)})
	if _, written := s.pods["uid-stays"]; written {
		t.Error("a pod that did not change was written again")
	}
	if got := s.pods["uid-goes"]; got.End != record.Unseen || got.Ended != 500*second {
		t.Errorf("%+v", got)
	}
	if got := s.pods["uid-new"]; got.Arrived != 400*second {
		t.Errorf("%+v: a pod from a list has the API's time", got)
	}
	var rows []string
	for _, r := range s.nodes {
		rows = append(rows, r.Name+map[bool]string{true: " gone", false: ""}[r.Gone]+map[bool]string{true: " cordoned",
			false: ""}[r.Unschedulable]+map[bool]string{true: " until", false: " from"}[r.To > 0])
	}
	if d := cmp.Diff([]string{"n1 until", "n1 cordoned from", "n2 gone until"}, rows); d != "" {
		t.Error(d)
	}
}

const printed = `{"apiVersion":"v1","kind":"List","items":[
{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1","labels":{"topology.kubernetes.io/zone":"a"}},"status":{"allocatable":{"cpu":"4","memory":"8Gi","pods":"110"}}},
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"x","uid":"u","creationTimestamp":"2026-01-02T03:04:05Z"},"spec":{"nodeName":"n1","containers":[{"name":"c","resources":{"requests":{"cpu":"1"}}}]}},
{"apiVersion":"v1","kind":"Service","metadata":{"name":"s"}}]}
{"apiVersion":"scheduling.k8s.io/v1","kind":"PriorityClassList","items":[{"metadata":{"name":"high"},"value":7}]}`

// read reads a file of a time.
func read(t *testing.T, text string, at int64) File {
	t.Helper()
	o := fatal.Value(ReadObjects(strings.NewReader(text), "f"))(t)
	return File{Objects: o, Path: "f", At: at}
}

func TestReadObjects(t *testing.T) {
	o := read(t, printed, 7*second)
	if len(o.Nodes) != 1 || len(o.Pods) != 1 || o.Skipped["Service"] != 1 || len(o.others) != 1 || o.Newest != (Time{1767323045000, "x/p"}) {
		t.Fatalf("%+v", o)
	}
	f, s, clock := follower(record.State{})
	*clock = 7 * second
	known := NewKnown()
	if a := known.Look([]File{o}); a != (Assumed{}) {
		t.Errorf("%+v", a)
	}
	known.Tell(f)
	if p := s.pods["u"]; p.MilliCPU != 1000 || p.Node != "n1" || len(s.nodes) != 1 || s.nodes[0].MilliCPU != 4000 {
		t.Errorf("%+v, %+v", s.pods, s.nodes)
	}
	for text, want := range map[string]string{
		"":            "all.json: the file is empty",
		"\ufeff \n":   "all.json: the file is empty",
		"---\n---\n":  "all.json: the file is empty",
		"NAME  READY": `all.json: not what kubectl -o json or -o yaml prints: "\"NAME  READY\"" is no object`,
		"a: [":        "all.json: document 1: not what kubectl",
		"{}":          "all.json: not what kubectl -o json or -o yaml prints: a document has no kind",
		`{"items":7}`: "its items are no list",
		printed + "\n==== START logs for container c of pod x/p ====\n": "all.json: not what kubectl -o json or -o yaml prints: there are logs",
		printed + "{7}":        fmt.Sprintf("all.json: byte %d: not what kubectl", len(printed)+2),
		"[[[[[]]]]]":           "lists are in lists over 4 deep",
		`[7]`:                  `"7" is no object`,
		printed[:200]:          "all.json: not what kubectl -o json or -o yaml prints: the file is cut off after 200 bytes",
		"\x00\x00\x00\x00":     "the file is no text",
		"\x1f\x8b\x08\x00":     "the file is packed",
		"\xff\xfe{\x00}":       "its last character is cut off",
		`{"kind":"Status"}`:    "all.json: it is a Status (), no list of objects",
		`{"kind":"ListThing"}`: "",
	} {
		_, err := ReadObjects(strings.NewReader(text), "all.json")
		if want == "" && err != nil || want != "" &&
			(err == nil || !strings.HasPrefix(err.Error(), "all.json: ") || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// Objects of typed lists have no kind: their shape tells it.
func TestWithoutKind(t *testing.T) {
	const pod = `{"metadata":{"name":"p","namespace":"x","uid":"u"},"spec":{"containers":[{"name":"c"}]}}`
	const node = `{"metadata":{"name":"n"},"spec":{},"status":{"allocatable":{"cpu":"4"}}}`
	for _, text := range []string{
		`[` + pod + `,` + node + `]`, pod + node, `{"items":[` + pod + `,` + node + `]}`,
		`{"pods":[` + pod + `],"nodes":[` + node + `],"pvs":[],"storageClasses":null,"namespaces":[],"schedulerConfig":{"parallelism":16}}`,
	} {
		if o := read(t, text, 1); len(o.Pods) != 1 || len(o.Nodes) != 1 || len(o.LeftOut) != 0 {
			t.Errorf("%s: %+v", text, o)
		}
	}
}

func TestLeftOut(t *testing.T) {
	for text, want := range map[string]string{
		`{"items":[{"kind":"Pod"}]}`: `"": it has no name`,
		`{"kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"resources":{"requests":{"cpu":"1e-999999999"}}}]}}`:  `exponent below -999`,
		`{"kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"resources":{"requests":{"cpu": 1.5e-999999999}}}]}}`: `exponent below -999`,
		`{"items":[{}]}`:  `"": it has no kind`,
		`[{"items":[7]}]`: `"": it is no object`,
		`{"kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"resources":{"requests":{"cpu":"lots"}}}]}}`: `"p": quantities must match`,
		`{"kind":"Pod","metadata":{"name":"p","namespace":7}}`:                                                     `it is no object`,
		`{"kind":"Pod","metadata":{"name":"p"},"spec":{"hostname":"` + strings.Repeat("x", maxObject) + `"}}`:      `"p": it has 4194`,
		`{"kind":"PodList","apiVersion":"v2","items":[{"metadata":{"name":"p"}}]}`:                                 `"p": its apiVersion is "v2", want v1`,
	} {
		o := read(t, text, 1)
		var got []string
		for _, few := range o.LeftOut {
			got = append(got, few.First)
		}
		if len(got) != 1 || !strings.Contains(got[0], want) || len(o.Pods) != 0 {
			t.Errorf("%.80q: %q, want %q", text, got, want)
		}
	}
}

// In every encoding of text, JSON and YAML say the same.
func TestEncodings(t *testing.T) {
	wide := func(text string, low, high int) string {
		var out []byte
		for _, u := range utf16.Encode([]rune(text)) {
			b := [2]byte{}
			b[low], b[high] = byte(u), byte(u>>8)
			out = append(out, b[:]...)
		}
		return string(out)
	}
	pod := `{"kind":"Pod","metadata":{"name":"p","annotations":{"a":"😀"}}}`
	for what, text := range map[string]string{
		"UTF-8": pod, "mark": "\ufeff" + pod, "little": wide("\ufeff"+pod, 0, 1), "big": wide("\ufeff"+pod, 1, 0),
		"little without a mark": wide(pod, 0, 1),
		"big without a mark":    wide(pod, 1, 0), "marks between": "\ufeff{\"kind\":\"Service\"}\r\n\ufeff" + pod, "brackets": "[" + pod + "]",
		"list of lists":  `[{"items":[` + pod + `]}]`,
		"YAML":           "---\r\nkind: Pod\r\nmetadata:\r\n  name: p\r\n  annotations:\r\n    a: 😀\r\n",
		"YAML documents": "kind: Service\n---\n" + pod,
	} {
		if o := read(t, text, 1); len(o.Pods) != 1 || o.Pods[0].Name != "p" || o.Pods[0].Annotations["a"] != "😀" {
			t.Errorf("%s: %+v", what, o)
		}
	}
}

// For any output of kubectl, reading it does not panic, and the rows can be read again.
func FuzzReadObjects(f *testing.F) {
	f.Add([]byte(printed))
	f.Add([]byte("---\nkind: PodList\nitems: [{metadata: {name: p}}]\n---\nkind: Status\n"))
	f.Add([]byte("\xff\xfe{\x00}\x00"))
	f.Add([]byte(`{"kind":"Pod","metadata":{"name":"p","annotations":{"alibabacloud.com/gpu-milli":"-1"}},"spec":{"overhead":{"cpu":"-1"}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		o, err := ReadObjects(strings.NewReader(string(data)), "f")
		if err != nil {
			return
		}
		f, s, _ := follower(record.State{})
		known := NewKnown()
		known.Look([]File{{Objects: o}})
		known.Tell(f)
		for _, p := range s.pods {
			if err := record.Check(&p); err != nil {
				t.Errorf("%+v: %v", p, err)
			}
		}
		for _, n := range s.nodes {
			if err := record.Check(&n); err != nil {
				t.Errorf("%+v: %v", n, err)
			}
		}
	})
}

// ownersPrinted is a Deployment with its ReplicaSet and autoscaler, and the other owners of pods, as kubectl prints them.
const ownersPrinted = `{"apiVersion":"v1","kind":"List","items":[
{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop"},"spec":{"replicas":0,
 "strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":"25%","maxUnavailable":1}}},"status":{"replicas":1}},
{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"name":"web-1","namespace":"shop",
 "ownerReferences":[{"kind":"Deployment","name":"web","controller":true}]},"spec":{}},
{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"db","namespace":"shop"},"spec":{"replicas":3,"updateStrategy":{"type":"OnDelete"}}},
{"apiVersion":"apps/v1","kind":"DaemonSet","metadata":{"name":"logs","namespace":"shop"},"spec":{"updateStrategy":{"type":"RollingUpdate",
 "rollingUpdate":{"maxUnavailable":"10%","maxSurge":0}}}},
{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"night-1","namespace":"shop","ownerReferences":[{"kind":"CronJob","name":"night",
 "controller":true}]},"spec":{"parallelism":2,"completions":6,"backoffLimit":4}},
{"apiVersion":"batch/v1","kind":"CronJob","metadata":{"name":"night","namespace":"shop"},"spec":{"schedule":"0 3 * * *","timeZone":"UTC",
 "suspend":true,"jobTemplate":{"spec":{"parallelism":2}}}},
{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"name":"web","namespace":"shop"},"spec":{"maxReplicas":9,
 "scaleTargetRef":{"kind":"Deployment","name":"web"},"metrics":[
 {"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":80}}},
 {"type":"External","external":{"metric":{"name":"queue"},"target":{"type":"AverageValue","averageValue":"30"}}}]},
 "status":{"desiredReplicas":4,"currentMetrics":[{"type":"Resource"}]}},
{"apiVersion":"batch.volcano.sh/v1alpha1","kind":"Job","metadata":{"name":"gang","namespace":"shop"}},
{"apiVersion":"autoscaling/v1","kind":"HorizontalPodAutoscaler","metadata":{"name":"old","namespace":"shop"},"spec":{"maxReplicas":9}}]}`

func TestOwnersOfAFile(t *testing.T) {
	o := read(t, ownersPrinted, 7*second)
	if o.Skipped["Job.batch.volcano.sh"] != 1 || o.LeftOut[record.KindAutoscaler].Objects != 1 {
		t.Errorf("skipped %v, left out %v", o.Skipped, o.LeftOut)
	}
	got := map[string]string{}
	for _, x := range o.others {
		if err := record.Check(&x); err != nil {
			t.Error(err)
		}
		got[x.Kind+"/"+x.Name] = strings.TrimSpace(x.Spec + " " + x.Scale)
	}
	if d := cmp.Diff(map[string]string{
		"Deployment/web":              `{"replicas":0,"strategy":"RollingUpdate","maxSurge":"25%","maxUnavailable":"1"}`,
		"ReplicaSet/web-1":            `{"owner":"Deployment/web","replicas":1}`,
		"StatefulSet/db":              `{"replicas":3,"strategy":"OnDelete"}`,
		"DaemonSet/logs":              `{"strategy":"RollingUpdate","maxSurge":"0","maxUnavailable":"10%"}`,
		"Job/night-1":                 `4 {"owner":"CronJob/night","parallelism":2,"completions":6,"backoffLimit":4}`,
		"CronJob/night":               `{"parallelism":2,"suspend":true,"schedule":"0 3 * * *","timeZone":"UTC"}`,
		"HorizontalPodAutoscaler/web": `{"replicas":4,"target":"Deployment/web","min":1,"max":9,"metrics":["cpu 80%","queue 30"]}`,
	}, got); d != "" {
		t.Error(d)
	}
}

// A cluster in which nothing changes writes no row again, and a change of the replicas ends one state and begins another.
func TestOwnersOverTime(t *testing.T) {
	f, s, clock := follower(record.State{})
	known := NewKnown()
	look := func(at int64, text string) int {
		before := s.rows + len(s.objects)
		*clock = at
		known.Look([]File{read(t, text, at)})
		known.Tell(f)
		return s.rows + len(s.objects) - before
	}
	if n := look(1*second, ownersPrinted); n != 7 {
		t.Errorf("%d rows at first", n)
	}
	busy := strings.Replace(ownersPrinted, `"status":{"replicas":1}`, `"status":{"replicas":2,"observedGeneration":9}`, 1)
	if n := look(2*second, busy); n != 0 {
		t.Errorf("%d rows although nothing changed that a record holds", n)
	}
	if n := look(3*second, strings.Replace(busy, `"replicas":0`, `"replicas":5`, 1)); n != 2 {
		t.Errorf("%d rows of a change, want the end of a state and the next one", n)
	}
	if got := f.Counts().Owners; got != "1 Deployments, 1 StatefulSets, 1 DaemonSets, 1 Jobs, 1 CronJobs, 1 HorizontalPodAutoscalers" {
		t.Error(got)
	}
}
