package kubeconfig

import (
	"errors"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"gnnsched/internal/exit"
)

func TestRequire(t *testing.T) {
	rules := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods", "pods/binding"}, Verbs: []string{"create"}},
		{APIGroups: []string{"apps"}, Resources: []string{"replicasets"}, Verbs: []string{"list", "watch"}},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"update"}, ResourceNames: []string{"a"}},
	}
	all := []string{"create pods", "create pods/binding", "list replicasets.apps", "watch replicasets.apps",
		"update leases.coordination.k8s.io/a"}
	for _, denied := range [][]string{nil, {"watch replicasets.apps"}, all} {
		c := fake.NewClientset()
		c.PrependReactor("create", "selfsubjectaccessreviews", func(a ktesting.Action) (bool, runtime.Object, error) {
			review := a.(ktesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview)
			review.Status.Allowed = !slices.Contains(denied, describe(*review.Spec.ResourceAttributes))
			return true, review, nil
		})
		missing, asked, err := Lacking(t.Context(), c, "", rules...)
		if err != nil || asked != len(all) || !slices.Equal(missing, denied) {
			t.Errorf("%q of %d are missing, %v; want %q", missing, asked, err, denied)
		}
		err = Require(t.Context(), c, "see X", rules...)
		if (err != nil) != (denied != nil) || err != nil && (exit.Code(err) != exit.Kubeconfig || !strings.HasSuffix(err.Error(), denied[len(denied)-1])) {
			t.Errorf("without %q: %v", denied, err)
		}
	}
	silent := fake.NewClientset()
	silent.PrependReactor("create", "*", func(ktesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("gone") })
	if err := Require(t.Context(), silent, "see X", rules...); err == nil || !strings.Contains(err.Error(), "gone") {
		t.Errorf("an API server that does not answer: %v", err)
	}
}
