package driver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
	"gnnsched/workload"
	"gnnsched/workload/driver/fakecluster"
	"gnnsched/workload/record"
	"gnnsched/workload/record/play"
	"gnnsched/workload/trace"
)

// part is a pod of a record with its arrival and departure in seconds; departure 0: it stays.
type part struct {
	row         record.Pod
	node        string
	come, leave float64
}

// replayOf returns a configuration that plays pods. They have their rows' names.
func replayOf(t *testing.T, c *fakecluster.Cluster, parts ...part) Config {
	t.Helper()
	r := play.Replay{Parts: map[string]play.Part{}, Namespaces: map[string]map[string]string{}}
	for i := range parts {
		p := &parts[i]
		life := math.Inf(1)
		if p.leave > 0 {
			life = p.leave - p.come
		}
		p.row.Namespace = "shop"
		r.Parts[p.row.Name] = play.Part{Row: &p.row, Node: p.node}
		r.Trace = append(r.Trace, workload.Arrival{
			At: p.come, Lifetime: life, Deployment: workload.Deployment{Name: p.row.Name, Replicas: 1, Shape: arrival("x", 1).Deployment.Shape},
		})
	}
	cfg := config(t, c)
	source := Replayed(r, 1, 0)
	source.Pace(&cfg)
	cfg.Interval, cfg.Simulated = 0, true
	var err error
	if cfg.Plan, err = source.Plan(Capacity{}); err != nil {
		t.Fatal(err)
	}
	return cfg
}

func named(name string) part { return part{row: record.Pod{Name: name}} }

var podResource = schema.GroupResource{Resource: "pods"}

// says returns a refusal as an API server words it.
func says(code int32, reason metav1.StatusReason, text string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: text}}
}

// refuse lets the API server refuse pods for which why returns an error.
func refuse(c *fakecluster.Cluster, why func(*corev1.Pod) error) (tried *int) {
	tried = new(int)
	c.Client.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		*tried++
		err := why(a.(clienttesting.CreateAction).GetObject().(*corev1.Pod))
		return err != nil, nil, err
	})
	return tried
}

// Pods that the API server refuses are counted by the reason, and the others are played.
func TestReplayCountsRefusals(t *testing.T) {
	answers := map[string]error{
		"quota-1": apierrors.NewForbidden(podResource, "quota-1",
			errors.New("exceeded quota: q, requested: pods=1, used: pods=4, limited: pods=4")),
		"quota-2": apierrors.NewForbidden(podResource, "quota-2",
			errors.New("exceeded quota: q, requested: pods=1, used: pods=5, limited: pods=4")),
		"security": apierrors.NewForbidden(podResource, "security", errors.New(`violates PodSecurity "restricted:latest": hostPort`)),
		"hook-1": apierrors.NewForbidden(podResource, "hook-1",
			errors.New(`admission webhook "a.b" denied the request: pod hook-1 has no owner`)),
		"hook-2": says(http.StatusConflict, metav1.StatusReasonConflict, `admission webhook "a.b" denied the request: pod hook-2 has no owner`),
		"hook-3": says(http.StatusInternalServerError, metav1.StatusReasonInternalError,
			`Internal error occurred: failed calling webhook "c.d": no endpoints`),
		"wrong": apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "wrong", nil),
		"odd":   apierrors.NewBadRequest("pod odd:\n cannot be decoded"),
		"long":  apierrors.NewBadRequest(strings.Repeat("é", 400)),
	}
	c := fakecluster.New()
	refuse(c, func(p *corev1.Pod) error { return answers[p.Name] })
	parts := []part{named("first")}
	for _, name := range slices.Sorted(maps.Keys(answers)) {
		parts = append(parts, part{row: record.Pod{Name: name}, leave: 1})
	}
	cfg := replayOf(t, c, append(parts, named("last"))...)
	sum := fatal.Value(Run(context.Background(), cfg))(t)
	f := sum.Fills[0]
	want := []Reason{
		{2, `admission webhook "a.b" denied the request: pod POD has no owner`}, {2, "exceeded quota: q"},
		{1, `Internal error occurred: failed calling webhook "c.d": no endpoints`}, {1, `Pod "POD" is invalid`},
		{1, "pod POD: cannot be decoded"}, {1, `violates PodSecurity "restricted:latest": hostPort`}, {1, strings.Repeat("é", 300) + "…"},
	}
	if d := cmp.Diff(want, f.Refused); d != "" {
		t.Error(d)
	}
	if f.Arrived != 2 || f.Placed != 2 || f.Left != 0 || f.Lost != 0 || f.Pods != 2 || f.Bound != 2 || f.Elapsed >= cfg.Settle {
		t.Errorf("%+v", f)
	}
	var out bytes.Buffer
	if err := (Report{Summary: sum}).Write(&out, "table"); err != nil ||
		!strings.Contains(out.String(), "\nrefused by the API server in fill 1: 2 pod(s): exceeded quota: q\n") {
		t.Errorf("%v:\n%s", err, out.String())
	}
}

