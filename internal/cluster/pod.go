package cluster

import "gnnsched/internal/cluster/mig"

// Pod is a pod that waits for a node.
type Pod struct {
	Name         string
	Namespace    string
	Owner        string            // the pod's workload, such as a ReplicaSet; empty if none or not known
	Requests     Resources         // Pods is 1
	NodeSelector map[string]string // labels that the node must have
	Tolerations  []Toleration
	GPUModels    []string    // GPU models that the pod accepts; empty: any
	Partition    mig.Profile // of the one MIG partition that the pod requests; Requests has its thousandths of a device, too

	Limits Resources // of CPU and memory; 0 for a resource without one, or if limits are not known
	Usage  *PodUsage // its workload's earlier usage; nil if not known
}
