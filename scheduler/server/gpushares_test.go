package server

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/fatal"
)

// The lab has shareNodes nodes with shared GPUs, each with shareDevices devices of the model T4.
const (
	shareNodes   = 2
	shareDevices = 4
)

// sharePod returns a pod that requests GPUs on the nodes with shared GPUs.
func sharePod(name, scheduler string, r cluster.Resources, models ...string) *corev1.Pod {
	annotations, list := kube.GPUAnnotations(r, models), kube.GPUResourceList(r)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
		Spec: corev1.PodSpec{
			SchedulerName: scheduler,
			NodeSelector:  map[string]string{"shared": "yes"},
			Tolerations: []corev1.Toleration{{Key: "reserved", Operator: corev1.TolerationOpEqual, Value: "shared",
				Effect: corev1.TaintEffectNoSchedule}},
			Containers: []corev1.Container{{Name: "main", Image: "registry.k8s.io/pause:3.10",
				Resources: corev1.ResourceRequirements{Requests: list, Limits: list}}},
		},
	}
	p.Spec.Containers[0].Resources.Requests = list.DeepCopy()
	p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("10m")
	return p
}

func (l *lab) create(t *testing.T, namespace string, p *corev1.Pod) {
	t.Helper()
	if _, err := l.client.CoreV1().Pods(namespace).Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// devices checks the pods' annotations: every bound pod has as many devices as it requests, and no
// device is overcommitted. It returns the sum of what the pods have, in thousandths of a device.
func (l *lab) devices(t *testing.T, namespace string) (given int64) {
	t.Helper()
	used := map[string][]int64{}
	for _, p := range l.pods(t, namespace) {
		if p.Spec.NodeName == "" {
			continue
		}
		r, err := kube.GPURequestOf(p.Annotations, kube.Requests(&p))
		fatal.If(t, err)
		on, milli := kube.Devices(p.Annotations), r.GPUMilli
		if r.GPU > 0 {
			milli = cluster.DeviceMilli
		}
		if int64(on.Len()) != max(r.GPU, 1) {
			t.Errorf("%s asks for %+v and is on %q of %s", p.Name, r, p.Annotations[kube.GPUIndexAnnotation], p.Spec.NodeName)
		}
		if used[p.Spec.NodeName] == nil {
			used[p.Spec.NodeName] = make([]int64, shareDevices)
		}
		for i := range used[p.Spec.NodeName] {
			if on.Has(i) {
				used[p.Spec.NodeName][i] += milli
				given += milli
			}
		}
	}
	for node, devices := range used {
		for i, x := range devices {
			if x > cluster.DeviceMilli {
				t.Errorf("device %d of %s is overcommitted: %v", i, node, devices)
			}
		}
	}
	return given
}

// Pods of several profiles share devices, and each pod gets its own. A restarted scheduler reads from
// the pods which devices are in use.
func (l *lab) testShares(t *testing.T) {
	ns := l.namespace(t, "shares")
	profiles := []Profile{
		{SchedulerName: DefaultProfile, Args: Args{Variant: DefaultProfile}}, {SchedulerName: "fgd", Args: Args{Policy: "fgd"}},
		{SchedulerName: "gpu-packing", Args: Args{Policy: "gpu-packing"}},
	}
	stop := l.schedule(t, profiles...)
	// Of eight devices five are taken whole. No two shares of 600 fit on one device.
	for i := range 5 {
		l.create(t, ns, sharePod(fmt.Sprint("whole-", i), profiles[i%len(profiles)].SchedulerName, cluster.Resources{GPU: 1}))
	}
	for i := range 2 {
		l.create(t, ns, sharePod(fmt.Sprint("share-", i), profiles[i%len(profiles)].SchedulerName, cluster.Resources{GPUMilli: 600}, "A10", "T4"))
	}
	l.bound(t, ns, 7)
	if given := l.devices(t, ns); given != 6200 {
		t.Errorf("%d thousandths are given", given)
	}
	stop()

	stop = l.schedule(t, profiles...)
	for i, p := range profiles { // one whole device is free, and 400 on two others
		l.create(t, ns, sharePod(fmt.Sprint("after-", i), p.SchedulerName, cluster.Resources{GPUMilli: 600}))
	}
	l.create(t, ns, sharePod("small", "fgd", cluster.Resources{GPUMilli: 400}))
	l.create(t, ns, sharePod("other-model", DefaultProfile, cluster.Resources{GPUMilli: 100}, "A10"))
	l.bound(t, ns, 9)
	l.refused(t, ns, "other-model", "no GPU of a model that the pod allows")
	fatal.Until(t, "two of the later pods to be refused", func() error {
		if n := len(l.events(t, ns, "", "FailedScheduling")); n < 3 {
			return fmt.Errorf("%d events", n)
		}
		return nil
	})
	if given := l.devices(t, ns); given != 7200 {
		t.Errorf("%d thousandths are given", given)
	}

	// Deleted pods make room for the refused ones.
	err := errors.Join(
		l.client.CoreV1().Pods(ns).Delete(t.Context(), "whole-0", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}),
		l.client.CoreV1().Pods(ns).Delete(t.Context(), "whole-1", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}),
	)
	fatal.If(t, err)
	fatal.Until(t, "the refused pods to get the room", func() error {
		n := 0
		for _, p := range l.pods(t, ns) {
			if p.Spec.NodeName != "" {
				n++
			}
		}
		if n != 9 { // two are deleted, two are new
			return fmt.Errorf("%d pods have a node", n)
		}
		return nil
	})

	// A pod with a wrong annotation is tried again as soon as it is corrected, not minutes later.
	mended := []byte(`{"metadata":{"annotations":{"` + kube.GPUModelAnnotation + `":"T4"}}}`)
	if _, err := l.client.CoreV1().Pods(ns).Patch(t.Context(), "other-model", types.MergePatchType, mended,
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	l.bound(t, ns, 10)
	l.devices(t, ns)
	stop()
}
