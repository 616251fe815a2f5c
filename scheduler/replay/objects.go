package replay

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/apis/scheduling"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"gnnsched/workload/record"
	rows "gnnsched/workload/record/play"
)

// objects turns rows of a record into objects of Kubernetes' API. Pods that are equal in all that matters share
// their containers and the rest of their specs.
type objects struct {
	rows.Reader
	templates map[record.Pod]*v1.Pod
}

func newObjects() *objects { return &objects{templates: map[record.Pod]*v1.Pod{}} }

// pod returns a pod that waits.
func (o *objects) pod(r *record.Pod) *v1.Pod {
	key := *r
	key.UID, key.Name, key.GPUIndex, key.Images, key.Claims, key.Holds, key.Workload = "", "", "", "", "", "", ""
	key.DoNotDisrupt, key.Deadline, key.Group, key.Health, key.HealthSince = "", 0, "", "", 0
	key.Arrived, key.Bound, key.Ended, key.End, key.Node = 0, 0, 0, "", ""
	t := o.templates[key]
	if t == nil {
		t = o.Pod(&key)
		if r.Daemon && r.OwnerKind != "DaemonSet" { // a static pod; its owner is the node
			metav1.SetMetaDataAnnotation(&t.ObjectMeta, v1.MirrorPodAnnotationKey, "")
			t.Spec.Priority = new(max(r.Priority, staticPriority))
		}
		if _, err := framework.NewPodInfo(t); err != nil { // an affinity that no API server accepts
			o.Unreadable("affinity")
			t.Spec.Affinity = nil
		}
		o.templates[key] = t
	}
	p := *t
	p.UID, p.Name, p.CreationTimestamp = types.UID(r.UID), r.Name, metav1.NewTime(time.UnixMilli(r.Arrived))
	return &p
}

// staticPriority is the least priority of a static pod, even if its record has a lower one: system-node-critical, so that only system pods
// preempt it.
const staticPriority = scheduling.SystemCriticalPriority + 1000
