package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	resourcebeta "k8s.io/api/resource/v1beta2"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	schedulerconfig "k8s.io/kube-scheduler/config/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"gnnsched/internal/fatal"
	"gnnsched/kwok/nodepool"
	"gnnsched/scheduler/plugin"
)

// claimCase is one case of testdata/claimcases: what is written to the API server, and what becomes of the pods.
type claimCase struct {
	Name            string            `json:"name"`
	Restates        string            `json:"restates"` // upstream's tests with the same subject
	NamespaceLabels map[string]string `json:"namespaceLabels"`
	// Other says why the allocator gives a pod other devices than the policy of ours chose; empty if it gives all pods those.
	Other string      `json:"other"`
	Steps []claimStep `json:"steps"`
}

// claimStep deletes, then applies. Pods come one after another: each waits for the outcome of the one before.
type claimStep struct {
	Delete []string                    `json:"delete"` // KIND/NAME
	Apply  []unstructured.Unstructured `json:"apply"`  // apiVersion, and what all have in common, may be missing
	// Status has, by pod, the conditions that a driver sets on the devices of its claims.
	Status map[string]any `json:"status"`
	// Want is, by pod, "NODE REQUEST=DEVICE ..." in the order of the requests' names, with * for anything; or "pending: " and a part of the
	// reason; or "waiting" for a pod that has no node and of which nothing is said.
	Want map[string]string `json:"want"`
}

// upstreamProfile is the name of the profile that is upstream's alone.
const upstreamProfile = "upstream"

// withUpstream is a Config with a profile that has upstream's plugins and none of ours.
type withUpstream struct{ Config }

func (c withUpstream) SchedulerNames() []string {
	return append(c.Config.SchedulerNames(), upstreamProfile)
}

func (c withUpstream) YAMLFor(kubeconfig string) ([]byte, error) {
	text, err := c.Config.YAMLFor(kubeconfig)
	if err != nil {
		return nil, err
	}
	var k schedulerconfig.KubeSchedulerConfiguration
	if err := yaml.Unmarshal(text, &k); err != nil {
		return nil, err
	}
	plugins := gpuShares() // without it no profile may have it
	plugins.MultiPoint = schedulerconfig.PluginSet{Enabled: plugins.MultiPoint.Enabled[:1]}
	k.Profiles = append(k.Profiles, schedulerconfig.KubeSchedulerProfile{SchedulerName: ptr.To(upstreamProfile), Plugins: plugins})
	return yaml.Marshal(k)
}

// casePools are the nodes n-0 to n-2, with no devices of their own.
func casePools() []nodepool.Pool {
	return []nodepool.Pool{{Name: "n", Count: 3, Capacity: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("32"), corev1.ResourceMemory: resource.MustParse("64Gi"),
		corev1.ResourcePods: resource.MustParse("110"),
	}}}
}

// caseConfig has profiles of upstream's plugins, of a policy, and of a network.
func caseConfig() Configuration {
	return withUpstream{Config{QPS: 1000, Profiles: []Profile{
		{SchedulerName: DefaultProfile, Args: Args{Variant: DefaultProfile}}, {SchedulerName: "best", Args: Args{Policy: "gpu-best-fit"}},
		{SchedulerName: "net", Args: Args{Variant: "gpu-gnn", Deadline: metav1.Duration{Duration: patience}}},
	}}}
}

// eachCase gives a function every case, with its name: FILE/CASE.
func eachCase(t *testing.T, f func(name string, c claimCase)) {
	t.Helper()
	files, err := filepath.Glob("testdata/claimcases/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		for _, c := range readCases(t, file) {
			f(strings.TrimSuffix(filepath.Base(file), ".yaml")+"/"+c.Name, c)
		}
	}
}

