package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/core/install"     // defaults
	_ "k8s.io/kubernetes/pkg/apis/resource/install" // defaults
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"

	"gnnsched/internal/fatal"
	"gnnsched/internal/kubeconfig"
	"gnnsched/internal/kuberelease"
	"gnnsched/kwok/nodepool"
	"gnnsched/scheduler/plugin"
)

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
	claims, err := newClaimController(ctx, all.client, informers)
	fatal.If(t, err)
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
	k, err := o.Config(ctx)
	fatal.If(t, err)
	k.Client, k.ComponentConfig.PodInitialBackoffSeconds, k.ComponentConfig.PodMaxBackoffSeconds = client, 0, 0
	enable(k.ComponentConfig.Profiles, r.Book != nil)
	i, err := newInstance(ctx, k, r)
	fatal.If(t, err)
	return i
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