// An API server that does not know a new class yet refuses its pods for a moment only.
func TestReplayWaitsForClasses(t *testing.T) {
	c := fakecluster.New()
	late := 2
	refuse(c, func(p *corev1.Pod) error {
		if late--; late < 0 {
			return nil
		}
		return apierrors.NewForbidden(podResource, p.Name, errors.New("no PriorityClass with name gnnsched-test-1 was found"))
	})
	sum, err := Run(context.Background(), replayOf(t, c, named("first")))
	if f := sum.Fills[0]; err != nil || f.Placed != 1 || len(f.Refused) > 0 {
		t.Errorf("%+v, %v", f, err)
	}
}

// A replay whose first pods are all refused ends. So does one whose namespaces are deleted.
func TestReplayEndsWithRefusals(t *testing.T) {
	forbidden := apierrors.NewForbidden(podResource, "", errors.New(`User "x" cannot create resource "pods"`))
	ending := apierrors.NewForbidden(podResource, "p", errors.New("it is being terminated"))
	ending.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for _, c := range []struct {
		name        string
		pods, after int // pods that are accepted before
		answer      error
		tried       int
		want        string // in the error
	}{
		{"many", 30, 0, forbidden, 20, `each of the first 20 pods of the record, the last one with: pods is forbidden: User "x"`},
		{"few", 3, 0, forbidden, 3, "each of the first 3 pods"},
		{"one came", 30, 1, forbidden, 30, ""},
		{"the run is removed", 30, 5, ending, 6, "create pod p-05: "},
	} {
		fake := fakecluster.New()
		n := 0
		tried := refuse(fake, func(*corev1.Pod) error {
			if n++; n <= c.after {
				return nil
			}
			return c.answer
		})
		var parts []part
		for i := range c.pods {
			parts = append(parts, part{row: record.Pod{Name: fmt.Sprintf("p-%02d", i)}, come: float64(i)})
		}
		sum, err := Run(context.Background(), replayOf(t, fake, parts...))
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || !apierrors.IsForbidden(err)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if *tried != c.tried || len(sum.Fills) != 1 || sum.Fills[0].Arrived != c.after {
			t.Errorf("%s: tried %d pods, want %d; %+v", c.name, *tried, c.tried, sum)
		}
	}
}

