package kube

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Workload returns the owner of a pod, as Kind/name: its controller, for a ReplicaSet the Deployment above it, and for a Job of a CronJob
// the CronJob. A pod without a controller may name its owner in an annotation, as a replay's pods do; else the result is empty.
func Workload(p *v1.Pod) string {
	o := metav1.GetControllerOfNoCopy(p)
	if o == nil {
		return named(p.Annotations[WorkloadAnnotation])
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

// WorkloadAnnotation names the recorded owner of a replay's pod, such as Deployment/web.
const WorkloadAnnotation = "gnnsched.io/workload"

// named returns an annotation if it has the form Kind/name, else "". Any owner of a pod may write it.
func named(text string) string {
	kind, name, ok := strings.Cut(text, "/")
	if !ok || kind == "" || len(kind) > 63 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return ""
	}
	for _, r := range kind {
		if r < 'A' || r > 'z' || r > 'Z' && r < 'a' {
			return ""
		}
	}
	return text
}
