package plugin

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	fwkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	"k8s.io/utils/ptr"

	"gnnsched/internal/fatal"
	"gnnsched/internal/kuberelease"
	"gnnsched/scheduler/plugin/dra"
)

const (
	claimNodes   = 200
	claimDevices = 8
	claimDriver  = "gpu.example.com"
)

// claimObjects are the slices of the nodes, with a share on every other device, and a pending claim for a share.
func claimObjects() (out []runtime.Object) {
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	class.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: `device.driver == "` + claimDriver +
		`"`}}}
	out = append(out, class, claimOf("pending", "", ""))
	for n := range claimNodes {
		node := fmt.Sprint("n", n)
		s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: resourceapi.ResourceSliceSpec{
			Driver: claimDriver, NodeName: &node, Pool: resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
		}}
		for d := range claimDevices {
			name := fmt.Sprint("gpu-", d)
			s.Spec.Devices = append(s.Spec.Devices, resourceapi.Device{Name: name, AllowMultipleAllocations: ptr.To(true),
				Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"productName": {StringValue: ptr.To("T4")}},
				Capacity:   map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"shares": {Value: resource.MustParse("1000")}}})
			if d%2 == 1 {
				out = append(out, claimOf(fmt.Sprint(node, "-", d), node, name))
			}
		}
		out = append(out, s)
	}
	return out
}

// claimOf returns a claim for a share, allocated unless the node is empty.
func claimOf(name, node, device string) *resourceapi.ResourceClaim {
	shares := map[resourceapi.QualifiedName]resource.Quantity{"shares": resource.MustParse("460")}
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name),
		ResourceVersion: "1"}}
	c.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
		Capacity: &resourceapi.CapacityRequirements{Requests: shares},
	}}}
	if node != "" {
		c.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{{
			Request: "gpu", Driver: claimDriver, Pool: node, Device: device, ShareID: ptr.To(types.UID(name)), ConsumedCapacity: shares,
		}}}}
	}
	return c
}

// pendingPod returns a pod with the pending claim, once it fits on all nodes.
func pendingPod(b testing.TB, bed *bed) *v1.Pod {
	b.Helper()
	pod := st.MakePod().Name("p").Namespace("default").UID("p").Req(map[v1.ResourceName]string{"cpu": "1"}).Obj()
	pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: ptr.To("pending")}}
	for try := 0; ; try++ { // the scheduler's caches follow the informers in goroutines of their own
		r, err := bed.decide(defaultProfile, pod)
		if err == nil && r.FeasibleNodes == claimNodes {
			return pod
		}
		if try == 1000 {
			b.Fatal(r, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// claimBed returns a scheduler of the nodes with upstream's profile, one with LearnedDevices, and one with a network, too.
func claimBed(b testing.TB, client kubernetes.Interface, profiles []string) *bed {
	b.Helper()
	informers := kuberelease.Informers(client)
	out := &bed{ctx: b.Context(), log: klog.Background().V(10)}
	all := []config.KubeSchedulerProfile{upstreamProfile(b), upstreamProfile(b),
		learnedProfile(b, profiles[2], Args{Variant: profiles[2], Deadline: duration(time.Hour)}, false)}
	all[1].SchedulerName = profiles[1]
	for i := range all[1:] {
		list := all[i+1].Plugins.MultiPoint.Enabled
		at := slices.IndexFunc(list, func(p config.Plugin) bool { return p.Name == names.DynamicResources })
		all[i+1].Plugins.MultiPoint.Enabled = slices.Concat(list[:at], []config.Plugin{{Name: dra.Name, Weight: list[at].Weight}}, list[at+1:])
	}
	var err error
	out.sched, err = scheduler.New(b.Context(), client, informers, nil,
		func(string) events.EventRecorderLogger { return &events.FakeRecorder{} },
		scheduler.WithProfiles(all...), scheduler.WithFrameworkOutOfTreeRegistry(fwkruntime.Registry(Registry(nil))),
		scheduler.WithPercentageOfNodesToScore(ptr.To[int32](100)))
	fatal.If(b, err)
	informers.Start(b.Context().Done())
	informers.WaitForCacheSync(b.Context().Done())
	for n := range claimNodes {
		node := st.MakeNode().Name(fmt.Sprint("n", n)).Capacity(map[v1.ResourceName]string{"cpu": "64", "memory": "256Gi", "pods": "110"}).Obj()
		out.sched.Cache.AddNode(out.log, node)
	}
	return out
}
