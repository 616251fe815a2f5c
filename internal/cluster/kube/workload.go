package kube

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Workload returns what a pod belongs to, as Kind/name: its controller, for a ReplicaSet the Deployment above it, and
// for a Job of a CronJob the CronJob. It is empty for a pod without a controller.
func Workload(p *v1.Pod) string {
	o := metav1.GetControllerOfNoCopy(p)
	if o == nil {
		return ""
	}
	switch hash := p.Labels["pod-template-hash"]; {
	case o.Kind == "ReplicaSet" && hash != "" && strings.HasSuffix(o.Name, "-"+hash):
		return "Deployment/" + strings.TrimSuffix(o.Name, "-"+hash)
	case o.Kind == "Job":
		if i := strings.LastIndexByte(o.Name, '-'); i > 0 && len(o.Name)-i-1 >= 8 && strings.Trim(o.Name[i+1:], "0123456789") == "" {
			return "CronJob/" + o.Name[:i] // its controller appends minutes since 1970
		}
	}
	return o.Kind + "/" + o.Name
}
