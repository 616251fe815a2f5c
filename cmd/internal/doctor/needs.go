package doctor

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gnnsched/deploy"
	"gnnsched/scheduler/decision/record"
	"gnnsched/scheduler/plugin/userconfig"
	"gnnsched/scheduler/serve"
	"gnnsched/scheduler/server"
	"gnnsched/workload/record/live"
)

// needs are the rights that a command needs.
type needs struct {
	always  []right
	parts   []right // needed for parts of it only
	hint    string  // what to do if one of always is missing
	without string  // what the command loses without the rights of parts
}

// needsOf returns the rights that a command needs; none if it is not in needsOfOthers and has no role of its own.
func needsOf(command string) (needs, error) {
	switch command {
	case "rungnn":
		all, err := schedulerRights()
		return needs{always: all, hint: "bind the roles of `gnnsched deploy --print`, or use another user with --context"}, err
	case "record":
		return needs{
			always: rightsIn("", live.Rules(true)...),
			hint:   "bind the role of `gnnsched record --print-rbac`; without metrics.k8s.io, add --usage 0",
		}, nil
	case "shadow":
		return needs{
			always: rightsIn("", slices.Concat(serve.Rules(), serve.DelegatedRules())...), hint: "bind the role of `gnnsched shadow --print-rbac`",
		}, nil
	}
	return needsOfOthers[command], nil
}

// on returns the rights of some verbs on one resource.
func on(group, resource string, verbs ...string) (out []right) {
	for _, v := range verbs {
		out = append(out, right{verb: v, group: group, resource: resource})
	}
	return out
}

// lease returns the rights to hold a lease of schedulers that is there.
func lease(name string) []right {
	const group, resource = "coordination.k8s.io", "leases"
	return []right{
		{verb: "get", group: group, resource: resource, namespace: metav1.NamespaceSystem, name: name},
		{verb: "update", group: group, resource: resource, namespace: metav1.NamespaceSystem, name: name},
	}
}

const (
	apps    = "apps"
	devices = "resource.k8s.io"
	classes = "scheduling.k8s.io"
)

// needsOfOthers are the needs of commands that have no role of their own.
var needsOfOthers = map[string]needs{
	"ktop": {
		always: slices.Concat(on("", "nodes", "list", "watch"), on("", "pods", "list", "watch")),
		parts: slices.Concat(on("", "events", "list"), on(devices, "resourceslices", "list", "watch"),
			on(devices, "resourceclaims", "list", "watch")),
		without: "ktop shows no events, or no devices of dynamic resource allocation",
	},
	"runsim": {
		always: slices.Concat(on("", "nodes", "list"), on("", "pods", "list", "watch"), on("", "namespaces", "get", "create"),
			on(apps, "deployments", "list", "create", "delete")),
		parts: slices.Concat(on("", "pods", "create", "get", "delete"), on(classes, "priorityclasses", "list", "create"),
			on(devices, "deviceclasses", "get"), on(devices, "resourceslices", "list"), on(devices, "resourceclaims", "create", "delete")),
		without: "they are for the pods of --trace and of a record that --replay plays, its priority classes, and --claims",
	},
	"cleancluster": {
		always: slices.Concat(on("", "nodes", "list"), on(apps, "deployments", "list", "deletecollection"),
			on(apps, "replicasets", "list", "deletecollection"), on("", "pods", "list", "deletecollection")),
		parts: slices.Concat(on("", "namespaces", "list", "get", "delete"), on(devices, "resourceclaims", "list", "deletecollection"),
			on(classes, "priorityclasses", "list", "deletecollection")),
		without: "namespaces, resource claims and priority classes of runs stay",
	},
	"share": {
		always: slices.Concat(lease("kube-scheduler"), lease(userconfig.MarkOf(server.DefaultProfile))),
		hint: "use the roles of `gnnsched deploy --print --mode replacement`, which have these; docs/how-to/canary.md says " +
			"which lease does what",
	},
	"explain": {
		always: []right{{verb: "get", path: record.Path}},
		hint:   "docs/how-to/explain.md makes an account with this right; name its token with --token-file",
	},
	"usage": {always: slices.Concat(on("metrics.k8s.io", "nodes", "list"), on("metrics.k8s.io", "pods", "list"))},
}

// schedulerRights returns the rights in the roles that `gnnsched deploy` prints.
func schedulerRights() (out []right, err error) {
	rules, err := deploy.Rules(deploy.Options{Name: "gnnsched", Namespace: "gnnsched"})
	for _, r := range rules {
		out = append(out, rightsIn(r.Namespace, r.PolicyRule)...)
	}
	return out, err
}

// rightsIn returns the rights of rules in a namespace, or everywhere.
func rightsIn(namespace string, rules ...rbacv1.PolicyRule) (out []right) {
	for _, r := range rules {
		names := r.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range r.APIGroups {
			for _, resource := range r.Resources {
				for _, verb := range r.Verbs {
					for _, name := range names {
						out = append(out, right{verb: verb, group: group, resource: resource, namespace: namespace, name: name})
					}
				}
			}
		}
	}
	return out
}
