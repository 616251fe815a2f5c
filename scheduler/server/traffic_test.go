package server

import (
	"fmt"
	"math"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/kwok/nodepool"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/plugin/traffic"
	"gnnsched/scheduler/policy/preference"
)

// Two Deployments that talk to each other, by an annotation of one: a profile greedy for traffic puts the pods of one onto
// the node of the other, and those that have no room there into its zone. The default profile spreads them.
func TestTraffic(t *testing.T) {
	l := newLabOn(t, []nodepool.Pool{{Name: "worker", Count: 6, Zones: []string{"a", "b", "c"}, Capacity: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi"),
		corev1.ResourcePods: resource.MustParse("110"),
	}}})
	links := cluster.Links{Node: cluster.Hop{Latency: 0.1}, Rack: cluster.Hop{Latency: 0.3}, Zone: cluster.Hop{Latency: 1}}
	stop := l.schedule(t, Profile{SchedulerName: DefaultProfile, Args: Args{Variant: DefaultProfile}},
		Profile{SchedulerName: "near", Args: Args{Policy: "greedy:traffic", Preferences: preference.Declared,
			Traffic: &traffic.Config{Network: links}}})
	defer stop()
	costs := map[string]float64{}
	for _, scheduler := range []string{"near", DefaultProfile} {
		ns := l.namespace(t, "talk-"+scheduler)
		l.deploy(t, ns, deployment{"api", scheduler, 1, ""})
		api := l.bound(t, ns, 1)[0]
		l.deploy(t, ns, deployment{"web", scheduler, 5, "api=3e6"})
		var web []string
		beside := 0
		for _, p := range l.bound(t, ns, 6) {
			if p.Name == api.Name {
				continue
			}
			web = append(web, p.Spec.NodeName)
			if p.Spec.NodeName == api.Spec.NodeName {
				beside++
			}
		}
		costs[scheduler] = l.trafficCost(t, links, api.Spec.NodeName, web)
		if scheduler == "near" && beside != 3 {
			t.Errorf("%d of the pods that talk to api are on its node, want the 3 for which there is room: %v", beside, web)
		}
	}
	// Three of five pods are on the node, and two in another one of the zone: 2/5 of the bytes go 0.1 of the farthest.
	if got := costs["near"]; math.Abs(got-0.04) > 1e-9 || costs[DefaultProfile] < 0.3 {
		t.Errorf("the mean distances of a byte are %v, want 0.04 and, with the default profile, at least 0.3", costs)
	}
	ns := l.namespace(t, "invalid")
	l.deploy(t, ns, deployment{"web", "near", 2, "api=fast"})
	l.bound(t, ns, 2)
	if n := l.metrics(t).sum("gnnsched_traffic_annotations_refused_total", "profile", "near"); n != 1 {
		t.Errorf("%v annotations are refused, want 1", n)
	}
}

// deployment is a Deployment of pods with 1 CPU.
type deployment struct {
	name, scheduler string
	replicas        int32
	traffic         string // annotation of its pods; empty for none
}

func (l *lab) deploy(t *testing.T, namespace string, x deployment) {
	t.Helper()
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: x.name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &x.replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": x.name}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": x.name}},
				Spec: corev1.PodSpec{SchedulerName: x.scheduler, Containers: []corev1.Container{{
					Name: "main", Image: "registry.k8s.io/pause:3.10",
					Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
				}}},
			},
		},
	}
	if x.traffic != "" {
		d.Spec.Template.Annotations = map[string]string{kube.TrafficAnnotation: x.traffic}
	}
	if _, err := l.client.AppsV1().Deployments(namespace).Create(t.Context(), d, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// trafficCost returns the objective traffic, as the simulator counts it, of pods on the nodes of web that each send as much
// to a pod on another node.
func (l *lab) trafficCost(t *testing.T, links cluster.Links, api string, web []string) float64 {
	t.Helper()
	term, err := objective.Parse("traffic")
	if err != nil {
		t.Fatal(err)
	}
	list, err := l.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var nodes []*cluster.Node
	row := map[string]int32{}
	for i := range list.Items {
		row[list.Items[i].Name] = int32(len(nodes))
		nodes = append(nodes, kube.Node(&list.Items[i]))
	}
	all := cluster.NewTraffic(cluster.NewNetwork(links, nodes))
	for _, node := range web {
		at, known := row[node]
		if !known {
			t.Fatal(fmt.Errorf("no node %s", node))
		}
		all.Place(at, []cluster.Peer{{Row: row[api], Pods: 1, Rate: 1}})
	}
	nodes[0].Traffic = all
	return term.Cost(nodes)
}
