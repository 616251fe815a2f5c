//go:build !k136

package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/features"

	"gnnsched/internal/cluster/kube"
	"gnnsched/kwok"
	"gnnsched/kwok/nodepool"
)

// A pod whose resize the kubelet defers comes back to the queue though it has a node. It preempts there, and keeps its node and its
// devices: upstream's plugins and ours do the same.
func TestDeferredResizePreempts(t *testing.T) {
	capacity := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"),
		corev1.ResourcePods: resource.MustParse("20")}
	kube.AddGPUs(capacity, 1)
	gates := switchGate(t, features.InPlacePodVerticalScalingSchedulerPreemption)
	l := newLabWith(t, kwok.Config{FeatureGates: gates,
		Pools: []nodepool.Pool{{Name: "n", Count: 1, Capacity: capacity, Labels: map[string]string{kube.GPUModelLabel: "T4"}}}})
	l.gates = gates
	high := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 100}
	if _, err := l.client.SchedulingV1().PriorityClasses().Create(t.Context(), high, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	defer l.run(t, Config{QPS: 1000, Profiles: []Profile{{SchedulerName: DefaultProfile, Args: Args{Variant: DefaultProfile}},
		{SchedulerName: "best", Args: Args{Policy: "gpu-best-fit"}}}})()
	for _, profile := range []string{DefaultProfile, "best"} {
		t.Run(profile, func(t *testing.T) {
			ns := l.namespace(t, "resize-"+profile)
			pod := func(name, class, cpu string, annotations map[string]string) {
				requests := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
				p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}, Spec: corev1.PodSpec{
					SchedulerName: profile, PriorityClassName: class, TerminationGracePeriodSeconds: new(int64),
					Containers: []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Requests: requests}}},
				}}
				if _, err := l.client.CoreV1().Pods(ns).Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			pod("grows", "high", "1", map[string]string{kube.GPUMilliAnnotation: "600"})
			pod("victim", "", "2", nil)
			l.bound(t, ns, 2)
			l.until(t, "the pod to run", func() error {
				p, err := l.client.CoreV1().Pods(ns).Get(t.Context(), "grows", metav1.GetOptions{})
				if err == nil && p.Status.Phase != corev1.PodRunning {
					err = fmt.Errorf("it is %s", p.Status.Phase)
				}
				return err
			})
			// The rest of the status is as a kubelet writes it that can resize pods, and defers this resize.
			l.patch(t, ns, "grows", "status", corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
				Name: "c", Image: "i", Ready: true, Resources: &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
			}}}})
			l.patch(t, ns, "grows", "resize", corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c",
				Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3")},
				}}}}})
			l.patch(t, ns, "grows", "status", corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{
				Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonDeferred,
			}}}})
			l.until(t, "the victim to go", func() error {
				v, err := l.client.CoreV1().Pods(ns).Get(t.Context(), "victim", metav1.GetOptions{})
				if apierrors.IsNotFound(err) || err == nil && v.DeletionTimestamp != nil {
					return nil
				}
				return errors.Join(err, errors.New("it is there"))
			})
			p, err := l.client.CoreV1().Pods(ns).Get(t.Context(), "grows", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if p.Spec.NodeName == "" || p.DeletionTimestamp != nil || p.Annotations[kube.GPUIndexAnnotation] != "0" {
				t.Errorf("the pod has node %q and devices %q", p.Spec.NodeName, p.Annotations[kube.GPUIndexAnnotation])
			}
		})
	}
}

// patch changes a subresource of a pod as a strategic merge patch does.
func (l *lab) patch(t *testing.T, namespace, name, subresource string, change corev1.Pod) {
	t.Helper()
	whole, err := json.Marshal(change)
	if err != nil {
		t.Fatal(err)
	}
	part := "spec"
	if subresource == "status" {
		part = "status"
	}
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(whole, &parts); err != nil {
		t.Fatal(err)
	}
	body := fmt.Appendf(nil, `{%q:%s}`, part, parts[part])
	if _, err := l.client.CoreV1().Pods(namespace).Patch(t.Context(), name, types.StrategicMergePatchType, body, metav1.PatchOptions{},
		subresource); err != nil {
		t.Fatal(err)
	}
}
