//go:build !service

package main

import (
	"errors"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiversion "k8s.io/apimachinery/pkg/version"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"gnnsched/internal/exit"
	"gnnsched/internal/kuberelease"
)

// What a cluster refuses about the deployed pods is told with the value that helps.
func TestAdmitted(t *testing.T) {
	quota := func(p *corev1.Pod) bool { return p.Spec.PriorityClassName != "" }
	users := func(p *corev1.Pod) bool { return p.Spec.SecurityContext.RunAsUser != nil }
	openShift := []*metav1.APIResourceList{{GroupVersion: "security.openshift.io/v1"}}
	for name, c := range map[string]struct {
		refuses func(*corev1.Pod) bool
		groups  []*metav1.APIResourceList
		say     string
	}{
		"any pod":        {func(*corev1.Pod) bool { return false }, nil, "ok    deploy         the cluster admits"},
		"no class (GKE)": {quota, nil, "because\n                     -> add --set priorityClassName= to"},
		"no users":       {users, nil, "because\n                     -> add --set userID=0 to"},
		"OpenShift":      {func(*corev1.Pod) bool { return false }, openShift, "-> add --set userID=0 to"},
		"no pod":         {func(*corev1.Pod) bool { return true }, nil, "because\n                     -> ask"},
	} {
		client := fake.NewClientset()
		client.Resources = c.groups
		client.PrependReactor("create", "selfsubjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
			review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview)
			review.Status.Allowed = true
			return true, review, nil
		})
		client.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
			if len(a.(clienttesting.CreateActionImpl).CreateOptions.DryRun) == 0 {
				t.Error("a pod was made")
			}
			if p := a.(clienttesting.CreateAction).GetObject().(*corev1.Pod); c.refuses(p) {
				return true, nil, errors.New("forbidden because")
			}
			return true, &corev1.Pod{}, nil
		})
		var out strings.Builder
		e := examination{out: &out}
		if e.admitted(t.Context(), client); e.fault != nil || !strings.Contains(out.String(), c.say) {
			t.Errorf("%s: %v, want %q:\n%s", name, e.fault, c.say, out.String())
		}
	}
}

func TestCluster(t *testing.T) {
	fits := "v" + kuberelease.Scheduler + ".3"
	for name, c := range map[string]struct {
		version string
		denied  string // a resource
		asked   []string
		code    int
		say     []string
	}{
		"healthy": {fits, "", examinedNames(), exit.OK, []string{"ok    cluster        Kubernetes " + fits, "ok    rungnn rights  all ", "ok    ktop rights    all 4"}},
		"denied": {fits, "leases", []string{"rungnn", "share", "record"}, exit.Kubeconfig,
			[]string{"FAIL  rungnn rights", "get leases.coordination.k8s.io/gnnsched-gnn", "-> bind the roles of `gnnsched deploy --print`,",
				"FAIL  share rights", "update leases.coordination.k8s.io/gnnsched-default-scheduler", "ok    record rights  all 26"}},
		"old server": {"v1.2.3", "", []string{"ktop"}, exit.Unreachable, []string{"FAIL  cluster        Kubernetes v1.2.3"}},
		"hostile":    {"v1.36\x1b[2J\nFAIL everything", "", []string{"serve"}, exit.OK, []string{"v1.36[2J FAIL everything", "ok    serve rights"}},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset()
			client.Discovery().(*fakediscovery.FakeDiscovery).FakedServerVersion = &apiversion.Info{GitVersion: c.version}
			client.PrependReactor("create", "selfsubjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
				review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview)
				review.Status.Allowed = review.Spec.ResourceAttributes.Resource != c.denied
				return true, review, nil
			})
			var out strings.Builder
			e := examination{out: &out}
			e.cluster(t.Context(), client, c.asked)
			if code := exit.Code(e.verdict()); code != c.code || slices.ContainsFunc(c.say, func(s string) bool { return !strings.Contains(out.String(), s) }) {
				t.Errorf("code %d, want %d with %q:\n%s", code, c.code, c.say, out.String())
			}
			if strings.Contains(out.String(), "\x1b") || strings.Contains(out.String(), "\nFAIL everything") {
				t.Errorf("text of the server reaches the terminal: %q", out.String())
			}
		})
	}
}

// The manifests name an image that nobody publishes, and deploy says so until one is given.
func TestDeployImage(t *testing.T) {
	for image, says := range map[string]bool{placeholder: true, "registry.example/gnnsched:v1": false} {
		code, stdout, stderr := run(t, "gnnsched", "deploy", "--print", "--set", "image="+image)
		if code != 0 || !strings.Contains(stdout, "image: "+image) || strings.Contains(stderr, "nobody publishes") != says {
			t.Errorf("%s: code %d, %q", image, code, stderr)
		}
	}
}
