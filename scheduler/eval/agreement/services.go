package agreement

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"gnnsched/scheduler/policy/preference"
	"gnnsched/scheduler/sim"
	"gnnsched/workload"
)

// createServices creates a Service for the pods of each owner in the plan of an episode. Upstream's
// default topology spread needs it: the pods are created one by one, without the ReplicaSet that would
// own them elsewhere. A scenario in which replicas are not spread gets no Services, because
// kube-scheduler's default profile has no other way to leave them alone.
func (c Config) createServices(ctx context.Context, client kubernetes.Interface, plan []sim.Arrival) error {
	if c.Scenario.PreferenceMode() != preference.First {
		return nil
	}
	known := map[string]bool{"": true}
	for _, a := range plan {
		owner := a.Pod.Owner
		if known[owner] {
			continue
		}
		known[owner] = true
		s := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: owner, Namespace: namespace},
			Spec:       corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{workload.LabelName: owner}},
		}
		if _, err := client.CoreV1().Services(namespace).Create(ctx, s, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create service %s: %w", owner, err)
		}
	}
	return nil
}