// Upstream's cases, in our words, come out alike through its own plugins and through ours.
func TestClaimCases(t *testing.T) {
	before, played := map[string]map[string]int{"best": choices(t, "best"), "net": choices(t, "net")}, map[string]bool{}
	eachCase(t, func(name string, c claimCase) {
		profiles := []string{upstreamProfile, "best"}
		if slices.ContainsFunc(c.Steps, func(s claimStep) bool { return len(s.Status) > 0 }) {
			profiles = profiles[1:] // upstream's plugin looks at the conditions of a driver every five seconds
		}
		if strings.HasPrefix(name, "requests/") { // the network chooses several devices there
			profiles = append(profiles, "net")
		}
		for _, profile := range profiles {
			t.Run(name+"/"+profile, func(t *testing.T) {
				played[profile] = true
				defer checkOther(t, profile, c.Other)()
				newBed(t, casePools(), caseConfig(), plugin.Recording{}).testCase(t, c, profile)
			})
		}
	})
	t.Run("drivers", testDrivers)
	for profile, was := range before {
		if got := choices(t, profile); got["taken"] == was["taken"] && played[profile] {
			t.Errorf("choices of %s: %v, before %v", profile, got, was)
		}
	}
}

// serverCases are the cases that are played through an API server, too: what differs there is how claims come, change and go.
var serverCases = []string{
	"alternatives/the first that fits", "capacity/partitions exclude each other", "capacity/shares of a device",
	"extended/by the name of the class's resource", "nodes/slices that vanish and come back", "requests/admin access",
	"sharing/a claim deleted and made anew", "sharing/a device is free after its pod", "sharing/one claim for many pods",
	"taints/a taint that goes",
}

// Through an API server, ten cases come out as in memory. Rules taint devices alike for upstream's plugins and for ours.
func TestClaimCasesOnServer(t *testing.T) {
	l := newLab(t, casePools())
	defer l.start(context.Background(), t, caseConfig(), l.cluster.Kubeconfig())()
	found := 0
	eachCase(t, func(name string, c claimCase) {
		if slices.Contains(serverCases, name) {
			found++
			t.Run(name, func(t *testing.T) { l.testCase(t, c, "best") })
		}
	})
	if found != len(serverCases) {
		t.Errorf("%d of %d cases are in testdata", found, len(serverCases))
	}
	for _, c := range readCases(t, "testdata/taintrules.yaml") {
		for _, profile := range []string{upstreamProfile, "best"} {
			t.Run(c.Name+"/"+profile, func(t *testing.T) {
				l.testCase(t, c, profile)
				rules := l.objects(t, "DeviceTaintRule", "")
				if err := rules.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
					t.Error(err)
				}
			})
		}
	}
	t.Run("slices change", l.testChangingSlices)
}

// checkOther returns a check that since then pods of a profile got other devices than were chosen if, and only if, there is a reason.
func checkOther(t *testing.T, profile, reason string) func() {
	t.Helper()
	if profile == upstreamProfile { // it chooses none
		return func() {}
	}
	was := choices(t, profile)["other"]
	return func() {
		t.Helper()
		if n := choices(t, profile)["other"] - was; (n > 0) != (reason != "") {
			t.Errorf("%d pods got other devices than were chosen; the reason for them is %q", n, reason)
		}
	}
}

func readCases(t *testing.T, file string) (out []claimCase) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		err = yaml.UnmarshalStrict(text, &out)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return out
}

// caseKinds are the kinds of a case's objects. True: they have no namespace.
var caseKinds = map[string]bool{"Pod": false, "ResourceClaim": false, "ResourceClaimTemplate": false, "ResourceSlice": true,
	"DeviceClass": true, "DeviceTaintRule": true}

// objects returns the client for a kind.
func (l *lab) objects(t *testing.T, kind, namespace string) dynamic.ResourceInterface {
	t.Helper()
	clusterWide, known := caseKinds[kind]
	if !known {
		t.Fatalf("kind %s", kind)
	}
	gvr, _ := meta.UnsafeGuessKindToResource(versionOf(kind))
	if clusterWide {
		return l.dynamic.Resource(gvr)
	}
	return l.dynamic.Resource(gvr).Namespace(namespace)
}

