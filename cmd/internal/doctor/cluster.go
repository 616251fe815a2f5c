package doctor

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/kubernetes"

	"gnnsched/internal/exit"
	"gnnsched/internal/kubeconfig"
	"gnnsched/internal/kuberelease"
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

// server checks the API server's version.
func (x *examination) server(c kubernetes.Interface) {
	f := finding{what: "cluster", code: exit.Unreachable}
	info, err := c.Discovery().ServerVersion()
	if err != nil {
		x.add(x.failure(f.what, kubeconfig.Explain(err)))
		return
	}
	f.detail = "Kubernetes " + info.GitVersion
	fit, problem := kuberelease.Check(info.GitVersion)
	switch fit {
	case kuberelease.TooNew:
		f.state, f.hint = x.lacking("rungnn"), problem
	case kuberelease.TooOld, kuberelease.Unknown:
		f.state, f.hint = missing, problem
	}
	x.add(f)
}

// nodes reports whether the nodes are simulated: then commands that change the cluster do not ask first.
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

// usage checks that the cluster measures usage. Requests decide without it.
func (x *examination) usage(c kubernetes.Interface) {
	f := finding{what: "usage metrics.k8s.io", detail: "the cluster serves it", code: exit.Unreachable}
	if _, err := c.Discovery().ServerResourcesForGroupVersion("metrics.k8s.io/v1beta1"); err != nil {
		f.detail, f.state = err.Error(), x.lacking("usage")
		f.hint = "install metrics-server, or name a Prometheus: rungnn --usage prometheus --usage-address URL; requests decide without usage"
	}
	x.add(f)
}
