package live

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// target is something that a recorder lists and watches.
type target struct {
	group, name string
	needed      bool   // a record needs it
	loss        string // what the record lacks without the right
}

var (
	nodes      = target{name: "nodes", needed: true}
	pods       = target{name: "pods", needed: true}
	namespaces = target{name: "namespaces", loss: "labels of namespaces, by which affinity may choose"}
	classes    = target{group: "scheduling.k8s.io", name: "priorityclasses", loss: "priority classes; pods have their priority all the same"}
	budgets    = target{group: "policy", name: "poddisruptionbudgets", loss: "disruption budgets"}
	jobs       = target{group: "batch", name: "jobs", loss: "whether Jobs make their pods anew"}
	metrics    = target{group: "metrics.k8s.io", name: "nodes and pods", loss: "what nodes and pods use"}

	prometheus = target{name: "Prometheus"}
)

// RBAC returns the rights that a recorder needs, as YAML: a ClusterRole and nothing else. With usage it also may read
// metrics.k8s.io.
func RBAC(usage bool) ([]byte, error) {
	return yaml.Marshal(rbacv1.ClusterRole{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: "gnnsched-record"},
		Rules:      Rules(usage),
	})
}

// Rules returns the rules of the role.
func Rules(usage bool) []rbacv1.PolicyRule {
	var core []string
	for _, r := range []target{nodes, pods, namespaces} {
		core = append(core, r.name)
	}
	verbs := []string{"list", "watch"}
	rules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: core, Verbs: verbs}}
	for _, r := range []target{classes, budgets, jobs} {
		rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{r.group}, Resources: []string{r.name}, Verbs: verbs})
	}
	if usage {
		rules = append(rules, rbacv1.PolicyRule{
			APIGroups: []string{metrics.group}, Resources: []string{"nodes", "pods"}, Verbs: []string{"list"},
		})
	}
	return rules
}
