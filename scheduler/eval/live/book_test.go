package live

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/each"
)

// history gives a book one event after another.
type history struct {
	*book
	revision int64
}

// pod is a state of a pod: its requests, its node and its devices, and what change changes.
func pod(name string, requests cluster.Resources, node, devices string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "main"}}}}
	p.Name, p.UID, p.Labels = name, types.UID("uid of "+name), map[string]string{}
	p.Spec.Containers[0].Resources.Requests = kube.NonzeroResourceList(requests)
	p.Annotations = map[string]string{}
	for k, v := range kube.GPUAnnotations(requests, nil) {
		p.Annotations[k] = v
	}
	if devices != "" {
		p.Annotations[kube.GPUIndexAnnotation] = devices
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func condition(kind corev1.PodConditionType, status corev1.ConditionStatus, reason string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: kind, Status: status, Reason: reason})
	}
}

func phase(is corev1.PodPhase) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Status.Phase = is } }

func (h *history) sees(pods ...*corev1.Pod) {
	for _, p := range pods {
		h.revision++
		h.see(h.revision, p)
	}
}

func (h *history) loses(names ...string) {
	for _, name := range names {
		h.revision++
		h.gone(h.revision, name)
	}
}

var (
	core  = cluster.Resources{MilliCPU: 1000, Memory: 1 << 30}
	over  = cluster.Resources{MilliCPU: 100, Memory: 1 << 20, GPUMilli: 600}
	under = cluster.Resources{MilliCPU: 100, Memory: 1 << 20, GPUMilli: 400}
	two   = cluster.Resources{MilliCPU: 100, Memory: 1 << 20, GPU: 2}
)

func shared(milli int64) cluster.Resources {
	r := under
	r.GPUMilli = milli
	return r
}

// byClaim lets a pod ask by a claim of a template.
func byClaim(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		claim(p, under)
		p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "gpu-0", ResourceClaimName: &name}}
	}
}

// byRival makes a pod one of the rival's.
func byRival(p *corev1.Pod) { p.Spec.SchedulerName = rival }

// later lets time pass.
func (h *history) later(d time.Duration) {
	now := h.now().Add(d)
	h.now = func() time.Time { return now }
}

// claimState is a claim for thousandths of a device, allocated on a node for pods unless the node is empty.
func claimState(name, node, device string, milli int64, pods ...string) *resourceapi.ResourceClaim {
	r := cluster.Resources{GPUMilli: milli}
	if milli == cluster.DeviceMilli {
		r = cluster.Resources{GPU: 1}
	}
	c := &resourceapi.ResourceClaim{Spec: kube.Claim(r, nil)}
	c.Name = name
	if node == "" {
		return c
	}
	c.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{{
		Request: "gpu", Driver: kube.GPUDriver, Pool: node, Device: device,
		ConsumedCapacity: map[resourceapi.QualifiedName]resource.Quantity{kube.GPUSharesCapacity: *resource.NewQuantity(milli,
			resource.DecimalSI)},
	}}}}
	for _, p := range pods {
		c.Status.ReservedFor = append(c.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: p})
	}
	return c
}

func (h *history) claims(states ...*resourceapi.ResourceClaim) {
	for _, c := range states {
		h.revision++
		h.seeClaim(h.revision, c)
	}
}