// On a cluster with real nodes, pods of a record preempt nothing, and have no system class.
func TestReplayPriorities(t *testing.T) {
	system := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "system-node-critical"}, Value: 2_000_001_000}
	own := &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: "own"}, Value: 7, GlobalDefault: true, PreemptionPolicy: ptr.To(corev1.PreemptNever),
	}
	rows := []part{
		named("none"), {row: record.Pod{Name: "default", Priority: 7, Preemption: "Never"}},
		{row: record.Pod{Name: "critical", Priority: 2_000_001_000, PriorityClass: "system-node-critical"}},
		{row: record.Pod{Name: "polite", Priority: 5, Preemption: "Never"}}, {row: record.Pod{Name: "rude", Priority: 5}},
	}
	type played struct {
		class  string
		value  int32
		policy corev1.PreemptionPolicy
	}
	never, lower := corev1.PreemptNever, corev1.PreemptLowerPriority
	for simulated, want := range map[bool]map[string]played{
		true: {"none": {"gnnsched-test-1", 0, lower}, "default": {"", 0, ""}, "critical": {"system-node-critical", 2_000_001_000, ""},
			"polite": {"gnnsched-test-2", 5, never}, "rude": {"gnnsched-test-3", 5, lower}},
		false: {"none": {"gnnsched-test-1", 0, never}, "default": {"", 0, ""}, "critical": {"gnnsched-test-4", 1_000_000_000, never},
			"polite": {"gnnsched-test-2", 5, never}, "rude": {"gnnsched-test-2", 5, never}},
	} {
		c := fakecluster.New(system, own)
		cfg := replayOf(t, c, rows...)
		cfg.Simulated = simulated
		fatal.Value(Run(context.Background(), cfg))(t)
		classes := fatal.Value(c.Client.SchedulingV1().PriorityClasses().List(context.Background(), metav1.ListOptions{}))(t)
		got := map[string]played{}
		pods, _ := c.Client.CoreV1().Pods("").List(context.Background(), metav1.ListOptions{})
		for _, p := range pods.Items {
			one := played{class: p.Spec.PriorityClassName}
			for _, class := range classes.Items {
				if class.Name == one.class {
					one.value, one.policy = class.Value, ptr.Deref(class.PreemptionPolicy, "")
				}
			}
			got[p.Name] = one
		}
		if d := cmp.Diff(want, got, cmp.AllowUnexported(played{})); d != "" {
			t.Errorf("simulated %v: %s", simulated, d)
		}
	}
}

// Namespaces are new, have short names that differ, and the labels that the replay holds.
func TestReplayNamespaces(t *testing.T) {
	long := strings.Repeat("n", 60)
	c := fakecluster.New()
	cfg := replayOf(t, c, named("a"), named("b"), named("c"))
	cfg.Namespace = "sim"
	cfg.replay.Parts["b"].Row.Namespace, cfg.replay.Parts["c"].Row.Namespace = long+"-1", long+"-2"
	cfg.replay.Namespaces["shop"] = map[string]string{"team": "a", corev1.LabelMetadataName: "shop", workload.LabelRun: "other"}
	sum, err := Run(context.Background(), cfg)
	if err != nil || sum.Namespace != "sim-*" || !sum.NamespaceCreated {
		t.Fatalf("%+v, %v", sum, err)
	}
	list := fatal.Value(c.Client.CoreV1().Namespaces().List(context.Background(), metav1.ListOptions{}))(t)
	got := map[string]map[string]string{}
	for _, n := range list.Items {
		got[n.Name] = n.Labels
	}
	own := map[string]string{workload.LabelManagedBy: workload.ManagedBy, workload.LabelRun: "test"}
	shop := maps.Clone(own)
	shop["team"] = "a"
	cut := "sim-" + long[:56]
	if d := cmp.Diff(map[string]map[string]string{"sim-shop": shop, cut: own, cut + "-2": own}, got); d != "" {
		t.Error(d)
	}
	cfg = replayOf(t, c, named("z"))
	cfg.Namespace = "sim"
	if _, err := Run(context.Background(), cfg); exit.Code(err) != exit.Usage || !strings.Contains(err.Error(), "sim-shop exists already") {
		t.Errorf("a second replay: %v", err)
	}
}

// Pods are where they were if the cluster has the node, under the name of either kind.
func TestReplayNodes(t *testing.T) {
	c := fakecluster.New(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "real.example"}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a-b-0"}})
	c.Slots, c.Reason = 0, "no room"
	daemon := func(name, node string) part {
		return part{row: record.Pod{Name: name, Daemon: true, OwnerKind: "DaemonSet"}, node: node, leave: 5}
	}
	cfg := replayOf(t, c, part{row: record.Pod{Name: "same"}, node: "real.example"}, part{row: record.Pod{Name: "simulated"}, node: "a.b"},
		part{row: record.Pod{Name: "moved"}, node: "gone"}, daemon("agent", "a.b"), daemon("lost", "gone"))
	sum := fatal.Value(Run(context.Background(), cfg))(t)
	if f := sum.Fills[0]; f.Arrived != 4 || f.Placed != 3 || f.Left != 1 || f.Lost != 0 || f.Pending != 1 {
		t.Errorf("%+v", f)
	}
	pods, _ := c.Client.CoreV1().Pods("").List(context.Background(), metav1.ListOptions{})
	got := map[string]string{}
	for _, p := range pods.Items {
		got[p.Name] = p.Spec.NodeName
	}
	if d := cmp.Diff(map[string]string{"same": "real.example", "simulated": "a-b-0", "moved": ""}, got); d != "" {
		t.Error(d)
	}
}

