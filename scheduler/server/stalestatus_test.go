package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/fatal"
	"gnnsched/kwok/nodepool"
)

// A pod's status may name what is not there any more: a scheduler was killed after it wrote the name, or could not bind the pod and deleted
// the claim. Once the pod has a node, its status must name no claim that does not exist, because the kubelet would look it up. Upstream
// leaves the name of a claim for extended resources; see docs/upstream/extended-resource-claim-status.md. Where the API server lets nobody
// remove it, the pod gets no node that would give it no claim.
func TestStatusNamesWhatIsGone(t *testing.T) {
	const (
		extended = `{"status": {"extendedResourceClaimStatus": {"resourceClaimName": "gone",
			"requestMappings": [{"containerName": "main", "resourceName": "nvidia.com/gpu", "requestName": "container-0-request-0"}]}}}`
		template = `{"status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "gone"}]}}`
		nominee  = `{"status": {"nominatedNodeName": "gone"}}`
	)
	capacity := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("32"), corev1.ResourceMemory: resource.MustParse("64Gi")}
	offers := capacity.DeepCopy()
	offers[kube.GPUResource] = resource.MustParse("8")
	l := newLab(t, []nodepool.Pool{
		{Name: "offers", Count: 1, Capacity: offers},
		{Name: "devices", Count: 1, Capacity: capacity, Devices: []nodepool.Devices{{Product: "V100", Count: 4}}},
	})
	defer l.start(t.Context(), t, withUpstream{Config{QPS: 1000, Profiles: []Profile{
		{SchedulerName: DefaultProfile, Args: Args{Variant: DefaultProfile}}, {SchedulerName: "best", Args: Args{Policy: "gpu-best-fit"}},
	}}}, l.cluster.Kubeconfig())()
	ns := l.namespace(t, "stale")
	l.apply(t, ns, "claims.yaml")
	placed, kept := 0, false
	for i, c := range []struct {
		status, profile string
		claim, node     string // template of the pod's claim, and the only pool for it; empty for any
		classless       bool   // no DeviceClass is left
		keeps           bool   // the bound pod's status names the deleted claim
	}{
		{status: extended, profile: upstreamProfile, node: "offers", keeps: true},
		{status: extended, profile: DefaultProfile, node: "offers"},
		{status: extended, profile: "best", node: "offers"},
		{status: extended, profile: "best", node: "devices"}, // the new claim's name takes the place of the old one's
		{status: template, profile: "best", node: "devices", claim: "whole"},
		{status: nominee, profile: "best", node: "offers"},
		{status: extended, profile: "best"},                                  // on devices-0, if nobody can remove the name
		{status: extended, profile: "best", node: "offers", classless: true}, // last, because it deletes the classes
	} {
		t.Run(fmt.Sprintf("%d/%s/%s", i, c.profile, c.node), func(t *testing.T) {
			name := fmt.Sprint("p-", i)
			p := claimPod(name, c.profile, c.claim, c.node)
			p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/planted"}}
			l.create(t, ns, p)
			l.patchPod(t, ns, name, c.status, "status")
			if i == 0 { // before a scheduler sees the pod
				kept = l.patchPod(t, ns, name, `{"status": {"extendedResourceClaimStatus": null}}`, "status").Status.ExtendedResourceClaimStatus != nil
				l.patchPod(t, ns, name, c.status, "status")
			}
			if c.classless {
				err := l.client.ResourceV1().DeviceClasses().DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{})
				fatal.If(t, err)
			}
			l.patchPod(t, ns, name, `{"spec": {"schedulingGates": null}}`)
			if kept && c.status == extended && c.node == "offers" && !c.keeps {
				l.untilOutcome(t, ns, name, "pending: status names claim gone of an earlier attempt")
				return
			}
			placed++
			bound := l.bound(t, ns, placed)
			p = &bound[slices.IndexFunc(bound, func(p corev1.Pod) bool { return p.Name == name })]
			names := kube.ClaimNames(p)
			missing := len(names) - len(l.claimsOf(t, p))
			offered := strings.HasPrefix(p.Spec.NodeName, "offers")
			if none := offered && !c.keeps; missing > 0 != c.keeps || len(names) == 0 != none {
				t.Errorf("on %s its status names the claims %q; %d of them are missing", p.Spec.NodeName, names, missing)
			}
		})
	}
}

// patchPod changes a pod by a JSON merge patch, and returns what the API server has then.
func (l *lab) patchPod(t *testing.T, ns, name, patch string, subresources ...string) *corev1.Pod {
	t.Helper()
	p, err := l.client.CoreV1().Pods(ns).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...)
	fatal.If(t, err)
	return p
}
