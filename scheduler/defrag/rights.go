package defrag

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"gnnsched/workload/record/live"
)

// RBAC returns the ClusterRole that a look at a cluster needs, as YAML, or, with apply, the moves.
func RBAC(apply bool) ([]byte, error) {
	rules := live.Rules(false)
	rules = append(rules, rbacv1.PolicyRule{
		APIGroups: []string{"resource.k8s.io"}, Resources: []string{"resourceclaims", "resourceslices", "deviceclasses", "devicetaintrules"},
		Verbs: []string{"list"},
	})
	rule := func(group, resource string, verbs ...string) {
		rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs})
	}
	if apply {
		rule("", "pods", "get")
		rule("", "pods/eviction", "create")
		rule("", "pods/status", "patch")
		rule("", "nodes", "get", "patch")
		rule("", "events", "create")
		rule("coordination.k8s.io", "leases", "create")
		rule("coordination.k8s.io", "leases", "get", "update")
		rules[len(rules)-1].ResourceNames = []string{leaseName}
	}
	return yaml.Marshal(rbacv1.ClusterRole{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: "gnnsched-defrag"}, Rules: rules,
	})
}