func versionOf(kind string) schema.GroupVersionKind {
	switch kind {
	case "Pod":
		return corev1.SchemeGroupVersion.WithKind(kind)
	case "DeviceTaintRule":
		return resourcebeta.SchemeGroupVersion.WithKind(kind)
	}
	return resourceapi.SchemeGroupVersion.WithKind(kind)
}

// caseNamespace makes a namespace for a case, with labels beside its own. A bed ends with its case; of a cluster, the case's objects go.
func (l *lab) caseNamespace(t *testing.T, labels map[string]string) string {
	t.Helper()
	ns := l.namespace(t, "case")
	x, err := l.client.CoreV1().Namespaces().Get(t.Context(), ns, metav1.GetOptions{})
	if err == nil && len(labels) > 0 {
		x.Labels = labels
		_, err = l.client.CoreV1().Namespaces().Update(t.Context(), x, metav1.UpdateOptions{})
	}
	fatal.If(t, err)
	if l.memory == nil {
		t.Cleanup(func() { l.cleanCase(t, ns) })
	}
	return ns
}

// testCase plays a case in a namespace of its own.
func (l *lab) testCase(t *testing.T, c claimCase, profile string) {
	ns := l.caseNamespace(t, c.NamespaceLabels)
	l.applyAll(t, ns, profile, readBase(t))
	for i, s := range c.Steps {
		for _, name := range s.Delete {
			kind, name, _ := strings.Cut(name, "/")
			l.remove(t, ns, kind, name)
		}
		for j := range s.Apply {
			served, serves, _ := unstructured.NestedString(s.Apply[j].Object, "spec", "extendedResourceName")
			if serves && l.memory == nil { // the class of the case before has gone
				l.untilLacking(t, ns, served, "3 Insufficient cpu, 3 Insufficient "+served)
			}
			l.applyAll(t, ns, profile, s.Apply[j:j+1])
			if serves {
				l.untilLacking(t, ns, served, "3 Insufficient cpu. ")
			}
			if want, has := s.Want[s.Apply[j].GetName()]; has && s.Apply[j].GetKind() == "Pod" {
				l.untilOutcome(t, ns, s.Apply[j].GetName(), want)
			}
		}
		for pod, status := range s.Status {
			l.setClaimStatus(t, ns, pod, status)
		}
		for pod, want := range s.Want { // those from before
			l.untilOutcome(t, ns, pod, want)
		}
		if t.Failed() {
			t.Fatalf("in step %d", i)
		}
	}
}

