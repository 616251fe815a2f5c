package kwok

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"gnnsched/internal/fatal"
	"gnnsched/kwok/nodepool"
)

// TestDevices starts a cluster whose nodes have devices. The API server accepts their slices, a template
// becomes a claim, and devices follow changed pools; the slices of a deleted node go with it.
func TestDevices(t *testing.T) {
	checkLeaks(t)
	pools, err := nodepool.Load("testdata/devices.yaml")
	fatal.If(t, err)
	_, cs := start(t, Config{Dir: t.TempDir(), Pools: pools})
	ctx := context.Background()
	devices := func() map[string]int {
		t.Helper()
		list, err := cs.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{})
		fatal.If(t, err)
		out := map[string]int{}
		for _, s := range list.Items {
			out[*s.Spec.NodeName] += len(s.Spec.Devices)
		}
		return out
	}
	// A device of mig-0 is whole, or 7 of 1g.5gb, 3 of 2g.10gb, 2 of 3g.20gb.
	if got := fmt.Sprint(devices()); got != "map[mig-0:26 shared-0:4 shared-1:4]" {
		t.Errorf("devices %s", got)
	}
	for _, name := range []string{nodepool.DefaultDriver, "mig.nvidia.com"} {
		if _, err := cs.ResourceV1().DeviceClasses().Get(ctx, name, metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	}

	template := &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	template.Spec.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpu",
		Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: nodepool.DefaultDriver}}}
	if _, err := cs.ResourceV1().ResourceClaimTemplates("default").Create(ctx, template, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{
		Containers:     []corev1.Container{{Name: "c", Image: "none"}},
		ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: ptr.To("gpu")}},
	}}
	if _, err := cs.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the template's claim", func() error {
		list, err := cs.ResourceV1().ResourceClaims("default").List(ctx, metav1.ListOptions{})
		if err == nil && len(list.Items) != 1 {
			err = fmt.Errorf("there are %d", len(list.Items))
		}
		return err
	})

	pools = pools[:1]
	pools[0].Count, pools[0].Devices[0].Count = 1, 2
	if _, err := nodepool.Reconcile(ctx, cs, pools); err != nil {
		t.Fatal(err)
	}
	if _, err := nodepool.Publish(ctx, cs, pools); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the devices of the changed pools", func() error {
		if got := fmt.Sprint(devices()); got != "map[shared-0:2]" {
			return errors.New(got)
		}
		return nil
	})
}
