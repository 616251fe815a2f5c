package serve

import (
	"fmt"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	schedulerconfig "k8s.io/kube-scheduler/config/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	configlatest "k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"sigs.k8s.io/yaml"
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

// decisiveWeight returns the weight from which on one step of the extender's score outweighs the default profile's
// score plugins, each of which gives 0 to 100 times its weight, and weightHeadroom more.
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
	rule("resource.k8s.io", "deviceclasses", "resourceclaims", "resourceslices"),
	rule("storage.k8s.io", "csidrivers", "csinodes", "csistoragecapacities", "storageclasses", "volumeattachments"),
}

func rule(group string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: []string{"get", "list", "watch"}}
}

// roleName is the name of the role, its binding and its service account.
const roleName = "gnnsched-serve"

// RBAC renders the ServiceAccount, the ClusterRole and the ClusterRoleBinding with the rights that the server needs:
// it only reads.
func RBAC(namespace string) ([]byte, error) {
	group := rbacv1.SchemeGroupVersion.String()
	named := map[string]any{"name": roleName}
	var out []byte
	for _, object := range []map[string]any{
		{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": map[string]any{"name": roleName, "namespace": namespace}},
		{"apiVersion": group, "kind": "ClusterRole", "metadata": named, "rules": reads},
		{
			"apiVersion": group, "kind": "ClusterRoleBinding", "metadata": named,
			"roleRef":  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: roleName},
			"subjects": []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: roleName, Namespace: namespace}},
		},
	} {
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
