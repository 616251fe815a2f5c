package advise

import (
	"context"
	"math"

	v1 "k8s.io/api/core/v1"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
)

// Reasons why Admit refuses a pod or a node. Only kube quotes text of a pod's owner, and truncates it.
const (
	refuseShare = "the pod needs a GPU device of its own choice or a share of one, and a scheduler that only asks for advice cannot write " +
		"the device on the pod; set spec.schedulerName to a scheduler of gnnsched"
	refuseShared = "the node shares its GPUs, so that a scheduler of gnnsched must write the device on the pod"
	refuseModel  = "the node has no GPU of a model that the pod allows"
	refuseCount  = "the node has too few GPUs"
)

// Admit returns the named nodes that may not take the pod, each with the reason: no scheduler would assign its GPU devices there. A pod
// without GPUs may go anywhere, since kube-scheduler checks everything else, and any pod may go to a node that the advisor does not know
// yet.
//
// A pod with a share of a GPU, with the annotations of shares, or with a device's index is refused everywhere: it would run without
// devices, or on another pod's devices. A pod that requests whole devices is refused where the node shares its devices, or has a model that
// the pod does not allow.
func (a *Advisor) Admit(ctx context.Context, pod *v1.Pod, names []string) (refused map[string]string, err error) {
	request, wrong := kube.GPURequestOf(pod.Annotations, kube.Requests(pod))
	if wrong == nil && request.None() {
		return nil, nil
	}
	refused = map[string]string{}
	if wrong != nil || request.GPUMilli > 0 || request.WantsIndex {
		why := refuseShare
		if wrong != nil {
			why = "the pod's GPUs: " + wrong.Error()
		}
		for _, name := range names {
			refused[name] = why
		}
		return refused, nil
	}
	if err := a.take(ctx); err != nil {
		return nil, err
	}
	defer a.give()
	asks := &cluster.Pod{Requests: cluster.Resources{GPU: request.GPU, Pods: 1}, GPUModels: request.Models}
	for _, name := range names {
		info, err := a.snapshot.Get(name)
		if err != nil {
			continue
		}
		if why := refusedBy(info.Node(), asks); why != "" {
			refused[name] = why
		}
	}
	return refused, nil
}

// refusedBy returns why even the empty node refuses a pod with whole GPUs; "" if it does not.
func refusedBy(object *v1.Node, asks *cluster.Pod) string {
	amounts := kube.AmountsIn(object.Status.Allocatable)
	if amounts.SharesGPUs() {
		return refuseShared
	}
	n := &cluster.Node{Name: object.Name}
	kube.SetGPUs(n, object, amounts)
	n.Allocatable.Pods = math.MaxInt64
	switch n.Fit(asks) {
	case cluster.WrongModel:
		return refuseModel
	case cluster.NoGPU:
		return refuseCount
	}
	return ""
}
