package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/kubernetes"

	"gnnsched/deploy"
	"gnnsched/internal/exit"
	"gnnsched/internal/kubeconfig"
	"gnnsched/workload/cleanup"
)

// connect checks kubeconfig and cluster, and returns a client; nil without a cluster.
func (x *examination) connect(ctx context.Context, t kubeconfig.Target) kubernetes.Interface {
	rest, err := t.REST()
	if err != nil {
		x.add(x.failure("kubeconfig", err))
		return nil
	}
	x.add(finding{what: "kubeconfig", detail: fmt.Sprintf("context %q, server %s", t.Name(), rest.Host)})
	client, _, err := t.Connect(ctx)
	if err != nil {
		x.add(x.failure("cluster", err))
		return nil
	}
	return client
}

// failure returns the finding of an error with its hint and exit code.
func (x *examination) failure(what string, err error) finding {
	f := finding{what: what, state: failed, detail: err.Error(), code: exit.Code(err)}
	if known := (*exit.Error)(nil); errors.As(err, &known) {
		f.hint = known.Hint
	}
	return f
}

// The versions of the API server for which the scheduler works at all, and those that upstream supports for a
// kube-scheduler of 1.36.
var (
	oldest    = version.MustParseGeneric("1.34")
	supported = version.MustParseGeneric("1.36")
	tooNew    = version.MustParseGeneric("1.38")
)

// server checks the API server's version.
func (x *examination) server(c kubernetes.Interface) {
	f := finding{what: "cluster", code: exit.Unreachable}
	info, err := c.Discovery().ServerVersion()
	if err != nil {
		f.detail, f.state, f.hint = err.Error(), failed, "is the cluster up?"
		x.add(f)
		return
	}
	f.detail = "Kubernetes " + info.GitVersion
	v, err := version.ParseGeneric(info.GitVersion)
	switch {
	case err != nil:
		f.state, f.hint = missing, "the version is not known; the scheduler is upstream's 1.36"
	case v.LessThan(oldest):
		f.state, f.hint = x.lacking("rungnn"), "the scheduler needs 1.34 or later"
	case v.LessThan(supported), !v.LessThan(tooNew):
		f.state, f.hint = missing, "the scheduler is upstream's 1.36, which upstream supports on 1.36 and 1.37"
	}
	x.add(f)
}

// nodes says whether the nodes are simulated: then commands that change the cluster do not ask first.
func (x *examination) nodes(ctx context.Context, count func(context.Context) (cleanup.NodeCounts, error)) {
	f := finding{what: "nodes", code: exit.Unreachable}
	n, err := count(ctx)
	switch {
	case err != nil:
		f.detail, f.state, f.hint = err.Error(), failed, "the user of the kubeconfig must be able to list nodes"
	case n.Simulated():
		f.detail = fmt.Sprintf("all %d are simulated", n.Total)
	default:
		f.detail = fmt.Sprintf("%d of %d are real: runsim and cleancluster ask before they change anything", n.Real, n.Total)
	}
	x.add(f)
}

// right is a verb on a resource.
type right struct{ verb, group, resource, namespace, name string }

func (r right) String() string {
	s := r.verb + " " + r.resource
	if r.group != "" {
		s += "." + r.group
	}
	if r.name != "" {
		s += "/" + r.name
	}
	return s
}

// rightsOf are the rights that commands need beside those of the scheduler.
var rightsOf = map[string][]right{
	"ktop": {
		{verb: "list", resource: "nodes"}, {verb: "watch", resource: "nodes"}, {verb: "list", resource: "pods"}, {verb: "watch", resource: "pods"},
	},
	"runsim": {
		{verb: "list", resource: "nodes"}, {verb: "list", resource: "pods"}, {verb: "watch", resource: "pods"}, {verb: "create", resource: "namespaces"},
		{verb: "create", resource: "deployments", group: "apps"}, {verb: "delete", resource: "deployments", group: "apps"},
	},
	"cleancluster": {
		{verb: "list", resource: "nodes"}, {verb: "list", resource: "deployments", group: "apps"}, {verb: "delete", resource: "deployments", group: "apps"},
	},
	"usage": {
		{verb: "list", resource: "nodes", group: "metrics.k8s.io"}, {verb: "list", resource: "pods", group: "metrics.k8s.io"},
	},
}

// schedulerRights returns the rights of the roles that `gnnsched deploy` prints.
func schedulerRights() (out []right, err error) {
	rules, err := deploy.Rules(deploy.Options{Name: "gnnsched", Namespace: "gnnsched"})
	if err != nil {
		return nil, err
	}
	for _, r := range rules {
		names := r.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range r.APIGroups {
			for _, resource := range r.Resources {
				for _, verb := range r.Verbs {
					for _, name := range names {
						out = append(out, right{verb, group, resource, r.Namespace, name})
					}
				}
			}
		}
	}
	return out, nil
}

// askAtOnce is how many questions about rights are open at one time.
const askAtOnce = 16

// rights checks that the user of the kubeconfig has what a command needs.
func (x *examination) rights(ctx context.Context, c kubernetes.Interface, command string, need []right) {
	answers, errs := make([]bool, len(need)), make([]error, len(need))
	var all sync.WaitGroup
	open := make(chan struct{}, askAtOnce)
	for i, r := range need {
		all.Go(func() {
			open <- struct{}{}
			defer func() { <-open }()
			answers[i], errs[i] = allowed(ctx, c, r)
		})
	}
	all.Wait()
	f := finding{what: command + " rights", code: exit.Unreachable, hint: "give them to the user of the kubeconfig"}
	if command == "rungnn" {
		f.hint = "bind the roles of `gnnsched deploy --print`, or use another user with --context"
	}
	var lack []string
	for i, r := range need {
		if !answers[i] {
			lack = append(lack, r.String())
		}
	}
	switch err := errors.Join(errs...); {
	case err != nil:
		f.detail, f.state, f.hint = err.Error(), x.lacking(command), "every user may ask for their own rights (SelfSubjectAccessReview); does the cluster answer?"
	case len(lack) > 0:
		f.detail, f.state = fmt.Sprintf("%d of %d are missing: %s", len(lack), len(need), strings.Join(lack, ", ")), x.lacking(command)
	default:
		f.detail = fmt.Sprintf("all %d", len(need))
	}
	x.add(f)
}

// allowed asks the API server whether the user has a right.
func allowed(ctx context.Context, c kubernetes.Interface, r right) (bool, error) {
	resource, sub, _ := strings.Cut(r.resource, "/")
	answer, err := c.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: r.verb, Group: r.group, Resource: resource, Subresource: sub, Namespace: r.namespace, Name: r.name,
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return answer.Status.Allowed, nil
}

// usage checks that the cluster measures usage. Requests decide without it.
func (x *examination) usage(c kubernetes.Interface) {
	f := finding{what: "usage metrics.k8s.io", detail: "the cluster serves it", code: exit.Unreachable}
	if _, err := c.Discovery().ServerResourcesForGroupVersion("metrics.k8s.io/v1beta1"); err != nil {
		f.detail, f.state = err.Error(), x.lacking("usage")
		f.hint = "install metrics-server, or name a Prometheus: rungnn --usage prometheus --usage-address URL; requests decide without usage"
	}
	x.add(f)
}
