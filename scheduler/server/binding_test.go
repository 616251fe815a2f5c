package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/core/install"     // defaults
	_ "k8s.io/kubernetes/pkg/apis/resource/install" // defaults
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"gnnsched/internal/cluster/cards"
	"gnnsched/internal/fatal"
	"gnnsched/internal/kubeconfig"
	"gnnsched/internal/kuberelease"
	"gnnsched/kwok/nodepool"
	"gnnsched/scheduler/plugin"
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
					fatal.If(t, err)
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

// memory stores what a test writes, without an API server: it counts versions, makes names and identities, refuses what is out of date,
// completes objects with upstream's defaults, and binds pods.
type memory struct {
	client *fake.Clientset
	mu     sync.Mutex
	made   int
}

func newMemory() *memory {
	o := &memory{client: fake.NewClientset()}
	for verb, react := range map[string]clienttesting.ReactionFunc{"create": o.create, "update": o.update, "patch": o.patch} {
		o.client.PrependReactor(verb, "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.made++
			return react(a)
		})
	}
	return o
}

func (o *memory) create(a clienttesting.Action) (bool, runtime.Object, error) {
	if b, is := a.(clienttesting.CreateAction).GetObject().(*corev1.Binding); is {
		return o.bind(a, b)
	}
	object := a.(clienttesting.CreateAction).GetObject().DeepCopyObject()
	m := object.(metav1.Object)
	if m.GetName() == "" { // always the same: the controller makes a second claim if it sees its first at the wrong moment, and is refused
		m.SetName(m.GetGenerateName() + "made")
	}
	m.SetUID(types.UID(fmt.Sprint("uid-", o.made)))
	m.SetResourceVersion(strconv.Itoa(o.made))
	m.SetCreationTimestamp(metav1.Now())
	legacyscheme.Scheme.Default(object)
	return true, object, o.client.Tracker().Create(a.GetResource(), object, a.GetNamespace())
}

func (o *memory) bind(a clienttesting.Action, b *corev1.Binding) (bool, runtime.Object, error) {
	found, err := o.client.Tracker().Get(a.GetResource(), a.GetNamespace(), b.Name)
	if err != nil {
		return true, nil, err
	}
	p := found.DeepCopyObject().(*corev1.Pod)
	p.Spec.NodeName, p.ResourceVersion = b.Target.Name, strconv.Itoa(o.made)
	for key, value := range b.Annotations {
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, key, value)
	}
	return true, b, o.client.Tracker().Update(a.GetResource(), p, a.GetNamespace())
}

func (o *memory) update(a clienttesting.Action) (bool, runtime.Object, error) {
	object := a.(clienttesting.UpdateAction).GetObject().DeepCopyObject()
	m := object.(metav1.Object)
	found, err := o.client.Tracker().Get(a.GetResource(), a.GetNamespace(), m.GetName())
	if err != nil {
		return true, nil, err
	}
	if v := m.GetResourceVersion(); v != "" && v != found.(metav1.Object).GetResourceVersion() {
		return true, nil, apierrors.NewConflict(a.GetResource().GroupResource(), m.GetName(), fmt.Errorf("version %s is out of date", v))
	}
	m.SetUID(found.(metav1.Object).GetUID())
	m.SetResourceVersion(strconv.Itoa(o.made))
	legacyscheme.Scheme.Default(object)
	return true, object, o.client.Tracker().Update(a.GetResource(), object, a.GetNamespace())
}

// patch gives an object its new version with its new content: the scheduler looks only at what differs between two versions.
func (o *memory) patch(a clienttesting.Action) (bool, runtime.Object, error) {
	found, err := o.client.Tracker().Get(a.GetResource(), a.GetNamespace(), a.(clienttesting.PatchAction).GetName())
	if err != nil {
		return true, nil, err
	}
	apart := fake.NewClientset(found.DeepCopyObject()).Tracker()
	handled, object, err := clienttesting.ObjectReaction(apart)(a)
	if err != nil || !handled {
		return handled, object, err
	}
	object = object.DeepCopyObject()
	object.(metav1.Object).SetResourceVersion(strconv.Itoa(o.made))
	return true, object, o.client.Tracker().Update(a.GetResource(), object, a.GetNamespace())
}

