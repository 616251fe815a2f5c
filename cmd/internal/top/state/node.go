package state

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
)

// Moving ends the status of a node that gnnsched defrag moves pods to or from.
const Moving = ",Moving"

const (
	roleLabelPrefix = "node-role.kubernetes.io/"
	roleLabel       = "kubernetes.io/role" // the older label, which kubectl still reads
)

// nodeOf converts an API node. Requested amounts stay zero: they come from the pods.
func nodeOf(n *v1.Node) Node {
	allocatable := kube.AmountsIn(n.Status.Allocatable)
	gpus := &cluster.Node{}
	kube.SetGPUs(gpus, n, allocatable)
	out := Node{
		Name:     n.Name,
		Status:   "Unknown",
		Roles:    roles(n.Labels),
		Version:  Printable(n.Status.NodeInfo.KubeletVersion),
		Zone:     n.Labels[v1.LabelTopologyZone],
		Created:  n.CreationTimestamp.Time,
		Cordoned: n.Spec.Unschedulable,
		Worker:   true,
		CPU:      Usage{Allocatable: allocatable.MilliCPU},
		Memory:   Usage{Allocatable: allocatable.Memory},
		Pods:     Usage{Allocatable: allocatable.Pods},
		GPU:      Usage{Allocatable: gpus.Allocatable.TotalGPUMilli()},
		GPUModel: Printable(gpus.GPUModel),
		Devices:  gpus.GPUs,
	}
	for _, c := range n.Status.Conditions {
		if c.Type == v1.NodeReady {
			out.Status, out.Ready = readiness(c.Status)
		}
	}
	if out.Cordoned {
		out.Status += ",SchedulingDisabled"
	}
	if n.Annotations[kube.HoldsAnnotation] != "" || strings.HasPrefix(n.Annotations[kube.DefragAnnotation], kube.DefragMoving) {
		out.Status += Moving
	}
	for _, a := range n.Status.Addresses {
		if a.Type == v1.NodeInternalIP && out.InternalIP == "" {
			out.InternalIP = Printable(a.Address)
		}
	}
	for i := range n.Spec.Taints {
		t := &n.Spec.Taints[i]
		out.Taints = append(out.Taints, t.ToString())
		if (cluster.Taint{Key: t.Key, Effect: cluster.Effect(t.Effect)}).ControlPlane() {
			out.Worker = false
		}
	}
	slices.Sort(out.Taints)
	return out
}

func readiness(s v1.ConditionStatus) (status string, ready bool) {
	switch s {
	case v1.ConditionTrue:
		return "Ready", true
	case v1.ConditionFalse:
		return "NotReady", false
	}
	return "Unknown", false
}

func roles(labels map[string]string) []string {
	var out []string
	for k, v := range labels {
		switch {
		case strings.HasPrefix(k, roleLabelPrefix):
			if role := k[len(roleLabelPrefix):]; role != "" {
				out = append(out, role)
			}
		case k == roleLabel && v != "":
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Printable makes text from a cluster safe for a terminal: it replaces control characters and line
// breaks by spaces, and bytes that are not UTF-8.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}
