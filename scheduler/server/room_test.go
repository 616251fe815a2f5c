package server

import (
	"context"
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	schedulerserver "k8s.io/kubernetes/cmd/kube-scheduler/app/config"

	"gnnsched/internal/cluster/kube"
	"gnnsched/kwok/nodepool"
	"gnnsched/scheduler/plugin"
)

// Two schedulers that both fill one node after the other overcommit none. Each leads, as two processes with leases of their own do.
func TestTwoSchedulersShareNodes(t *testing.T) {
	const nodes, pods = 6, 24 // of each scheduler, on nodes for 10 pods each
	capacity := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("5"), corev1.ResourceMemory: resource.MustParse("16Gi"),
		corev1.ResourcePods: resource.MustParse("110")}
	l := newLab(t, []nodepool.Pool{{Name: "shared", Count: nodes, Capacity: capacity}})
	ns := l.namespace(t, "shared")
	names := []string{"one", "two"}
	for _, name := range names {
		defer l.lead(t, name)()
	}
	var all sync.WaitGroup
	for _, name := range names {
		for i := range pods {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", name, i)},
				Spec: corev1.PodSpec{SchedulerName: name, Containers: []corev1.Container{{
					Name: "c", Image: "none", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m")}},
				}}}}
			all.Go(func() {
				if _, err := l.client.CoreV1().Pods(ns).Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
					t.Error(err)
				}
			})
		}
	}
	all.Wait()
	cores := map[string]int64{}
	for _, p := range l.bound(t, ns, len(names)*pods) {
		cores[p.Spec.NodeName] += kube.Requests(&p).MilliCPU
	}
	for node, milli := range cores {
		if milli > 5000 {
			t.Errorf("the pods on %s request %d thousandths of a core, and it has 5000", node, milli)
		}
	}
}

// lead starts a scheduler beside others of this process; end ends it. Run would publish its configuration, which a process does once.
func (l *lab) lead(t *testing.T, name string) (end func()) {
	t.Helper()
	decoded, err := Config{Profiles: []Profile{{SchedulerName: name, Args: Args{Policy: "best-fit"}}}, QPS: 1000}.Decode()
	if err != nil {
		t.Fatal(err)
	}
	access := rest.CopyConfig(l.cluster.REST())
	access.QPS, access.Burst = 1000, 2000
	client := kubernetes.NewForConfigOrDie(access)
	ctx, cancel := context.WithCancel(context.Background())
	i, err := newInstance(ctx, &schedulerserver.Config{
		ComponentConfig: *decoded, KubeConfig: access, Client: client, EventBroadcaster: events.NewEventBroadcasterAdapter(client),
	}, plugin.Recording{})
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	i.startInformers()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		i.schedule(ctx)
	}()
	return func() {
		cancel()
		<-ended
	}
}
