package driver

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"gnnsched/workload"
	"gnnsched/workload/driver/fakecluster"
	"gnnsched/workload/record"
)

// bareStage returns a stage with two nodes, one of which simulates a record's.
func bareStage(t *testing.T, parts ...part) *stage {
	t.Helper()
	cfg := replayOf(t, fakecluster.New(), parts...)
	cfg.Namespace, cfg.Image = "sim", "img"
	cfg.Replay.Hostnames = map[string]string{"worker-1": "ip-1.ec2", "worker-9": "n1", "worker-8": "gone"}
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
