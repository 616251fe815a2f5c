package dra

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"
)

// staleHost is a profile whose only DeviceClass serves example.com/gpu.
type staleHost struct {
	fwk.Handle
	client kubernetes.Interface
}

func (h staleHost) ClientSet() kubernetes.Interface { return h.client }
func (h staleHost) ProfileName() string             { return "stale" }

// staleClasses are its classes.
type staleClasses struct{ fwk.SharedDRAManager }

func (c staleClasses) DeviceClassResolver() fwk.DeviceClassResolver { return c }
func (staleClasses) GetDeviceClass(name v1.ResourceName) *resourceapi.DeviceClass {
	if name == "example.com/gpu" {
		return &resourceapi.DeviceClass{}
	}
	return nil
}

// The API server is asked only about pods whose status the cache may not have yet, and written to only if a name must go.
func TestClearStale(t *testing.T) {
	controller := true
	given := []*resourceapi.ResourceClaim{{ObjectMeta: metav1.ObjectMeta{
		Annotations:     map[string]string{resourceapi.ExtendedResourceClaimAnnotation: "true"},
		OwnerReferences: []metav1.OwnerReference{{UID: "u", Controller: &controller}},
	}}}
	for name, c := range map[string]struct {
		cached, actual bool // the status names a claim
		requests       v1.ResourceName
		given          []*resourceapi.ResourceClaim
		asked, cleared bool
		keeps          bool // the API server keeps the name
	}{
		"nothing to do":              {requests: v1.ResourceCPU},
		"cached":                     {cached: true, actual: true, requests: "example.com/gpu", cleared: true},
		"cached, no class serves it": {cached: true, actual: true, requests: "example.com/other", cleared: true},
		"not cached yet":             {actual: true, requests: "example.com/gpu", asked: true, cleared: true},
		"none":                       {requests: "example.com/gpu", asked: true},
		"kept":                       {cached: true, actual: true, requests: "example.com/gpu", cleared: true, keeps: true},
		"its own":                    {cached: true, actual: true, requests: "example.com/gpu", given: given},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p", UID: "u"}}
			requests := v1.ResourceList{c.requests: resource.MustParse("1")}
			pod.Spec.Containers = []v1.Container{{Resources: v1.ResourceRequirements{Requests: requests}}}
			named := &v1.PodExtendedResourceClaimStatus{ResourceClaimName: "gone"}
			actual := pod.DeepCopy()
			if c.actual {
				actual.Status.ExtendedResourceClaimStatus = named
			}
			if c.cached {
				pod.Status.ExtendedResourceClaimStatus = named
			}
			client := fake.NewClientset(actual)
			if c.keeps {
				client.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, actual, nil })
			}
			p := &plugin{handle: staleHost{client: client}, manager: &manager{SharedDRAManager: staleClasses{}}}
			set.Register()
			if err := p.clearStale(t.Context(), pod, &reserved{given: c.given}); (err != nil) != c.keeps || p.stuck(pod) != c.keeps {
				t.Fatalf("%v, stuck: %v", err, p.stuck(pod))
			}
			var asked, cleared bool
			for _, a := range client.Actions() {
				asked = asked || a.GetVerb() == "get"
				cleared = cleared || a.GetVerb() == "patch" && a.GetSubresource() == "status"
			}
			is, err := client.CoreV1().Pods("n").Get(t.Context(), "p", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			left := is.Status.ExtendedResourceClaimStatus
			if asked != c.asked || cleared != c.cleared || (left != nil) != (c.actual && !c.cleared || c.keeps) {
				t.Errorf("asked %v, cleared %v; its status names %v", asked, cleared, left)
			}
		})
	}
}