// newBed is a lab without an API server: upstream's controller of claims and the scheduler work on the objects in memory.
// A pod that a change may help is tried again at once.
func newBed(t *testing.T, pools []nodepool.Pool, c Configuration, r plugin.Recording) *lab {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	all := newMemory()
	reconcile(t, all.client, pools)
	i := newMemoryInstance(ctx, t, all.client, c, r)
	informers := kuberelease.Informers(all.client)
	claims := fatal.Value(newClaimController(ctx, all.client, informers))(t)
	informers.Start(ctx.Done())
	go claims.Run(ctx, 1)
	i.startInformers()
	ended := make(chan struct{})
	go func() { defer close(ended); i.schedule(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	return &lab{client: all.client, memory: all}
}

// newMemoryInstance makes a scheduler from a configuration, with another client.
func newMemoryInstance(ctx context.Context, t *testing.T, client kubernetes.Interface, c Configuration, r plugin.Recording) *instance {
	t.Helper()
	// Of this file, what would connect is replaced.
	nowhere := filepath.Join(t.TempDir(), "kubeconfig")
	text := "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}], " +
		"clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]}"
	fatal.If(t, os.WriteFile(nowhere, []byte(text), 0o600))
	file, remove, err := WriteTemporary(c, kubeconfig.Target{Kubeconfig: nowhere})
	fatal.If(t, err)
	defer remove()
	o, err := Endpoint{Address: "127.0.0.1"}.options(file)
	fatal.If(t, err)
	if o.ComponentConfig, err = latest.Default(); err != nil {
		t.Fatal(err)
	}
	k := fatal.Value(o.Config(ctx))(t)
	k.Client, k.ComponentConfig.PodInitialBackoffSeconds, k.ComponentConfig.PodMaxBackoffSeconds = client, 0, 0
	enable(k.ComponentConfig.Profiles, r.Book != nil)
	return fatal.Value(newInstance(ctx, k, r))(t)
}

// apply writes an object that is there or not.
func (o *memory) apply(t *testing.T, ns string, u *unstructured.Unstructured) {
	t.Helper()
	object, err := legacyscheme.Scheme.New(u.GroupVersionKind())
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, object)
	}
	fatal.If(t, err)
	gvr, _ := meta.UnsafeGuessKindToResource(u.GroupVersionKind())
	object.(metav1.Object).SetNamespace(ns)
	_, err = o.client.Invokes(clienttesting.NewCreateAction(gvr, ns, object), object)
	if apierrors.IsAlreadyExists(err) {
		_, err = o.client.Invokes(clienttesting.NewUpdateAction(gvr, ns, object), object)
	}
	fatal.If(t, err)
}

