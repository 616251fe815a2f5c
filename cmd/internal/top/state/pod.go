package state

import (
	"cmp"
	"time"

	v1 "k8s.io/api/core/v1"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
)

// Pod holds the values that the sums need. An API pod is some thirty times as large.
type Pod struct {
	Namespace string
	Name      string
	Node      string // empty while it is pending
	Status    string // in kubectl's words: Running, Pending, Terminating, CrashLoopBackOff
	Scheduler string
	Workload  string            // its controller, as Kind/name; empty without one
	CPU       int64             // effective request, millicores
	Memory    int64             // effective request, bytes
	GPU       int64             // effective request, thousandths of a device
	Devices   cluster.DeviceSet // the GPUs that the pod uses; empty if it does not say
	Claims    []string          // names of its ResourceClaims; nil for none
	Created   time.Time
	Done      bool      // Succeeded or Failed, so that it holds no resources
	Scheduled time.Time // when PodScheduled became true, to the second; else zero
	Reason    string    // from PodScheduled while it is false
	Message   string
}

// podOf converts an API pod. It computes the effective request as kube-scheduler does, from
// containers, sidecars, init containers, overhead, pod-level resources and in-place resizes.
func podOf(p *v1.Pod) Pod {
	requests := kube.Requests(p)
	out := Pod{
		Namespace: p.Namespace, Name: p.Name, Node: p.Spec.NodeName, Status: Printable(statusOf(p)), Scheduler: Printable(p.Spec.SchedulerName),
		Workload: Printable(kube.Workload(p)),
		CPU:      requests.MilliCPU, Memory: requests.Memory,
		Created: p.CreationTimestamp.Time,
		Done:    kube.Finished(p),
	}
	gpu, _ := kube.RunningWith(p, requests) // if annotations contradict the resources, the resources count
	out.GPU, out.Devices = gpu.Requests.TotalGPUMilli(), gpu.Devices
	out.Claims = kube.ClaimNames(p)
	if p.Status.ExtendedResourceClaimStatus != nil { // a claim holds its GPUs
		out.GPU, out.Devices = 0, 0
	}
	for i := range p.Status.Conditions {
		c := &p.Status.Conditions[i]
		if c.Type != v1.PodScheduled {
			continue
		}
		if c.Status == v1.ConditionTrue {
			out.Scheduled = c.LastTransitionTime.Time
		} else {
			out.Reason, out.Message = Printable(c.Reason), Printable(c.Message)
		}
	}
	return out
}

// statusOf returns a pod's status in kubectl's words: that it is being deleted, why a container of it does not run, or else its phase.
func statusOf(p *v1.Pod) string {
	if p.DeletionTimestamp != nil {
		return "Terminating"
	}
	for _, containers := range [][]v1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for i := range containers {
			s := &containers[i].State
			switch {
			case s.Waiting != nil && s.Waiting.Reason != "" && s.Waiting.Reason != "PodInitializing":
				return s.Waiting.Reason
			case s.Terminated != nil && s.Terminated.ExitCode != 0:
				return cmp.Or(s.Terminated.Reason, "Error")
			}
		}
	}
	return cmp.Or(p.Status.Reason, string(p.Status.Phase))
}
