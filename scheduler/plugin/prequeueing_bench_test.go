//go:build !k136

package plugin

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	"k8s.io/utils/ptr"

	"gnnsched/scheduler/plugin/dra"
)

const waitingPods = 1000

// BenchmarkPreQueueingHints measures what an update of a claim costs the queue while 1,000 pods wait for claims of their own, with the gate
// SchedulerPreQueueingHints off and on. They take turns. The figures are processor time in microseconds, and how many times as much
// it is with the gate off.
func BenchmarkPreQueueingHints(b *testing.B) {
	objects := claimObjects()
	for i := range waitingPods {
		objects = append(objects, claimOf(fmt.Sprint("waiting-", i), "", ""))
	}
	const off, on = 0, 1
	var beds [2]*bed
	for gate := range beds {
		featuregatetesting.SetFeatureGateDuringTest(b, utilfeature.DefaultFeatureGate, features.SchedulerPreQueueingHints, gate == on)
		client := fake.NewClientset(objects...)
		beds[gate] = claimBed(b, client, []string{defaultProfile, "devices", "gpu-gnn"})
		pendingPod(b, beds[gate]) // the scheduler has read the claims
		beds[gate].refuse(b, client)
	}
	before := claimOf("n0-1", "n0", "gpu-1")
	after := before.DeepCopy()
	after.ResourceVersion = "2"
	after.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "other", UID: "other"}}
	event := fwk.ClusterEvent{Resource: fwk.ResourceClaim, ActionType: fwk.Update}
	const events = 20 // a turn
	var took [2][]time.Duration
	for b.Loop() {
		for gate, bed := range beds {
			began := processorTime(b)
			for range events {
				bed.sched.SchedulingQueue.MoveAllToActiveOrBackoffQueue(bed.log, event, before, after, nil)
			}
			took[gate] = append(took[gate], (processorTime(b)-began)/events)
		}
	}
	b.ReportMetric(median(took[off])*1e6, "off-µs")
	b.ReportMetric(median(took[on])*1e6, "on-µs")
	b.ReportMetric(median(took[off])/median(took[on]), "off/on")
}

// waitingPod returns a pod with a claim of its own.
func waitingPod(i int) *v1.Pod {
	name := fmt.Sprint("waiting-", i)
	p := st.MakePod().Name(name).Namespace("default").UID(name).SchedulerName("devices").Obj()
	p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: ptr.To(name)}}
	return p
}

// refuse creates the waiting pods, takes each from the queue and puts it back, refused by LearnedDevices.
func (b *bed) refuse(t testing.TB, client kubernetes.Interface) {
	t.Helper()
	q := b.sched.SchedulingQueue
	for i := range waitingPods {
		if _, err := client.CoreV1().Pods("default").Create(b.ctx, waitingPod(i), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		entity, err := q.Pop(b.log)
		if err != nil {
			t.Fatal(err)
		}
		info := entity.(*framework.QueuedPodInfo)
		info.UnschedulablePlugins = sets.New(dra.Name)
		if err := q.AddUnschedulablePodIfNotPresent(b.log, info, q.SchedulingCycle()); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(q.UnschedulablePods()); n != waitingPods {
		t.Fatalf("%d pods wait, want %d", n, waitingPods)
	}
}