// bareStage returns a stage with two nodes, one of which simulates a record's.
func bareStage(t *testing.T, parts ...part) *stage {
	t.Helper()
	cfg := replayOf(t, fakecluster.New(), parts...)
	cfg.Namespace, cfg.Image = "sim", "img"
	cfg.replay.Hostnames = map[string]string{"worker-1": "ip-1.ec2", "worker-9": "n1", "worker-8": "gone"}
	return &stage{
		Config: cfg, spaces: map[string]string{}, classes: map[priority]string{{0, corev1.PreemptLowerPriority}: "zero"},
		nodes: map[string]string{"n1": "host-1", "ip-1-ec2-0": "ip-1-ec2-0"}, left: map[string]bool{}, refused: map[string]int{},
	}
}

// A pod of the run has the values of its row.
func TestStagePod(t *testing.T) {
	const terms = `[{"topologyKey":"zone","labelSelector":{"matchLabels":{"app":"web"},"matchExpressions":[{"key":"hash","operator":"In","values":["5d"]},{"key":"hash","operator":"In","values":["5d","6e"]}]},` +
		`"matchLabelKeys":["hash"],"namespaces":["db"],"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"db","team":"x"},"matchExpressions":[{"key":"kubernetes.io/metadata.name","operator":"NotIn","values":["shop"]},{"key":"team","operator":"In","values":["shop"]}]}}]`
	for _, c := range []struct {
		name string
		row  record.Pod
		node string
		want func(*corev1.Pod) // changes what every pod has
	}{
		{name: "plain", want: func(*corev1.Pod) {}},
		{name: "labels", row: record.Pod{Labels: `{"app":"web","app.kubernetes.io/managed-by":"Helm"}`, Workload: "Deployment/web"},
			want: func(p *corev1.Pod) {
				p.Labels["app"] = "web"
				p.Annotations["gnnsched.io/workload"] = "Deployment/web"
			}},
		{name: "static pod", row: record.Pod{Daemon: true}, node: "ip-1.ec2", want: func(p *corev1.Pod) { p.Spec.NodeName = "ip-1-ec2-0" }},
		{name: "the record's own class and scheduler", row: record.Pod{PriorityClass: "theirs", Scheduler: "volcano"},
			want: func(*corev1.Pod) {}},
		{name: "node selector", row: record.Pod{NodeSelector: `{"kubernetes.io/hostname":"ip-1.ec2","disk":"ssd"}`}, want: func(p *corev1.Pod) {
			p.Spec.NodeSelector = map[string]string{"kubernetes.io/hostname": "ip-1-ec2-0", "disk": "ssd"}
		}},
		{name: "node selector by another hostname", row: record.Pod{NodeSelector: `{"kubernetes.io/hostname":"worker-9"}`},
			want: func(p *corev1.Pod) {
				p.Spec.NodeSelector = map[string]string{"kubernetes.io/hostname": "host-1"}
			}},
		{name: "node selector of a node that is not there", row: record.Pod{NodeSelector: `{"kubernetes.io/hostname":"worker-8"}`},
			want: func(p *corev1.Pod) {
				p.Spec.NodeSelector = map[string]string{"kubernetes.io/hostname": "worker-8"}
			}},
		{name: "node affinity by another hostname",
			row: record.Pod{Affinity: `{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[` +
				`{"key":"kubernetes.io/hostname","operator":"In","values":["worker-1","n1","worker-8"]}],"matchFields":[{"key":"metadata.name","operator":"In","values":["worker-1","n1"]}]}]}}}`}, want: func(p *corev1.Pod) {
				p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{
						Key: "kubernetes.io/hostname", Operator: "In", Values: []string{"ip-1-ec2-0", "host-1", "worker-8"},
					}},
					MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: "In", Values: []string{"worker-1", "n1"}}},
				}}}}}
			}},
		{name: "node affinity", row: record.Pod{Affinity: `{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name","operator":"In","values":["ip-1.ec2","n1","gone"]}]}]},` +
			`"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1,"preference":{"matchExpressions":[{"key":"kubernetes.io/hostname","operator":"NotIn","values":["ip-1.ec2"]},{"key":"zone","operator":"In","values":["n1"]}]}}]}}`}, want: func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: "In", Values: []string{"ip-1-ec2-0", "n1", "gone"}}}}}},
				PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 1,
					Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "kubernetes.io/hostname",
						Operator: "NotIn", Values: []string{"ip-1-ec2-0"}}, {Key: "zone", Operator: "In", Values: []string{"n1"}}}}}},
			}}
		}},
		{name: "pod affinity", row: record.Pod{Labels: `{"hash":"5d"}`,
			Affinity: `{"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":` + terms + `}}`}, want: func(p *corev1.Pod) {
			p.Labels["hash"] = "5d"
			p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				TopologyKey: "zone", MatchLabelKeys: []string{"hash"}, Namespaces: []string{"sim-db"},
				LabelSelector: &metav1.LabelSelector{
					MatchLabels:      map[string]string{"app": "web"},
					MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "hash", Operator: "In", Values: []string{"5d", "6e"}}},
				},
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": "sim-db", "team": "x"},
					MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "kubernetes.io/metadata.name", Operator: "NotIn",
						Values: []string{"sim-shop"}}, {Key: "team", Operator: "In", Values: []string{"shop"}}}},
			}}}}
		}},
		{name: "pod anti-affinity", row: record.Pod{Affinity: `{"podAntiAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":3,"podAffinityTerm":{"topologyKey":"zone","namespaces":["shop"]}}]}}`}, want: func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 3, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: "zone", Namespaces: []string{"sim-shop"}}}}}}
		}},
		{name: "spreading", row: record.Pod{Labels: `{"hash":"5d"}`,
			Spread: `[{"maxSkew":1,"topologyKey":"zone","whenUnsatisfiable":"DoNotSchedule","labelSelector":{"matchExpressions":[{"key":"hash","operator":"In","values":["5d"]}]},"matchLabelKeys":["hash"]},{"maxSkew":2,"topologyKey":"zone","whenUnsatisfiable":"ScheduleAnyway"}]`}, want: func(p *corev1.Pod) {
			p.Labels["hash"] = "5d"
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "zone",
				WhenUnsatisfiable: "DoNotSchedule", LabelSelector: &metav1.LabelSelector{}, MatchLabelKeys: []string{"hash"}},
				{MaxSkew: 2, TopologyKey: "zone", WhenUnsatisfiable: "ScheduleAnyway"}}
		}},
		{name: "tolerations", row: record.Pod{Tolerations: `[{"key":"gpu","operator":"Exists"},{"key":"kwok.x-k8s.io/node","operator":"Exists"}]`}, want: func(p *corev1.Pod) {
			p.Spec.Tolerations = []corev1.Toleration{{Key: "gpu", Operator: "Exists"}, {Key: "kwok.x-k8s.io/node", Operator: "Exists"}}
		}},
		{name: "host ports", row: record.Pod{HostPorts: `["TCP/0.0.0.0/80","TCP//80","UDP/127.0.0.1/53"]`}, want: func(p *corev1.Pod) {
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{
				{Protocol: "TCP", HostPort: 80, ContainerPort: 80}, {Protocol: "UDP", HostIP: "127.0.0.1", HostPort: 53, ContainerPort: 53},
			}
		}},
	} {
		c.row.Name = "p"
		s := bareStage(t, part{row: c.row, node: c.node})
		got := s.pod("p")
		want := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: "p", Namespace: "sim-shop", Annotations: map[string]string{},
				Labels: map[string]string{workload.LabelManagedBy: workload.ManagedBy, workload.LabelRun: "test", workload.LabelFill: "1"},
			},
			Spec: corev1.PodSpec{
				SchedulerName: "gnn", PriorityClassName: "zero", AutomountServiceAccountToken: ptr.To(false), EnableServiceLinks: ptr.To(false),
				Tolerations: []corev1.Toleration{{Key: "kwok.x-k8s.io/node", Operator: "Exists"}},
				Containers:  []corev1.Container{{Name: "app", Image: "img"}},
			},
		}
		c.want(want)
		if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
}