// untilLacking waits until a pod that asks for too much of the CPU and for an extended resource lacks what is said: the scheduler knows, or
// does not know, a class for the resource. A pod that it looks at while a class arrives may get a node without devices, because upstream's
// DynamicResources asks for the class before, NodeResourcesFit after.
func (l *lab) untilLacking(t *testing.T, ns, extended, want string) {
	t.Helper()
	const name = "too-large"
	limits := map[string]any{"cpu": int64(1000), extended: int64(1)}
	pod := unstructured.Unstructured{Object: map[string]any{"kind": "Pod", "metadata": map[string]any{"name": name}, "spec": map[string]any{
		"containers": []any{map[string]any{"name": "main", "image": "pause", "resources": map[string]any{"limits": limits}}},
	}}}
	l.applyAll(t, ns, upstreamProfile, []unstructured.Unstructured{pod})
	l.untilOutcome(t, ns, name, "pending: "+want)
	fatal.If(t, l.client.CoreV1().Pods(ns).Delete(t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
}

// readBase returns the objects that all cases can use.
func readBase(t *testing.T) (out []unstructured.Unstructured) {
	t.Helper()
	text, err := os.ReadFile("testdata/claimbase.yaml")
	if err == nil {
		err = yaml.UnmarshalStrict(text, &out)
	}
	fatal.If(t, err)
	return out
}

// applyAll writes objects, after complete.
func (l *lab) applyAll(t *testing.T, ns, profile string, all []unstructured.Unstructured) {
	t.Helper()
	for i := range all {
		o := all[i].DeepCopy()
		complete(t, o, profile)
		if l.memory != nil {
			l.memory.apply(t, namespaceOf(o.GetKind(), ns), o)
			continue
		}
		fatal.Value(l.objects(t, o.GetKind(), ns).Apply(t.Context(), o.GetName(), o,
			metav1.ApplyOptions{FieldManager: "test", Force: true}))(t)
	}
}

// namespaceOf returns the namespace of an object of a kind, if it has one.
func namespaceOf(kind, ns string) string {
	if caseKinds[kind] {
		return ""
	}
	return ns
}

// remove deletes an object at once.
func (l *lab) remove(t *testing.T, ns, kind, name string) {
	t.Helper()
	var err error
	if l.memory != nil {
		err = l.memory.remove(versionOf(kind), namespaceOf(kind, ns), name)
	} else {
		err = l.objects(t, kind, ns).Delete(t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
	}
	fatal.If(t, err)
}

// complete adds what all objects of a kind have in common.
func complete(t *testing.T, o *unstructured.Unstructured, profile string) {
	t.Helper()
	o.SetAPIVersion(versionOf(o.GetKind()).GroupVersion().String())
	set := func(value any, fields ...string) {
		_, has, err := unstructured.NestedFieldNoCopy(o.Object, fields...)
		if err == nil && !has {
			err = unstructured.SetNestedField(o.Object, value, fields...)
		}
		fatal.If(t, err)
	}
	switch o.GetKind() {
	case "Pod":
		set(profile, "spec", "schedulerName")
		set(int64(0), "spec", "terminationGracePeriodSeconds")
		var uses []any
		claims, _, _ := unstructured.NestedSlice(o.Object, "spec", "resourceClaims")
		for _, c := range claims {
			uses = append(uses, map[string]any{"name": c.(map[string]any)["name"]})
		}
		main := map[string]any{"name": "main", "image": "registry.k8s.io/pause:3.10"}
		if len(uses) > 0 {
			main["resources"] = map[string]any{"claims": uses}
		}
		set([]any{main}, "spec", "containers")
	case "ResourceSlice":
		set("gpu.example.com", "spec", "driver")
		node, _, _ := unstructured.NestedString(o.Object, "spec", "nodeName")
		set(node, "spec", "pool", "name")
		set(int64(1), "spec", "pool", "generation")
		set(int64(1), "spec", "pool", "resourceSliceCount")
	}
}

// cleanCase deletes what a case made, pods first, so that the claims' controllers free the devices.
func (l *lab) cleanCase(t *testing.T, ns string) {
	ctx, all := context.Background(), metav1.ListOptions{}
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	err := l.client.CoreV1().Pods(ns).DeleteCollection(ctx, now, all)
	fatal.Until(t, "the claims to go", func() error {
		err := l.client.ResourceV1().ResourceClaims(ns).DeleteCollection(ctx, now, all)
		if err != nil {
			return err
		}
		list, err := l.client.ResourceV1().ResourceClaims(ns).List(ctx, all)
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%d are left", len(list.Items))
		}
		return err
	})
	err = errors.Join(err, l.client.ResourceV1().ResourceSlices().DeleteCollection(ctx, now, all),
		l.client.ResourceV1().DeviceClasses().DeleteCollection(ctx, now, all))
	if err != nil {
		t.Error(err)
	}
}

// setClaimStatus sets what a driver says of each device that a pod has, until the pod has a node. The scheduler may
// try again, and takes away what was said then.
func (l *lab) setClaimStatus(t *testing.T, ns, pod string, conditions any) {
	t.Helper()
	fatal.Until(t, pod+" to get a node", func() error {
		p, err := l.client.CoreV1().Pods(ns).Get(t.Context(), pod, metav1.GetOptions{})
		if err != nil || p.Spec.NodeName != "" {
			return err
		}
		for _, c := range l.claimsOf(t, p) {
			if c.Status.Allocation == nil || len(c.Status.Devices) > 0 {
				continue
			}
			for _, r := range c.Status.Allocation.Devices.Results {
				text, err := yaml.Marshal(map[string]any{"driver": r.Driver, "pool": r.Pool, "device": r.Device, "conditions": conditions})
				var device resourceapi.AllocatedDeviceStatus
				if err == nil {
					err = yaml.UnmarshalStrict(text, &device)
				}
				fatal.If(t, err)
				c.Status.Devices = append(c.Status.Devices, device)
			}
			if _, err := l.client.ResourceV1().ResourceClaims(ns).UpdateStatus(t.Context(), &c, metav1.UpdateOptions{}); err != nil {
				return err
			}
		}
		return errors.New("it has none")
	})
}

// claimsOf returns the claims of a pod, in the order in which it names them, that for extended resources last.
func (l *lab) claimsOf(t *testing.T, p *corev1.Pod) (out []resourceapi.ResourceClaim) {
	t.Helper()
	list := fatal.Value(l.client.ResourceV1().ResourceClaims(p.Namespace).List(t.Context(), metav1.ListOptions{}))(t)
	var names []string
	for _, c := range p.Spec.ResourceClaims {
		if c.ResourceClaimName != nil {
			names = append(names, *c.ResourceClaimName)
		}
		for _, s := range p.Status.ResourceClaimStatuses {
			if s.Name == c.Name && s.ResourceClaimName != nil {
				names = append(names, *s.ResourceClaimName)
			}
		}
	}
	if s := p.Status.ExtendedResourceClaimStatus; s != nil {
		names = append(names, s.ResourceClaimName)
	}
	for _, name := range names {
		if i := slices.IndexFunc(list.Items, func(c resourceapi.ResourceClaim) bool { return c.Name == name }); i >= 0 {
			out = append(out, list.Items[i])
		}
	}
	return out
}

// noDevices is the outcome of a pod with a node whose claim is read before its allocation, or while its controller drops an older one.
const noDevices = "it has a node, but no devices"

// outcome says what became of a pod, in the form of claimStep.Want.
func (l *lab) outcome(t *testing.T, ns, pod string) string {
	t.Helper()
	p := fatal.Value(l.client.CoreV1().Pods(ns).Get(t.Context(), pod, metav1.GetOptions{}))(t)
	if p.Spec.NodeName == "" {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && (c.Reason == corev1.PodReasonUnschedulable || c.Reason == corev1.PodReasonSchedulerError) {
				return "pending: " + c.Message
			}
		}
		return "waiting"
	}
	out := []string{p.Spec.NodeName}
	for _, c := range l.claimsOf(t, p) {
		if c.Status.Allocation == nil {
			return noDevices
		}
		var results []string
		for _, r := range c.Status.Allocation.Devices.Results {
			results = append(results, r.Request+"="+r.Device)
		}
		slices.Sort(results)
		out = append(out, results...)
	}
	return strings.Join(out, " ")
}

// untilOutcome waits until a pod has the outcome. A pod that has another node or other devices fails the test at once.
func (l *lab) untilOutcome(t *testing.T, ns, pod, want string) {
	t.Helper()
	fatal.Until(t, fmt.Sprintf("%s to be %q", pod, want), func() error {
		got := l.outcome(t, ns, pod)
		reason, refused := strings.CutPrefix(want, "pending: ")
		switch {
		case refused && strings.HasPrefix(got, "pending: ") && strings.Contains(got, reason):
			return nil
		case !strings.HasPrefix(got, "pending") && got != "waiting" && got != noDevices || want == got:
			if same, err := path.Match(want, got); err != nil || !same {
				t.Fatalf("%s is %q, want %q", pod, got, want)
			}
			return nil
		}
		return fmt.Errorf("it is %q", got)
	})
}
