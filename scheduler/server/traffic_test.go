package server

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gnnsched/internal/cluster"
	"gnnsched/kwok/nodepool"
	"gnnsched/scheduler/plugin/traffic"
	"gnnsched/scheduler/policy/preference"
)

// Two Deployments that talk to each other, as a Prometheus has measured: a profile greedy for traffic puts the pods of one onto
// the node of the other, and those that have no room there into its zone. The default profile spreads them.
func TestTraffic(t *testing.T) {
	l := newLab(t, []nodepool.Pool{{Name: "worker", Count: 6, Zones: []string{"a", "b", "c"}, Capacity: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi"),
		corev1.ResourcePods: resource.MustParse("110"),
	}}})
	links := cluster.Links{Node: cluster.Hop{Latency: 0.1}, Rack: cluster.Hop{Latency: 0.3}, Zone: cluster.Hop{Latency: 1}}
	var samples []string
	for _, ns := range []string{"talk-near", "talk-" + DefaultProfile} {
		samples = append(samples, fmt.Sprintf(`{"metric":{"source_workload":"web","source_workload_namespace":%q,
			"destination_workload":"api","destination_workload_namespace":%q},"value":[1,"3e6"]}`, ns, ns))
	}
	prometheus := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[%s]}}`, strings.Join(samples, ","))
	}))
	t.Cleanup(prometheus.Close)
	stop := l.schedule(t, Profile{SchedulerName: DefaultProfile, Args: Args{Variant: DefaultProfile}},
		Profile{SchedulerName: "near", Args: Args{Policy: "greedy:traffic", Preferences: preference.Declared,
			Traffic: &traffic.Config{Network: links, Measured: traffic.Measured{Address: prometheus.URL}}}})
	defer stop()
	l.until(t, "a measurement", func() error {
		if l.metrics(t).sum("gnnsched_traffic_polls_total", "result", "ok") == 0 {
			return errors.New("none yet")
		}
		return nil
	})
	for _, scheduler := range []string{"near", DefaultProfile} {
		ns := "talk-" + scheduler // the samples name it
		l.namespaceNamed(t, ns)
		l.deploy(t, ns, deployment{"api", scheduler, 1})
		api := l.bound(t, ns, 1)[0]
		l.deploy(t, ns, deployment{"web", scheduler, 5})
		beside, inZone := 0, 0
		for _, p := range l.bound(t, ns, 6) {
			if p.Name == api.Name {
				continue
			}
			if p.Spec.NodeName == api.Spec.NodeName {
				beside++
			}
			if l.zoneOf(t, p) == l.zoneOf(t, api) {
				inZone++
			}
		}
		if near := scheduler == "near"; near != (beside == 3) || near != (inZone == 5) {
			t.Errorf("%s put %d pods on the node of api, which has room for 3, and %d of 5 into its zone", scheduler, beside, inZone)
		}
	}
}

// deployment is a Deployment of pods with 1 CPU.
type deployment struct {
	name, scheduler string
	replicas        int32
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
	if _, err := l.client.AppsV1().Deployments(namespace).Create(t.Context(), d, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (l *lab) zoneOf(t *testing.T, p corev1.Pod) string {
	t.Helper()
	n, err := l.client.CoreV1().Nodes().Get(t.Context(), p.Spec.NodeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return n.Labels[corev1.LabelTopologyZone]
}