// remove deletes an object and, as the garbage collector does, the claims that it owns.
func (o *memory) remove(kind schema.GroupVersionKind, ns, name string) error {
	gvr, _ := meta.UnsafeGuessKindToResource(kind)
	if err := o.client.Tracker().Delete(gvr, ns, name); err != nil || kind.Kind != "Pod" {
		return err
	}
	api := o.client.ResourceV1().ResourceClaims(ns)
	all, err := api.List(context.Background(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range all.Items {
		if owner := metav1.GetControllerOf(&all.Items[i]); owner != nil && owner.Name == name {
			err = errors.Join(err, api.Delete(context.Background(), all.Items[i].Name, metav1.DeleteOptions{}))
		}
	}
	return err
}

// driverCases are the slices of testdata/drivers, which have the form that published drivers give theirs, with pods that use
// them one after another.
var driverCases = []struct {
	file, model string
	pods        []string // TEMPLATE: OUTCOME
	cards       string   // NAME:THOUSANDTHS in use of each card that policies know
	other       string   // as in claimCase
}{
	{"nvidia-gpu", "NVIDIA H100 80GB HBM3", []string{"one: n-0 gpu=gpu-0", "pair: n-0 gpu=gpu-2 gpu=gpu-3"},
		"gpu-0:1000 gpu-1:0 gpu-2:1000 gpu-3:1000", ""},
	{"nvidia-mig", "NVIDIA A100-SXM4-40GB", []string{"half: n-0 mig=gpu-2-mig-3g20gb-9-4", "half: n-0 mig=gpu-2-mig-3g20gb-9-0",
		"one: n-0 gpu=gpu-10", "one: pending: cannot allocate all claims"}, "gpu-2-counter-set:984 gpu-10-counter-set:1000", ""},
	{"nvidia-mig-static", "NVIDIA A100-SXM4-40GB", []string{"half: n-0 mig=gpu-0-mig-3g20gb-9-0", "half: n-0 mig=gpu-0-mig-3g20gb-9-4"},
		"gpu-0-mig-3g20gb-9-0:1000 gpu-0-mig-3g20gb-9-4:1000", ""},
	{"nvidia-shares", "Tesla T4", []string{"tenth: n-0 gpu=gpu-0", "six: n-0 gpu=gpu-0", "memory: n-0 gpu=gpu-1"}, "gpu-0:700 gpu-1:500", ""},
	{"nvidia-compute-domain", "NVIDIA GB200", []string{"both: n-0 channel=channel-0 gpu=gpu-0", "both: pending: cannot allocate all claims"},
		"gpu-0:1000 gpu-1:0", ""},
	{"intel-gpu", "Data Center GPU Flex 170", []string{"one: n-0 gpu=0000-03-00-0-0x56c0", "one: n-0 gpu=0000-04-00-0-0x56c0"},
		"0000-03-00-0-0x56c0:1000 0000-04-00-0-0x56c0:1000 0000-05-00-0-0x56c0:0", ""},
	{"intel-gaudi", "", []string{"one: n-0 gaudi=0000-19-00-0-0x1020"}, "", ""},
	{"amd-gpu", "AMD_Instinct_MI300X_OAM", []string{"pair: n-0 gpu=gpu-0-128 gpu=gpu-10-138"},
		"gpu-0-128:1000 gpu-1-129:0 gpu-9-137:0 gpu-10-138:1000", ""},
	{"amd-partitions", "AMD_Instinct_MI300X_OAM", []string{"eighth: n-0 gpu=gpu-0-cpx-nps1", "whole: n-0 gpu=gpu-1-spx-nps1",
		"eighth: n-0 gpu=gpu-0-cpx-nps1", "whole: pending: cannot allocate all claims"}, "gpu-0-mutex:250 gpu-1-mutex:1000", ""},
	{"google-tpu", "", []string{"all: n-0 tpu=0 tpu=1 tpu=2 tpu=3", "all: pending: cannot allocate all claims"}, "", ""},
	{"dranet", "NVIDIA H100 80GB HBM3", []string{"near: n-0 gpu=gpu-2 gpu=gpu-3 nic=pci-0000-4c-00-0"},
		"gpu-0:0 gpu-1:0 gpu-2:1000 gpu-3:1000", "the network card must be at the same root"},
	{"example", "LATEST-GPU-MODEL", []string{"pair: n-0 a=gpu-0 b=gpu-1"}, "gpu-0:1000 gpu-1:1000 gpu-2:0 gpu-3:0", ""},
	{"cpu", "", []string{"ten: n-0 cpu=cpudevnuma000", "ten: n-0 cpu=cpudevnuma000"}, "", ""},
}

// The slices of published drivers are read as what they are, and pods get their devices.
func testDrivers(t *testing.T) {
	files, err := filepath.Glob("testdata/drivers/*.yaml")
	if err != nil || len(files) != len(driverCases) {
		t.Errorf("%d files, %d cases, %v", len(files), len(driverCases), err)
	}
	for _, c := range driverCases {
		t.Run(c.file, func(t *testing.T) {
			l := newBed(t, casePools(), caseConfig(), plugin.Recording{})
			ns := l.caseNamespace(t, nil)
			text, err := os.ReadFile("testdata/drivers/" + c.file + ".yaml")
			var all []unstructured.Unstructured
			if err == nil {
				err = yaml.UnmarshalStrict(text, &all)
			}
			fatal.If(t, err)
			defer checkOther(t, "best", c.other)()
			l.applyAll(t, ns, "best", all)
			for i, pod := range c.pods {
				template, want, _ := strings.Cut(pod, ": ")
				p := claimPod(fmt.Sprint("p-", i), "best", template, "")
				l.create(t, ns, p)
				l.untilOutcome(t, ns, p.Name, want)
			}
			model, used := l.readCards(t, ns)
			if model != c.model || used != c.cards {
				t.Errorf("model %q, cards %q; want %q, %q", model, used, c.model, c.cards)
			}
		})
	}
}

// readCards returns the model of a node's cards, and what the claims of a namespace use of each.
func (l *lab) readCards(t *testing.T, ns string) (model, used string) {
	t.Helper()
	list := fatal.Value(l.client.ResourceV1().ResourceSlices().List(t.Context(), metav1.ListOptions{}))(t)
	claims := fatal.Value(l.client.ResourceV1().ResourceClaims(ns).List(t.Context(), metav1.ListOptions{}))(t)
	var in []*resourceapi.ResourceSlice
	for i := range list.Items {
		if cards.OfNode(&list.Items[i]) {
			in = append(in, &list.Items[i])
		}
	}
	slices.SortFunc(in, cards.Compare)
	set := cards.Read(in)
	if set == nil {
		return "", ""
	}
	milli := make([]int64, len(set.Cards))
	for _, c := range claims.Items {
		if c.Status.Allocation != nil {
			set.Count(milli, c.Status.Allocation.Devices.Results)
		}
	}
	var out []string
	for i, c := range set.Cards {
		out = append(out, fmt.Sprintf("%s:%d", c.Name, milli[i]))
	}
	return set.Product, strings.Join(out, " ")
}

// A driver publishes its slice again and again, with its devices in another order, and takes it away now and then, while pods come through
// both allocators. In the end each pod has a device, and no device has two.
func (l *lab) testChangingSlices(t *testing.T) {
	ns := l.caseNamespace(t, nil)
	l.applyAll(t, ns, "best", readBase(t))
	const devices = 8
	s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "changing"}, Spec: resourceapi.ResourceSliceSpec{
		Driver: "gpu.example.com", NodeName: ptr.To("n-0"), Pool: resourceapi.ResourcePool{Name: "n-0", Generation: 1, ResourceSliceCount: 1},
	}}
	for i := range devices {
		s.Spec.Devices = append(s.Spec.Devices, resourceapi.Device{Name: fmt.Sprint("gpu-", i)})
	}
	api := l.client.ResourceV1().ResourceSlices()
	publish := func() {
		made := fatal.Value(api.Create(t.Context(), s, metav1.CreateOptions{}))(t)
		s = made
	}
	publish()
	for i := range devices {
		l.create(t, ns, claimPod(fmt.Sprint("p-", i), []string{"best", upstreamProfile, "net"}[i%3], "one", ""))
		s.Spec.Pool.Generation++
		slices.Reverse(s.Spec.Devices)
		if i%3 < 2 {
			made := fatal.Value(api.Update(t.Context(), s, metav1.UpdateOptions{}))(t)
			s = made
			continue
		}
		fatal.If(t, api.Delete(t.Context(), s.Name, metav1.DeleteOptions{}))
		s.ResourceVersion, s.UID = "", ""
		publish()
	}
	l.bound(t, ns, devices)
	on := map[string]string{}
	for pod, device := range l.allocated(t, ns) {
		if other, has := on[device]; has {
			t.Errorf("%s and %s both have %s", pod, other, device)
		}
		on[device] = pod
	}
	if len(on) != devices {
		t.Errorf("devices: %v", on)
	}
}
