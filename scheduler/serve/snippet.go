package serve

import (
	_ "embed"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	schedulerconfig "k8s.io/kube-scheduler/config/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	configlatest "k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"sigs.k8s.io/yaml"

	"gnnsched/internal/exit"
	"gnnsched/internal/metric"
)

// Extender describes the extender for a kube-scheduler's configuration.
type Extender struct {
	URL                       string // of the server, such as https://127.0.0.1:10270
	CAFile, CertFile, KeyFile string // as the kube-scheduler's machine has them
	Timeout                   time.Duration
}

// weightHeadroom makes the extender's weight larger than needed, for a profile with a few more score plugins.
const weightHeadroom = 8

// YAML renders the KubeSchedulerConfiguration. Its weight lets the extender decide: one step of an extender's score
// weighs more than all score plugins of the default profile together.
func (e Extender) YAML() ([]byte, error) {
	weight, err := decisiveWeight()
	if err != nil {
		return nil, err
	}
	return yaml.Marshal(map[string]any{
		"apiVersion": schedulerconfig.SchemeGroupVersion.String(), "kind": "KubeSchedulerConfiguration",
		"extenders": []schedulerconfig.Extender{{
			URLPrefix: e.URL + prefix, FilterVerb: filterVerb, PrioritizeVerb: prioritizeVerb, Weight: weight,
			EnableHTTPS: true, NodeCacheCapable: true, Ignorable: true, HTTPTimeout: metav1.Duration{Duration: e.Timeout},
			TLSConfig: &schedulerconfig.ExtenderTLSConfig{CAFile: e.CAFile, CertFile: e.CertFile, KeyFile: e.KeyFile},
		}},
	})
}

// decisiveWeight returns the weight at which one step of the extender's score outweighs the default profile's score plugins, each of which
// gives 0 to 100 times its weight, with weightHeadroom to spare.
func decisiveWeight() (int64, error) {
	cfg, err := configlatest.Default()
	if err != nil {
		return 0, fmt.Errorf("default scheduler configuration: %w", err)
	}
	var others int64
	for _, p := range cfg.Profiles[0].Plugins.MultiPoint.Enabled {
		others += int64(p.Weight)
	}
	step := fwk.MaxNodeScore / extenderv1.MaxExtenderPriority
	return (others+weightHeadroom)*fwk.MaxNodeScore/step + 1, nil
}

// reads are the resources that an Advisor watches, by API group.
var reads = []rbacv1.PolicyRule{
	rule("", "namespaces", "nodes", "persistentvolumeclaims", "persistentvolumes", "pods", "replicationcontrollers", "services"),
	rule("apps", "replicasets", "statefulsets"),
	rule("policy", "poddisruptionbudgets"),
	rule("resource.k8s.io", "deviceclasses", "devicetaintrules", "resourceclaims", "resourceslices"),
	rule("storage.k8s.io", "csidrivers", "csinodes", "csistoragecapacities", "storageclasses", "volumeattachments"),
}

func rule(group string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: []string{"get", "list", "watch"}}
}

// Rules returns the rights to read the objects that an Advisor watches.
func Rules() []rbacv1.PolicyRule { return slices.Clone(reads) }

// DelegatedRules returns the rights of system:auth-delegator, which Role.Delegates adds.
func DelegatedRules() []rbacv1.PolicyRule {
	create := func(group, resource string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{"create"}}
	}
	return []rbacv1.PolicyRule{create("authentication.k8s.io", "tokenreviews"), create("authorization.k8s.io", "subjectaccessreviews")}
}

// RoleName is the usual name of the server's role, its binding and its service account.
const RoleName = "gnnsched-serve"

// Role describes the rights of a program that only reads a cluster as an Advisor does.
type Role struct {
	Name      string // of the ServiceAccount, the ClusterRole and the bindings
	Namespace string // of the ServiceAccount
	// Delegates adds the right to let the API server check the callers of an endpoint with metrics. It allows
	// no change of the cluster.
	Delegates bool
}

// RBAC renders the ServiceAccount, the ClusterRole and the ClusterRoleBindings.
func (r Role) RBAC() ([]byte, error) {
	if p := validation.IsDNS1123Label(r.Namespace); len(p) > 0 {
		return nil, exit.Usagef("--namespace %q: %s", r.Namespace, p[0])
	}
	group := rbacv1.SchemeGroupVersion.String()
	objects := []map[string]any{
		{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": map[string]any{"name": r.Name, "namespace": r.Namespace}},
		{"apiVersion": group, "kind": "ClusterRole", "metadata": map[string]any{"name": r.Name}, "rules": reads},
		r.binding(r.Name, r.Name),
	}
	if r.Delegates {
		objects = append(objects, r.binding(r.Name+"-auth", "system:auth-delegator"))
	}
	var out []byte
	for _, object := range objects {
		text, err := yaml.Marshal(object)
		if err != nil {
			return nil, fmt.Errorf("encode the role: %w", err)
		}
		if len(out) > 0 {
			out = append(out, "---\n"...)
		}
		out = append(out, text...)
	}
	return out, nil
}

// binding gives the ServiceAccount a ClusterRole.
func (r Role) binding(name, role string) map[string]any {
	return map[string]any{
		"apiVersion": rbacv1.SchemeGroupVersion.String(), "kind": "ClusterRoleBinding", "metadata": map[string]any{"name": name},
		"roleRef":  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		"subjects": []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: r.Name, Namespace: r.Namespace}},
	}
}

var set metric.Set

var (
	requests = set.Counters("serve_requests_total",
		"Requests by path and result: ok, or the reason of the error. Requests that are refused for their credentials have the path door.",
		"path", "result")
	duration = set.Histograms("serve_request_duration_seconds", // 0.1 ms to 0.8 s
		"Time of an answer from its first byte read to its last byte written.", metric.Exponential(100e-6, 2, 14), "path")
	inFlight    = set.Gauge("serve_requests_inflight", "Answers that are being worked out, those that nobody waits for any more included.")
	refusedPods = set.Counter("serve_refused_gpu_pods_total",
		"Times that a pod was refused on every node because nobody would assign its GPU devices.")
)

//go:embed openapi.yaml
var openapi []byte

// document returns the OpenAPI document as JSON.
var document = sync.OnceValues(func() ([]byte, error) { return yaml.YAMLToJSON(openapi) })

// serveDocument answers with the OpenAPI document.
func serveDocument(w http.ResponseWriter, _ *http.Request) {
	text, err := document()
	if err != nil {
		refuse(w, "openapi", err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text)
}