// columnChanges are changes of each column of the table pods. A partly read affinity column has changes for both of its parts.
var columnChanges = map[string][]func(*record.Pod){
	"uid":         {func(p *record.Pod) { p.UID += "x" }},
	"namespace":   {func(p *record.Pod) { p.Namespace = "other" }},
	"name":        {func(p *record.Pod) { p.Name += "x" }},
	"owner_kind":  {func(p *record.Pod) { p.OwnerKind = "Job" }},
	"owner_name":  {func(p *record.Pod) { p.OwnerName = "other" }},
	"workload":    {func(p *record.Pod) { p.Workload = "Deployment/other" }},
	"daemon":      {func(p *record.Pod) { p.Daemon = p.Name == "late" }},
	"scheduler":   {func(p *record.Pod) { p.Scheduler = "other" }},
	"priority":    {func(p *record.Pod) { p.Priority = 7 }},
	"cpu_milli":   {func(p *record.Pod) { p.MilliCPU = 200 }},
	"gpu":         {func(p *record.Pod) { p.GPU = 1 }},
	"gpu_milli":   {func(p *record.Pod) { p.GPUMilli = 300 }},
	"gpu_models":  {func(p *record.Pod) { p.GPUModels = `["T4"]` }},
	"gpu_index":   {func(p *record.Pod) { p.GPUIndex = "0" }},
	"extended":    {func(p *record.Pod) { p.Extended = `{"example.com/x":"1"}` }},
	"labels":      {func(p *record.Pod) { p.Labels = `{"a":"c"}` }},
	"tolerations": {func(p *record.Pod) { p.Tolerations = `[{"key":"k","operator":"Exists"}]` }},
	"host_ports":  {func(p *record.Pod) { p.HostPorts = `["TCP/0.0.0.0/80"]` }},
	"claims":      {func(p *record.Pod) { p.Claims = `["data"]` }},
	"images":      {func(p *record.Pod) { p.Images = `["nginx"]` }},
	"holds":       {func(p *record.Pod) { p.Holds = `["emptyDir"]` }},
	"arrived":     {func(p *record.Pod) { p.Arrived = min(p.Arrived, 10_000) }},
	"bound":       {func(p *record.Pod) { p.Bound += 4000 }},
	"ended":       {func(p *record.Pod) { p.Ended += 1000 }},
	"end":         {func(p *record.Pod) { p.End = record.Failed }},
	"node":        {func(p *record.Pod) { p.Node = "y" }},

	"do_not_disrupt":     {func(p *record.Pod) { p.DoNotDisrupt = `["karpenter.sh/do-not-disrupt=true"]` }},
	"deletion_cost":      {func(p *record.Pod) { p.DeletionCost = 7 }},
	"deadline_s":         {func(p *record.Pod) { p.Deadline = 60 }},
	"health":             {func(p *record.Pod) { p.Health = record.NotReady }},
	"health_since":       {func(p *record.Pod) { p.HealthSince = 9000 }},
	"pod_group":          {func(p *record.Pod) { p.Group = "together" }},
	"priority_class":     {func(p *record.Pod) { p.PriorityClass = "other" }},
	"preemption_policy":  {func(p *record.Pod) { p.Preemption = "Never" }},
	"memory_bytes":       {func(p *record.Pod) { p.Memory = 2 << 20 }},
	"cpu_limit_milli":    {func(p *record.Pod) { p.CPULimit = 900 }},
	"memory_limit_bytes": {func(p *record.Pod) { p.MemoryLimit = 9 << 20 }},
	"node_selector":      {func(p *record.Pod) { p.NodeSelector = `{"disk":"ssd"}` }},
	"topology_spread": {func(p *record.Pod) {
		p.Spread = `[{"maxSkew":1,"topologyKey":"zone","whenUnsatisfiable":"DoNotSchedule"}]`
	}},
	"affinity": {
		func(p *record.Pod) {
			p.Affinity = `{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"zone","operator":"In","values":["a"]}]}]}}}`
		},
		func(p *record.Pod) {
			p.Affinity = `{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"zone","labelSelector":{"matchLabels":{"a":"b"}}}]}}`
		},
	},
}

