//go:build !k136

package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/features"

	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/fatal"
	"gnnsched/kwok/nodepool"
	"gnnsched/scheduler/plugin"
)

// A pod whose resize the kubelet defers comes back to the queue though it has a node. It preempts there, and keeps its node and its
// devices: upstream's plugins and ours do the same.
func TestDeferredResizePreempts(t *testing.T) {
	capacity := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"),
		corev1.ResourcePods: resource.MustParse("20")}
	kube.AddGPUs(capacity, 1)
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.InPlacePodVerticalScalingSchedulerPreemption, true)
	for _, profile := range []string{DefaultProfile, "best"} {
		t.Run(profile, func(t *testing.T) {
			l := newBed(t, []nodepool.Pool{{Name: "n", Count: 1, Capacity: capacity, Labels: map[string]string{kube.GPUModelLabel: "T4"}}}, caseConfig(),
				plugin.Recording{})
			ns := l.namespace(t, "resize")
			pod := func(name string, priority int32, cpu string, annotations map[string]string) {
				requests := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
				p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}, Spec: corev1.PodSpec{
					SchedulerName: profile, Priority: &priority, TerminationGracePeriodSeconds: new(int64),
					Containers: []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Requests: requests}}},
				}}
				fatal.Value(l.client.CoreV1().Pods(ns).Create(t.Context(), p, metav1.CreateOptions{}))(t)
			}
			pod("grows", 100, "1", map[string]string{kube.GPUMilliAnnotation: "600"})
			pod("victim", 0, "2", nil)
			l.bound(t, ns, 2)
			// The status is as a kubelet writes it that can resize pods, and defers this resize.
			l.patch(t, ns, "grows", "status", corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
				Name: "c", Image: "i", Ready: true, Resources: &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
			}}}})
			l.patch(t, ns, "grows", "resize", corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c",
				Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3")},
				}}}}})
			l.patch(t, ns, "grows", "status", corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{
				Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonDeferred,
			}}}})
			fatal.Until(t, "the victim to go", func() error {
				v, err := l.client.CoreV1().Pods(ns).Get(t.Context(), "victim", metav1.GetOptions{})
				if apierrors.IsNotFound(err) || err == nil && v.DeletionTimestamp != nil {
					return nil
				}
				return errors.Join(err, errors.New("it is there"))
			})
			p := fatal.Value(l.client.CoreV1().Pods(ns).Get(t.Context(), "grows", metav1.GetOptions{}))(t)
			if p.Spec.NodeName == "" || p.DeletionTimestamp != nil || p.Annotations[kube.GPUIndexAnnotation] != "0" {
				t.Errorf("the pod has node %q and devices %q", p.Spec.NodeName, p.Annotations[kube.GPUIndexAnnotation])
			}
		})
	}
}

// patch changes a subresource of a pod as a strategic merge patch does.
func (l *lab) patch(t *testing.T, namespace, name, subresource string, change corev1.Pod) {
	t.Helper()
	whole := fatal.Value(json.Marshal(change))(t)
	part := "spec"
	if subresource == "status" {
		part = "status"
	}
	var parts map[string]json.RawMessage
	fatal.If(t, json.Unmarshal(whole, &parts))
	body := fmt.Appendf(nil, `{%q:%s}`, part, parts[part])
	fatal.Value(l.client.CoreV1().Pods(namespace).Patch(t.Context(), name, types.StrategicMergePatchType, body, metav1.PatchOptions{},
		subresource))(t)
}
