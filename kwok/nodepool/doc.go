// Package nodepool describes groups of equal simulated nodes, reads them from YAML and makes the
// nodes of a cluster match them.
//
// This pool has ten nodes with GPUs in two zones:
//
//	pools:
//	  - name: gpu
//	    count: 10
//	    capacity: {cpu: "64", memory: 256Gi, pods: 110, nvidia.com/gpu: 8}
//	    zones: [a, b]
//	    taints: [{key: nvidia.com/gpu, effect: NoSchedule}]
//
// Its nodes are gpu-0 to gpu-9; those with even numbers are in zone a. [Load] reads such a file,
// [Default] returns the pools of a cluster without one, [Single] makes pools from a list of nodes,
// and [Reconcile] creates, updates and deletes nodes until they match the pools.
package nodepool