// The documentation of each column agrees with the commands: a column counts as read if the played pods change with it.
func TestColumnsThatAreRead(t *testing.T) {
	documented := documentedColumns(t)
	before := played(t, func(*record.Pod) {})
	for column := range columnsOf(reflect.TypeFor[record.Pod]()) {
		changes, known := columnChanges[column]
		if !known {
			t.Errorf("no change of the column %s is tried", column)
			continue
		}
		for i, command := range []string{"runsim --replay", "scenario"} {
			read := 0
			for _, change := range changes {
				if played(t, change)[i] != before[i] {
					read++
				}
			}
			got := "part"
			switch read {
			case 0:
				got = "no"
			case len(changes):
				got = "yes"
			}
			if says := documented[column][i]; !strings.HasPrefix(says, got) {
				t.Errorf("docs/reference/record-format.md says of the column %s, read by %s: %q; it is %q", column, command, says, got)
			}
		}
	}
}

// columnsOf returns the names of a row's columns.
func columnsOf(row reflect.Type) map[string]bool {
	out := map[string]bool{}
	for i := range row.NumField() {
		name, _, _ := strings.Cut(row.Field(i).Tag.Get("parquet"), ",")
		out[name] = true
	}
	return out
}

// documentedColumns returns the cells of the table in docs/reference/record-format.md, by column.
func documentedColumns(t *testing.T) map[string][2]string {
	text := fatal.Value(os.ReadFile("../../docs/reference/record-format.md"))(t)
	_, table, found := strings.Cut(string(text), "| column of `pods` | `runsim --replay` | scenario |\n|---|---|---|\n")
	if !found {
		t.Fatal("docs/reference/record-format.md has no table of the columns that are read")
	}
	out := map[string][2]string{}
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 3 {
			break
		}
		for name := range strings.SplitSeq(cells[0], ",") {
			out[strings.Trim(name, " `")] = [2]string{strings.TrimSpace(cells[1]), strings.TrimSpace(cells[2])}
		}
	}
	return out
}

