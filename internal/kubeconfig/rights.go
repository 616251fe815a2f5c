package kubeconfig

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"gnnsched/internal/exit"
)

// Require returns an error of exit code 4 if the user may not do something that the rules allow in all namespaces.
func Require(ctx context.Context, c kubernetes.Interface, hint string, rules ...rbacv1.PolicyRule) error {
	missing, _, err := Lacking(ctx, c, "", rules...)
	if err != nil || len(missing) == 0 {
		return Explain(err)
	}
	return exit.New(exit.Kubeconfig, fmt.Errorf("the cluster does not let this user %s", strings.Join(missing, ", ")), hint)
}

// Lacking asks the API server which rights of the rules its user lacks in a namespace (all if it is empty), such as
// "list replicasets.apps". asked is the number of rights in the rules.
func Lacking(
	ctx context.Context, c kubernetes.Interface, namespace string, rules ...rbacv1.PolicyRule,
) (missing []string, asked int, err error) {
	all := rightsIn(namespace, rules)
	denied := make([]bool, len(all))
	questions, ctx := errgroup.WithContext(ctx)
	questions.SetLimit(16)
	for i, r := range all {
		questions.Go(func() error {
			review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &r}}
			answer, err := c.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
			if err == nil {
				denied[i] = !answer.Status.Allowed
			}
			return err
		})
	}
	if err := questions.Wait(); err != nil {
		return nil, len(all), fmt.Errorf("ask for this user's rights: %w", err)
	}
	for i, r := range all {
		if denied[i] {
			missing = append(missing, describe(r))
		}
	}
	return missing, len(all), nil
}

// rightsIn returns one right for each verb, resource and object that the rules name.
func rightsIn(namespace string, rules []rbacv1.PolicyRule) (out []authorizationv1.ResourceAttributes) {
	for _, r := range rules {
		names := r.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range r.APIGroups {
			for _, path := range r.Resources {
				resource, sub, _ := strings.Cut(path, "/")
				for _, verb := range r.Verbs {
					for _, name := range names {
						out = append(out, authorizationv1.ResourceAttributes{
							Verb: verb, Group: group, Resource: resource, Subresource: sub, Namespace: namespace, Name: name,
						})
					}
				}
			}
		}
	}
	return out
}

func describe(r authorizationv1.ResourceAttributes) string {
	s := r.Verb + " " + r.Resource
	for _, part := range []struct{ before, text string }{{"/", r.Subresource}, {".", r.Group}, {"/", r.Name}} {
		if part.text != "" {
			s += part.before + part.text
		}
	}
	return s
}
