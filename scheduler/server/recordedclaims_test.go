package server

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"gnnsched/internal/fatal"
	"gnnsched/scheduler/decision"
	"gnnsched/scheduler/explain"
)

// The record of a pod with claims names its claims and devices as the API server has them, and the GPUs that the policy
// chose on both best nodes.
func TestRecordedClaims(t *testing.T) {
	book := decision.NewBook(100, nil)
	l, ns := newClaimBed(t, book)
	shared := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "for-two"},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{
			Requests: []resourceapi.DeviceRequest{{Name: "one", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu.nvidia.com",
				AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1}}},
		}}}
	if _, err := l.client.ResourceV1().ResourceClaims(ns).Create(t.Context(), shared, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	ofTwo := func(name string) *corev1.Pod {
		p := claimPod(name, "best", "share", "whole")
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: ptr.To("for-two")}}
		return p
	}
	for i, c := range []struct {
		pod      *corev1.Pod
		devices  string // of the decision: device, thousandths and request
		runnerUp string // device there
	}{
		{claimPod("taken", "best", "share-of-gpu-2", "shared"), "gpu-2 460 gpu", "gpu-2"},
		{claimPod("share", "best", "share", "shared"), "gpu-2 460 gpu", "gpu-0"},
		{ofTwo("first"), "gpu-0 1000 one", ""},
		{ofTwo("second"), "gpu-0 1000 one", ""}, // the claim is allocated already
		{claimPod("pair", "best", "pair", "whole"), "gpu-1 1000 a gpu-2 1000 b", ""},
		{claimPod("extended", "best", "", "whole"), "gpu-3 1000 container-0-request-0", ""},
	} {
		l.create(t, ns, c.pod)
		l.bound(t, ns, i+1)
		name := c.pod.Name
		r := l.recorded(t, book, ns, name)
		var devices, held []string
		for _, d := range r.Claimed {
			devices = append(devices, fmt.Sprint(d.Name, " ", d.Milli, " ", d.Request))
			held = append(held, d.Name)
			claim, err := l.client.ResourceV1().ResourceClaims(ns).Get(t.Context(), d.Claim, metav1.GetOptions{})
			if name == "extended" {
				if d.Claim != "" {
					t.Errorf("the claim of %s is named %s before it exists", name, d.Claim)
				}
				continue
			}
			if err != nil || len(claim.Status.ReservedFor) == 0 || d.Pool != r.Node {
				t.Errorf("%s: claim %q, pool %s: %v", name, d.Claim, d.Pool, err)
			}
		}
		if got := strings.Join(devices, " "); got != c.devices {
			t.Errorf("%s has %q, want %q", name, got, c.devices)
		}
		if want := r.Node + "/" + strings.Join(held, " "); name != "first" && name != "second" && l.allocated(t, ns)[name] != want {
			t.Errorf("%s: the record says %s, the API server %s", name, want, l.allocated(t, ns)[name])
		}
		l.checkCards(t, r, held, c.runnerUp)
	}
}

// checkCards checks which GPUs the policy chose on the best nodes of a record, and that the explanation says so.
func (l *lab) checkCards(t *testing.T, r decision.Record, held []string, runnerUp string) {
	t.Helper()
	if runnerUp == "" {
		return
	}
	here, there := "gpu.nvidia.com/"+r.Node+"/"+held[0], "gpu.nvidia.com/"+r.RunnerUp+"/"+runnerUp
	if len(r.Best) != 2 || fmt.Sprint(r.Best[0].Cards) != "["+here+"]" || fmt.Sprint(r.Best[1].Cards) != "["+there+"]" {
		t.Errorf("%s: best nodes %+v, want %s and %s", r.Pod, r.Best, here, there)
	}
	var text strings.Builder
	if err := explain.Write(&text, r, nil); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"the policy chose " + here + ".", "it would have chosen " + there + ".",
		"0.46   gpu      " + r.Claimed[0].Claim} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, text.String())
		}
	}
}

// recorded waits for the record of a pod's decision.
func (l *lab) recorded(t *testing.T, book *decision.Book, namespace, pod string) (r decision.Record) {
	t.Helper()
	fatal.Until(t, "the record of "+pod, func() error {
		found := book.Last(decision.Query{Namespace: namespace, Pod: pod})
		if len(found) == 0 {
			return errors.New("there is none")
		}
		r = found[0]
		return nil
	})
	return r
}

// Events of a scheduler with any name have a reporting controller that the API server takes.
func TestController(t *testing.T) {
	for name, want := range map[string]string{
		"gnn":                                "gnn",
		"example.com/batch":                  "example.com/batch",
		"linear:./my weights":                "linear-.-my-weights",
		"größe":                              "gr--e",
		":":                                  "gnnsched",
		strings.Repeat("+x", 40):             strings.Repeat("x-", 31)[:61],
		"ahead:traffic+overload+balance=0.1": "ahead-traffic-overload-balance-0.1",
	} {
		got := controller(name)
		if got != want {
			t.Errorf("%q has the controller %q, want %q", name, got, want)
		}
		if faults := validation.IsQualifiedName(got); len(faults) > 0 {
			t.Errorf("%q has the controller %q: %v", name, got, faults)
		}
	}
}