// played returns the pods that runsim --replay creates with their times, and the trace that a scenario plays, for a record with an initial
// pod and a later one, both changed.
func played(t *testing.T, change func(*record.Pod)) [2]string {
	t.Helper()
	pod := record.Pod{
		Namespace: "shop", OwnerKind: "ReplicaSet", OwnerName: "web-1", Workload: "Deployment/web", MilliCPU: 100, Memory: 1 << 20, GPUMilli: 500,
		Labels: `{"a":"b"}`, End: record.Deleted, Node: "x",
	}
	early, late := pod, pod
	early.UID, early.Name, early.Arrived, early.Bound, early.Ended = "1", "early", 1000, 2000, 60_000
	late.UID, late.Name, late.Arrived, late.Bound, late.Ended = "2", "late", 20_000, 21_000, 50_000
	dir := filepath.Join(t.TempDir(), "a.record")
	w := fatal.Value(record.Create(dir, record.Options{}))(t)
	w.Run(record.Run{ID: "1", Source: "live", From: 3000, To: 90_000})
	for _, p := range []*record.Pod{&early, &late} {
		change(p)
		w.Pod(*p)
	}
	fatal.Value(w.Close())(t)
	read := fatal.Value(trace.Load(dir))(t)
	return [2]string{staged(t, dir), describeJSON(t, read.Arrivals)}
}

// staged returns what runsim creates for a record.
func staged(t *testing.T, dir string) string {
	replay := fatal.Value(play.LoadReplay(dir))(t)
	client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "y"}})
	c := Config{Client: client, SchedulerName: "gnn", Namespace: "live", RunID: "1", Simulated: true, Image: defaultImage}
	Replayed(replay, 1, 0).Pace(&c)
	c.Plan = replay.Trace.Plan()
	s := fatal.Value(c.prepareStage(t.Context()))(t)
	classes := fatal.Value(client.SchedulingV1().PriorityClasses().List(t.Context(), metav1.ListOptions{}))(t)
	out := []any{classes.Items}
	for _, step := range c.Plan.Steps {
		out = append(out, step.At, step.Action, s.pod(step.Deployment.Name))
	}
	return describeJSON(t, out)
}

func describeJSON(t *testing.T, of any) string {
	text := fatal.Value(json.Marshal(of))(t)
	return string(text)
}
