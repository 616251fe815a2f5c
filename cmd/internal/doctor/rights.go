package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"gnnsched/internal/exit"
)

// right is a verb on a resource, or on a path that is not a resource.
type right struct{ verb, group, resource, namespace, name, path string }

func (r right) String() string {
	s := r.verb + " " + r.resource + r.path
	if r.group != "" {
		s += "." + r.group
	}
	if r.name != "" {
		s += "/" + r.name
	}
	return s
}

// askAtOnce is the number of concurrent questions about rights.
const askAtOnce = 16

// allRights checks the rights that a command and its parts need.
func (x *examination) allRights(ctx context.Context, c kubernetes.Interface, command string) {
	n, err := needsOf(command)
	if err != nil {
		x.add(finding{what: command + " rights", state: failed, detail: err.Error(), code: exit.Internal})
		return
	}
	f := x.rights(ctx, c, n.always)
	f.what, f.hint = command+" rights", cmp.Or(f.hint, n.hint, "give them to the user of the kubeconfig")
	if f.state != "" {
		f.state = x.lacking(command)
	}
	x.add(f)
	if len(n.parts) == 0 {
		return
	}
	f = x.rights(ctx, c, n.parts)
	f.what, f.hint = command+" options", cmp.Or(f.hint, n.without)
	if f.state != "" && !slices.Contains(x.only, command) {
		f.state = missing // it works without
	}
	x.add(f)
}

// rights asks whether the user of the kubeconfig has some rights. The finding is failed if one is missing.
func (x *examination) rights(ctx context.Context, c kubernetes.Interface, need []right) finding {
	answers, errs := make([]bool, len(need)), make([]error, len(need))
	var all errgroup.Group
	all.SetLimit(askAtOnce)
	for i, r := range need {
		all.Go(func() error {
			answers[i], errs[i] = allowed(ctx, c, r)
			return nil
		})
	}
	_ = all.Wait() // errs has the errors
	var lack []string
	for i, r := range need {
		if !answers[i] {
			lack = append(lack, r.String())
		}
	}
	f := finding{code: exit.Unreachable, detail: fmt.Sprintf("all %d", len(need))}
	switch err := errors.Join(errs...); {
	case err != nil:
		f.detail, f.state, f.hint = err.Error(),
			failed, "every user may ask for their own rights (SelfSubjectAccessReview); does the cluster answer?"
	case len(lack) > 0:
		f.detail, f.state = fmt.Sprintf("%d of %d are missing: %s", len(lack), len(need), strings.Join(lack, ", ")), failed
	}
	return f
}

// allowed asks the API server whether the user has a right.
func allowed(ctx context.Context, c kubernetes.Interface, r right) (bool, error) {
	var spec authorizationv1.SelfSubjectAccessReviewSpec
	if r.path != "" {
		spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Verb: r.verb, Path: r.path}
	} else {
		resource, sub, _ := strings.Cut(r.resource, "/")
		spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
			Verb: r.verb, Group: r.group, Resource: resource, Subresource: sub, Namespace: r.namespace, Name: r.name,
		}
	}
	answer, err := c.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{Spec: spec},
		metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return answer.Status.Allowed, nil
}
