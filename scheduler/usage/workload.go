package usage

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gnnsched/internal/cluster/kube"
)

// workloadOf returns the key of a pod's workload, which its later pods share: its Deployment, StatefulSet, CronJob or other controller. It
// is false for a pod without one.
func workloadOf(pod *v1.Pod) (key string, belongs bool) {
	if metav1.GetControllerOfNoCopy(pod) == nil {
		return "", false
	}
	return pod.Namespace + "/" + kube.Workload(pod), true
}