// Each history has the violations that it should, with their pods.
func TestBook(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(h *history)
		want    []string // kind and pods
	}{
		"a pod that is bound, runs and is deleted": {happens: func(h *history) {
			h.expect("a")
			h.sees(pod("a", core, "", ""), pod("a", core, "n", ""), pod("a", core, "n", "", phase(corev1.PodRunning)))
			h.deleting("a")
			h.loses("a")
		}},
		"bound twice": {happens: func(h *history) {
			h.sees(pod("a", core, "", ""), pod("a", core, "n", ""), pod("a", core, "m", ""))
		}, want: []string{"bound twice a"}},
		"bound and unbound": {happens: func(h *history) {
			h.sees(pod("a", core, "n", ""), pod("a", core, "", ""))
		}, want: []string{"bound twice a"}},
		"gone without a reason": {happens: func(h *history) {
			h.expect("a")
			h.sees(pod("a", core, "n", ""))
			h.loses("a")
		}, want: []string{"vanished a"}},
		"evicted": {happens: func(h *history) {
			h.sees(pod("a", core, "n", "", condition(corev1.DisruptionTarget, corev1.ConditionTrue, "PreemptionByScheduler")))
			h.loses("a")
		}},
		"never there": {happens: func(h *history) {
			h.expect("a")
			h.judgeUnbound()
		}, want: []string{"lost a"}},
		"never bound": {happens: func(h *history) {
			h.sees(pod("a", core, "", "", condition(corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonUnschedulable)))
			h.judgeUnbound()
		}, want: []string{"lost a"}},
		"never bound, and its status lacks one of its claims": {happens: func(h *history) {
			h.sees(pod("a", core, "", "", func(p *corev1.Pod) { claim(p, two) }, byClaim("c")))
			h.judgeUnbound()
		}},
		"never bound, without any of its claims": {happens: func(h *history) {
			h.sees(pod("a", core, "", "", byClaim("c"), func(p *corev1.Pod) { p.Status.ResourceClaimStatuses = nil }))
			h.judgeUnbound()
		}, want: []string{"lost a"}},
		"too large and reported": {happens: func(h *history) {
			h.sees(pod("a", core, "", "", tooLarge, condition(corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonUnschedulable)))
			h.judgeUnbound()
		}},
		"too large and not reported": {happens: func(h *history) {
			h.sees(pod("a", core, "", "", tooLarge))
			h.judgeUnbound()
		}, want: []string{"lost a"}},
		"two shares on one device": {happens: func(h *history) {
			h.sees(pod("a", over, "n", "0"), pod("b", under, "n", "0"), pod("c", over, "n", "1"))
		}},
		"too large shares on one device": {happens: func(h *history) {
			h.sees(pod("a", over, "n", "0"), pod("b", over, "n", "0"))
		}, want: []string{"device twice b a"}},
		"a device of a pod that has ended": {happens: func(h *history) {
			h.sees(pod("a", over, "n", "0"), pod("a", over, "n", "0", phase(corev1.PodFailed)), pod("b", over, "n", "0"))
		}},
		"a device of a pod that is being deleted": {happens: func(h *history) {
			h.sees(pod("a", over, "n", "0"))
			h.deleting("a")
			h.sees(pod("b", over, "n", "0"))
		}, want: []string{"device twice b a"}},
		"a device of a pod that is gone": {happens: func(h *history) {
			h.sees(pod("a", over, "n", "0"))
			h.deleting("a")
			h.loses("a")
			h.sees(pod("b", over, "n", "0"))
		}},
		"a whole device and a share": {happens: func(h *history) {
			h.sees(pod("a", two, "n", "0-1"), pod("b", under, "n", "1"))
		}, want: []string{"device twice b a"}},
		"devices that change": {happens: func(h *history) {
			h.sees(pod("a", under, "n", "0"), pod("a", under, "n", "1"))
		}, want: []string{"device twice a"}},
		"no device":                  {happens: func(h *history) { h.sees(pod("a", under, "n", "")) }, want: []string{"no device a"}},
		"too few devices":            {happens: func(h *history) { h.sees(pod("a", two, "n", "0")) }, want: []string{"no device a"}},
		"a device that is not there": {happens: func(h *history) { h.sees(pod("a", under, "n", "3")) }, want: []string{"no device a"}},
		"more than the node has": {happens: func(h *history) {
			for i := range 5 {
				h.sees(pod(fmt.Sprint("p", i), core, "n", ""))
			}
		}, want: []string{"node overcommitted p4 p0 p1 p2 p3"}},
		"a node for no pods": {happens: func(h *history) { h.sees(pod("a", core, "control-plane", "")) }, want: []string{"node overcommitted a"}},
		"shares by claims and an annotation": {happens: func(h *history) {
			h.claims(claimState("c", "n", "gpu-0", 400, "a"), claimState("d", "n", "gpu-0", 300, "b"))
			h.sees(pod("a", core, "n", "", byClaim("c")), pod("b", core, "n", "", byClaim("d")), pod("x", shared(300), "n", "0"))
		}},
		"claims over the capacity": {happens: func(h *history) {
			h.claims(claimState("c", "n", "gpu-0", 600, "a"), claimState("d", "n", "gpu-0", 600, "b"))
		}, want: []string{"device twice claim d claim c"}},
		"an annotation on a device of a claim": {happens: func(h *history) {
			h.claims(claimState("c", "n", "gpu-0", 600, "a"))
			h.sees(pod("a", core, "n", "", byClaim("c")), pod("x", over, "n", "0"))
		}, want: []string{"device twice x claim c"}},
		"a device of a claim that is free again": {happens: func(h *history) {
			h.claims(claimState("c", "n", "gpu-0", 1000, "a"), claimState("c", "", "", 1000), claimState("d", "n", "gpu-0", 1000, "b"))
			h.goneClaim(9, "d")
			h.sees(pod("x", over, "n", "0"))
		}},
		"a claim on another node": {happens: func(h *history) {
			h.claims(claimState("c", "m", "gpu-0", 600, "a"))
			h.sees(pod("a", core, "n", "", byClaim("c")))
		}, want: []string{"claim elsewhere a"}},
		"a claim of somebody else": {happens: func(h *history) {
			h.claims(claimState("c", "n", "gpu-0", 600, "b"))
			h.sees(pod("a", core, "n", "", byClaim("c")))
		}, want: []string{"claim elsewhere a"}},
		"a claim that was not allocated": {happens: func(h *history) {
			h.claims(claimState("c", "", "", 600))
			h.sees(pod("a", core, "n", "", byClaim("c")))
		}, want: []string{"claim elsewhere a"}},
		"a claim that does not exist": {happens: func(h *history) { h.sees(pod("a", core, "n", "", byClaim("c"))) },
			want: []string{"claim elsewhere a"}},
		"a pod without its claim": {happens: func(h *history) {
			h.sees(pod("a", core, "n", "", byClaim("c"), func(p *corev1.Pod) { p.Status.ResourceClaimStatuses = nil }))
		}, want: []string{"no device a"}},
		"a pod whose status lacks one of its claims": {happens: func(h *history) {
			h.claims(claimState("c", "n", "gpu-0", 600, "a"), claimState("d", "n", "gpu-1", 600, "a"))
			h.sees(pod("a", core, "n", "", func(p *corev1.Pod) { claim(p, two) }, byClaim("c")))
		}},
		"a pod whose status lacks one of its claims, which is freed": {happens: func(h *history) {
			h.claims(claimState("c", "n", "gpu-0", 600, "a"), claimState("d", "n", "gpu-1", 600, "a"))
			h.sees(pod("a", core, "n", "", func(p *corev1.Pod) { claim(p, two) }, byClaim("c")))
			h.claims(claimState("d", "", "", 600))
		}, want: []string{"no device a"}},
		"a claim that is freed while its pod runs": {happens: func(h *history) {
			h.claims(claimState("c", "n", "gpu-0", 600, "a"))
			h.sees(pod("a", core, "n", "", byClaim("c")))
			h.claims(claimState("c", "", "", 600))
		}, want: []string{"no device a"}},
		"a claim that is freed after its pod": {happens: func(h *history) {
			h.claims(claimState("c", "n", "gpu-0", 600, "a"))
			h.sees(pod("a", core, "n", "", byClaim("c")), pod("a", core, "n", "", byClaim("c"), phase(corev1.PodFailed)))
			h.goneClaim(9, "c")
		}},
		"a claim that moves": {happens: func(h *history) {
			h.claims(claimState("c", "n", "gpu-0", 600, "a"), claimState("c", "n", "gpu-1", 600, "a"))
		}, want: []string{"device twice claim c"}},
		"a claim of a device that is not there": {happens: func(h *history) { h.claims(claimState("c", "n", "gpu-3", 600, "a")) },
			want: []string{"no device claim c"}},
		"less than the claim asks for": {happens: func(h *history) {
			c := claimState("c", "n", "gpu-0", 600, "a")
			c.Spec = kube.Claim(cluster.Resources{GPUMilli: 700}, nil)
			h.claims(c)
		}, want: []string{"no device claim c"}},
		"an extended resource by a claim": {happens: func(h *history) {
			h.claims(claimState("c", "n", "gpu-0", 1000, "a"))
			h.sees(pod("a", core, "n", "", func(p *corev1.Pod) {
				p.Spec.Containers[0].Resources.Requests[kube.GPUResource] = resource.MustParse("1")
				p.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "c"}
			}), pod("b", over, "n", "0"))
		}, want: []string{"device twice b claim c"}},
		"a device of the rival's and of others' at the same time": {happens: func(h *history) {
			h.sees(pod("a", over, "n", "0", byRival), pod("b", over, "n", "0"))
		}},
		"a device of the rival's, long after": {happens: func(h *history) {
			h.sees(pod("a", over, "n", "0", byRival))
			h.later(meanwhile)
			h.sees(pod("b", over, "n", "0"))
		}, want: []string{"device twice b a"}},
		"a device over which pods collided, long after": {happens: func(h *history) {
			h.sees(pod("a", over, "n", "0", byRival), pod("b", over, "n", "0"))
			h.later(meanwhile)
			h.sees(pod("c", over, "n", "0"))
			h.deleting("a")
			h.deleting("b")
			h.loses("a", "b")
			h.later(meanwhile)
			h.sees(pod("d", over, "n", "0"))
		}, want: []string{"device twice d c"}},
		"a device of two of the rival's": {happens: func(h *history) {
			h.sees(pod("a", over, "n", "0", byRival), pod("b", over, "n", "0", byRival))
		}, want: []string{"device twice b a"}},
		"claims of the rival's and of others' at the same time": {happens: func(h *history) {
			h.sees(pod("a", core, "", "", byClaim("c"), byRival), pod("b", core, "", "", byClaim("d")))
			h.claims(claimState("c", "n", "gpu-0", 600, "a"), claimState("d", "n", "gpu-0", 600, "b"))
		}},
		"a claim that outlives the rival's pod": {happens: func(h *history) {
			h.sees(pod("a", core, "", "", byClaim("c"), byRival), pod("b", core, "", "", byClaim("d")))
			h.claims(claimState("c", "n", "gpu-0", 600, "a"))
			h.deleting("a")
			h.loses("a")
			h.claims(claimState("c", "n", "gpu-0", 600), claimState("d", "n", "gpu-0", 600, "b"))
		}},
		"a full node after a collision over devices": {happens: func(h *history) {
			h.sees(pod("a", two, "n", "0-1", byRival), pod("b", two, "n", "0-1"))
			h.later(meanwhile)
			h.sees(pod("c", core, "n", ""))
		}},
		"another pod of the same name": {happens: func(h *history) {
			h.sees(pod("a", core, "", ""), pod("a", core, "", "", func(p *corev1.Pod) { p.UID = "other" }))
		}, want: []string{"miscounted a"}},
	} {
		t.Run(name, func(t *testing.T) {
			node := machine{cluster.Resources{MilliCPU: 4000, Memory: 64 << 30, Pods: 10, GPU: 3}, 3}
			h := &history{book: newBook(map[string]machine{"n": node, "m": node})}
			c.happens(h)
			var got []string
			for _, v := range h.violations {
				got = append(got, strings.TrimSpace(v.kind+" "+strings.Join(v.names, " ")))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// A violation is reported once, with the history of its pod.
func TestViolationIsReportedOnce(t *testing.T) {
	h := &history{book: newBook(map[string]machine{"n": {Resources: cluster.Resources{MilliCPU: 4000, Memory: 64 << 30, Pods: 10}}})}
	h.sees(pod("a", core, "n", ""), pod("a", core, "m", ""), pod("a", core, "n", ""))
	all := h.violations
	if at := slices.IndexFunc(all, func(v violation) bool { return v.kind == boundTwice }); at < 0 ||
		!strings.Contains(all[at].String(), `revision 1: bound to n by `) {
		t.Errorf("got %v", all)
	}
	n := each.Count(all, func(v violation) bool { return v.kind == boundTwice })
	if n != 1 {
		t.Errorf("%d reports of one violation", n)
	}
}

// At the end nothing may be left, in the API server's list or by etcd's history.
func TestLeftovers(t *testing.T) {
	h := &history{book: newBook(nil)}
	h.expect("expected")
	h.sees(pod("both", core, "", ""))
	h.claims(claimState("c", "", "", 600))
	for want, list := range map[string][]corev1.Pod{
		"miscounted both, miscounted listed, lost expected": {*pod("both", core, "", ""), *pod("listed", core, "", "")},
		"lost both, lost expected, claim left":              nil,
	} {
		var got []string
		for _, v := range h.leftovers(list) {
			got = append(got, strings.TrimSpace(v.kind+" "+strings.Join(v.names, "")))
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
