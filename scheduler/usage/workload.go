package usage

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// workloadOf returns the key of a pod's workload, which its later pods share: its Deployment, StatefulSet, CronJob or other controller. It
// is false for a pod without one.
func workloadOf(pod *v1.Pod) (key string, belongs bool) {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return "", false
	}
	name := owner.Name
	switch owner.Kind {
	case "ReplicaSet":
		// All revisions of a Deployment are one workload.
		name = strings.TrimSuffix(name, "-"+pod.Labels["pod-template-hash"])
	case "Job":
		name = withoutTime(name)
	}
	return pod.Namespace + "/" + owner.Kind + "/" + name, true
}

// withoutTime removes the scheduled time, in minutes, that a CronJob appends to the names of its jobs.
func withoutTime(name string) string {
	i := strings.LastIndexByte(name, '-')
	if i < 0 || len(name)-i-1 < 8 || strings.Trim(name[i+1:], "0123456789") != "" {
		return name
	}
	return name[:i]
}
