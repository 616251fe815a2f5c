package driver

import (
	"maps"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"gnnsched/scheduler/cluster"
	"gnnsched/workload"
)

// labels are what everything of a run carries.
func (c *Config) labels() map[string]string {
	return map[string]string{workload.LabelManagedBy: workload.ManagedBy, workload.LabelRun: c.RunID}
}

// deployment is the Deployment as Kubernetes is told it. fill counts from 1.
func (c *Config) deployment(d workload.Deployment, fill int) *appsv1.Deployment {
	all := c.labels()
	all[workload.LabelName] = d.Name
	all[workload.LabelFill] = strconv.Itoa(fill)
	if d.Shape.Name != "" {
		all[workload.LabelShape] = d.Shape.Name
	}
	onPods := maps.Clone(all)
	maps.Copy(onPods, d.Shape.Labels)
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: d.Name, Namespace: c.Namespace, Labels: all},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(int32(d.Replicas)),
			// The run is part of the selector: a name alone could also be somebody else's.
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{workload.LabelName: d.Name, workload.LabelRun: c.RunID}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: onPods},
				Spec: corev1.PodSpec{
					SchedulerName:                c.SchedulerName,
					NodeSelector:                 d.Shape.NodeSelector,
					Tolerations:                  tolerations(d.Shape),
					AutomountServiceAccountToken: ptr.To(false), // they talk to nobody
					EnableServiceLinks:           ptr.To(false),
					Containers: []corev1.Container{{
						Name: "app", Image: c.Image,
						Resources: corev1.ResourceRequirements{Requests: list(d.Shape.Requests), Limits: list(limits(d.Shape))},
					}},
				},
			},
		},
	}
}

// list writes amounts as Kubernetes does; what is 0 is left out.
func list(r cluster.Resources) corev1.ResourceList {
	l := corev1.ResourceList{}
	if r.MilliCPU != 0 {
		l[corev1.ResourceCPU] = *resource.NewMilliQuantity(r.MilliCPU, resource.DecimalSI)
	}
	if r.Memory != 0 {
		l[corev1.ResourceMemory] = *resource.NewQuantity(r.Memory, resource.BinarySI)
	}
	if r.GPU != 0 {
		l[gpuResource] = *resource.NewQuantity(r.GPU, resource.DecimalSI)
	}
	return l
}

// gpuResource is what device plugins call whole NVIDIA devices, and the scheduler counts.
const gpuResource = corev1.ResourceName("nvidia.com/gpu")

// limits are the shape's, and its GPUs, of which Kubernetes wants request and limit alike.
func limits(s workload.Shape) cluster.Resources {
	l := s.Limits
	l.GPU = s.Requests.GPU
	return l
}

func tolerations(s workload.Shape) []corev1.Toleration {
	var out []corev1.Toleration
	for _, t := range workload.Tolerations([]workload.Shape{s}) {
		op := corev1.TolerationOpEqual
		if t.Exists {
			op = corev1.TolerationOpExists
		}
		out = append(out, corev1.Toleration{Key: t.Key, Operator: op, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)})
	}
	return out
}
