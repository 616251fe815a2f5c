package driver

import (
	"maps"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"gnnsched/internal/cluster/kube"
	"gnnsched/workload"
	"gnnsched/workload/usage"
)

// labels returns the labels of every object of the run.
func (c *Config) labels() map[string]string {
	return map[string]string{workload.LabelManagedBy: workload.ManagedBy, workload.LabelRun: c.RunID}
}

// deployment returns the Kubernetes object of a Deployment. fill counts from 1.
func (c *Config) deployment(d workload.Deployment, fill int) *appsv1.Deployment {
	all := c.labels()
	all[workload.LabelName] = d.Name
	all[workload.LabelFill] = strconv.Itoa(fill)
	if d.Shape.Name != "" {
		all[workload.LabelShape] = d.Shape.Name
	}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: d.Name, Namespace: c.Namespace, Labels: all},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(int32(d.Replicas)),
			// The name alone could also match foreign pods.
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{workload.LabelName: d.Name, workload.LabelRun: c.RunID}},
			Template: c.template(d, all),
		},
	}
}

// pods returns the pods of a Deployment that is not created itself. A single pod has the Deployment's name; several have a number after it.
func (c *Config) pods(d workload.Deployment, fill int) []*corev1.Pod {
	out := make([]*corev1.Pod, d.Replicas)
	template := c.template(d, c.deployment(d, fill).Labels)
	for i := range out {
		out[i] = &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
		out[i].Name, out[i].Namespace = podName(d, i), c.Namespace
		c.GPUs.Of(d).refer(out[i], d.Shape)
	}
	return out
}

func podName(d workload.Deployment, i int) string {
	if d.Replicas == 1 {
		return d.Name
	}
	return d.Name + "-" + strconv.Itoa(i)
}

// template returns the template of a Deployment's pods. run has the labels that every pod gets.
func (c *Config) template(d workload.Deployment, run map[string]string) corev1.PodTemplateSpec {
	s := d.Shape
	labels := maps.Clone(run)
	maps.Copy(labels, s.Labels)
	limits := s.Limits
	limits.GPU, limits.GPUMilli = s.Requests.GPU, s.Requests.GPUMilli // Kubernetes requires equal ones
	t := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: annotations(s)},
		Spec: corev1.PodSpec{
			SchedulerName:                c.SchedulerName,
			NodeSelector:                 s.NodeSelector,
			Tolerations:                  kube.Tolerations(workload.Tolerations([]workload.Shape{s})),
			AutomountServiceAccountToken: ptr.To(false), // the pods never call the API server
			EnableServiceLinks:           ptr.To(false),
			Containers: []corev1.Container{{
				Name: "app", Image: c.Image,
				Resources: corev1.ResourceRequirements{Requests: kube.NonzeroResourceList(s.Requests), Limits: kube.NonzeroResourceList(limits)},
			}},
		},
	}
	c.GPUs.Of(d).request(&t, s)
	return t
}

// annotations returns the annotations of a shape's pods: their GPUs, and their usage for simulated nodes.
func annotations(s workload.Shape) map[string]string {
	out := kube.GPUAnnotations(s.Requests, s.GPUModels)
	if s.Usage == nil {
		return out
	}
	if out == nil {
		out = map[string]string{}
	}
	out[usage.Annotation], _ = usage.FormatAnnotation(s.Usage) // Config.Validate has checked that it can be
	return out
}
