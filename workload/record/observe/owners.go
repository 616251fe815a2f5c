package observe

import (
	"cmp"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"gnnsched/workload/record"
)

// owned returns the row of an owner of pods.
func owned(kind string, x metav1.Object, s record.Scale) record.Object {
	if o := metav1.GetControllerOfNoCopy(x); o != nil {
		s.Owner = record.Word(o.Kind) + "/" + record.Word(o.Name)
	}
	return record.Object{Kind: kind, Namespace: x.GetNamespace(), Name: x.GetName(), Scale: record.JSON(s)}
}

// asked returns the replicas of a spec; without them, API servers take one.
func asked(replicas *int32) *int32 { return new(ptr.Deref(replicas, 1)) }

// written returns a number or a percentage as text; empty for none.
func written(x *intstr.IntOrString) string {
	if x == nil {
		return ""
	}
	return record.Word(x.String())
}

// Deployment translates a Deployment.
func Deployment(d *appsv1.Deployment) record.Object {
	s := record.Scale{Replicas: asked(d.Spec.Replicas), Strategy: record.Word(string(d.Spec.Strategy.Type))}
	if r := d.Spec.Strategy.RollingUpdate; r != nil {
		s.MaxSurge, s.MaxUnavailable = written(r.MaxSurge), written(r.MaxUnavailable)
	}
	return owned(record.KindDeployment, d, s)
}

// ReplicaSet translates a ReplicaSet.
func ReplicaSet(r *appsv1.ReplicaSet) record.Object {
	return owned(record.KindReplicaSet, r, record.Scale{Replicas: asked(r.Spec.Replicas)})
}

// StatefulSet translates a StatefulSet.
func StatefulSet(t *appsv1.StatefulSet) record.Object {
	s := record.Scale{Replicas: asked(t.Spec.Replicas), Strategy: record.Word(string(t.Spec.UpdateStrategy.Type))}
	if r := t.Spec.UpdateStrategy.RollingUpdate; r != nil {
		s.MaxUnavailable = written(r.MaxUnavailable)
	}
	return owned(record.KindStatefulSet, t, s)
}

// DaemonSet translates a DaemonSet. How many pods it has follows from the nodes.
func DaemonSet(d *appsv1.DaemonSet) record.Object {
	s := record.Scale{Strategy: record.Word(string(d.Spec.UpdateStrategy.Type))}
	if r := d.Spec.UpdateStrategy.RollingUpdate; r != nil {
		s.MaxSurge, s.MaxUnavailable = written(r.MaxSurge), written(r.MaxUnavailable)
	}
	return owned(record.KindDaemonSet, d, s)
}

// Job translates a Job.
func Job(j *batchv1.Job) record.Object {
	out := owned(record.KindJob, j, jobScale(&j.Spec))
	out.Spec = record.JSON(triesLeft(j))
	return out
}

func jobScale(j *batchv1.JobSpec) record.Scale {
	return record.Scale{
		Parallelism: j.Parallelism, Completions: j.Completions, BackoffLimit: j.BackoffLimit, Suspend: ptr.Deref(j.Suspend, false),
	}
}

// CronJob translates a CronJob. The numbers are those of its Jobs.
func CronJob(c *batchv1.CronJob) record.Object {
	s := jobScale(&c.Spec.JobTemplate.Spec)
	s.Suspend = ptr.Deref(c.Spec.Suspend, false)
	s.Schedule, s.TimeZone = record.Word(c.Spec.Schedule), record.Word(ptr.Deref(c.Spec.TimeZone, ""))
	return owned(record.KindCronJob, c, s)
}

// Autoscaler translates a HorizontalPodAutoscaler. The replicas are those that it sets now; what it measures is left out, because it always
// changes.
func Autoscaler(h *autoscalingv2.HorizontalPodAutoscaler) record.Object {
	t := h.Spec.ScaleTargetRef
	s := record.Scale{
		Target: record.Word(t.Kind) + "/" + record.Word(t.Name), Min: asked(h.Spec.MinReplicas), Max: new(h.Spec.MaxReplicas),
		Replicas: new(h.Status.DesiredReplicas),
	}
	for _, m := range h.Spec.Metrics {
		if text := metric(m); text != "" && len(s.Metrics) < maxMetrics {
			s.Metrics = append(s.Metrics, text)
		}
	}
	slices.Sort(s.Metrics)
	return owned(record.KindAutoscaler, h, s)
}

// maxMetrics bounds the metrics of an autoscaler in a record. API servers set no limit.
const maxMetrics = 20

// metric describes a metric and its goal, such as "cpu 80%" or "requests 100".
func metric(m autoscalingv2.MetricSpec) string {
	name, goal := "", autoscalingv2.MetricTarget{}
	switch {
	case m.Resource != nil:
		name, goal = string(m.Resource.Name), m.Resource.Target
	case m.ContainerResource != nil:
		name, goal = string(m.ContainerResource.Name), m.ContainerResource.Target
	case m.Pods != nil:
		name, goal = m.Pods.Metric.Name, m.Pods.Target
	case m.Object != nil:
		name, goal = m.Object.Metric.Name, m.Object.Target
	case m.External != nil:
		name, goal = m.External.Metric.Name, m.External.Target
	}
	if name == "" {
		return ""
	}
	if goal.AverageUtilization != nil {
		return fmt.Sprintf("%s %d%%", record.Word(name), *goal.AverageUtilization)
	}
	if q := cmp.Or(goal.AverageValue, goal.Value); q != nil {
		return record.Word(name) + " " + record.Word(q.String())
	}
	return record.Word(name)
}
