package server

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/kubernetes/pkg/scheduler"

	"gnnsched/internal/fatal"
	"gnnsched/internal/kuberelease"
)

// binder is the transport to an API server with one pod. Each binding has the next of its fates.
type binder struct {
	t     *testing.T
	pod   corev1.Pod
	fates []fate
	binds int
}

// fate describes one binding: whether it reaches the API server, and the answer that the client gets.
type fate struct {
	arrives bool
	status  int // 0: the connection breaks
}

// RoundTrip implements http.RoundTripper.
func (b *binder) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet {
		if strings.HasSuffix(r.URL.Path, bindingPath) {
			b.t.Errorf("GET %s", r.URL)
		}
		return answer(r, http.StatusOK, b.pod)
	}
	b.binds++
	f := fate{arrives: true, status: http.StatusCreated}
	if len(b.fates) > 0 {
		f, b.fates = b.fates[0], b.fates[1:]
	}
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var binding corev1.Binding
	if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(text, nil, &binding); err != nil {
		return nil, err
	}
	switch {
	case f.arrives && b.pod.Spec.NodeName != "":
		refused := apierrors.NewConflict(schema.GroupResource{Resource: "pods/binding"}, b.pod.Name, io.EOF).Status()
		refused.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		return answer(r, http.StatusConflict, refused)
	case f.arrives:
		b.pod.Spec.NodeName = binding.Target.Name
	}
	if f.status == 0 {
		return nil, io.ErrUnexpectedEOF
	}
	return answer(r, f.status, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Code: int32(f.status)})
}

// A scheduler learns what became of a binding although its answer was lost.
func TestBindingWithoutAnswer(t *testing.T) {
	broken, timedOut := fate{status: 0}, fate{status: http.StatusGatewayTimeout}
	written, late := fate{arrives: true}, fate{arrives: true, status: http.StatusGatewayTimeout}
	for name, c := range map[string]struct {
		fates    []fate
		already  string // the node that the pod has
		uid      types.UID
		binds    int
		bound    bool
		conflict bool
	}{
		"answered":                       {binds: 1, bound: true},
		"not written, not answered":      {fates: []fate{broken}, binds: 2, bound: true},
		"written, not answered":          {fates: []fate{written}, binds: 2, bound: true},
		"written, answered with 504":     {fates: []fate{late}, binds: 2, bound: true},
		"not written, answered with 504": {fates: []fate{timedOut}, binds: 2, bound: true},
		"long not answered":              {fates: []fate{broken, broken, broken, broken, written}, binds: 6, bound: true},
		"failing":                        {fates: []fate{timedOut, timedOut, timedOut}, binds: bindFailures},
		"bound elsewhere":                {already: "other", binds: 1, conflict: true},
		"bound elsewhere meanwhile":      {fates: []fate{broken}, already: "other", binds: 2, conflict: true},
		"another pod of that name":       {fates: []fate{written}, uid: "new", binds: 2, conflict: true},
		"bound here by another":          {already: "n", binds: 1, conflict: true},
	} {
		for _, content := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
			t.Run(name+" "+content, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := &binder{t: t, fates: c.fates, pod: corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}}
					b.pod.Name, b.pod.Namespace, b.pod.UID, b.pod.Spec.NodeName = "p", "default", "old", c.already
					if c.uid != "" {
						b.pod.UID = c.uid
					}
					client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://api", Transport: rebinding{b},
						ContentConfig: rest.ContentConfig{ContentType: content}})
					if err != nil {
						t.Fatal(err)
					}
					err = client.CoreV1().Pods("default").Bind(t.Context(), &corev1.Binding{
						ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "old"}, Target: corev1.ObjectReference{Kind: "Node", Name: "n"},
					}, metav1.CreateOptions{})
					if (err == nil) != c.bound || apierrors.IsConflict(err) != c.conflict || b.binds != c.binds {
						t.Errorf("%d bindings, want %d; error %v, want bound %v, conflict %v", b.binds, c.binds, err, c.bound, c.conflict)
					}
				})
			})
		}
	}
}

func answer(r *http.Request, status int, o any) (*http.Response, error) {
	b, err := json.Marshal(o)
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(string(b))), Request: r}, err
}

// A standby that gets the lease while a watch is behind waits for the bindings and allocations of the previous leader.
func TestNewLeaderKnowsTheLatestBindings(t *testing.T) {
	p := &corev1.Pod{}
	p.Name, p.Namespace, p.UID, p.Spec.NodeName = "p", "default", "uid", "n"
	c := &resourceapi.ResourceClaim{}
	c.Name, c.Namespace, c.UID, c.Status.Allocation = "c", "default", "uid", &resourceapi.AllocationResult{}
	for resource, object := range map[schema.GroupVersionResource]runtime.Object{
		corev1.SchemeGroupVersion.WithResource("pods"):                p,
		resourceapi.SchemeGroupVersion.WithResource("resourceclaims"): c,
	} {
		t.Run(resource.Resource, func(t *testing.T) { checkCatchesUp(t, resource, object) })
	}
}

// checkCatchesUp adds an object that a watch shows late.
func checkCatchesUp(t *testing.T, resource schema.GroupVersionResource, object runtime.Object) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	client := fake.NewClientset()
	behind := make(chan struct{})
	client.PrependWatchReactor(resource.Resource, func(a clienttesting.Action) (bool, watch.Interface, error) {
		w, err := client.Tracker().Watch(resource, a.GetNamespace())
		if err != nil {
			return true, nil, err
		}
		return true, watch.Filter(w, func(e watch.Event) (watch.Event, bool) { <-behind; return e, true }), nil
	})
	i := &instance{synced: make(chan struct{}), active: make(chan struct{}), ctx: ctx, end: cancel}
	i.informers = kuberelease.Informers(client)
	var err error
	i.sched, err = scheduler.New(ctx, client, i.informers, nil, func(string) events.EventRecorderLogger { return &events.FakeRecorder{} })
	fatal.If(t, err)
	i.informers.Start(ctx.Done())
	i.informers.WaitForCacheSync(ctx.Done())
	i.catchUp(ctx, client) // nothing is bound or allocated
	fatal.If(t, client.Tracker().Add(object))
	done := make(chan struct{})
	go func() { defer close(done); i.catchUp(ctx, client) }()
	select {
	case <-done:
		t.Error("the new leader did not wait for what its watch does not show yet")
	case <-time.After(5 * catchUpPause):
	}
	close(behind)
	<-done
}
