// Package nodepool describes groups of equal simulated nodes, reads them from YAML, and
// makes the nodes of a cluster match them.
//
// A pool of ten nodes with GPUs in two zones is
//
//	pools:
//	  - name: gpu
//	    count: 10
//	    capacity: {cpu: "64", memory: 256Gi, pods: 110, nvidia.com/gpu: 8}
//	    zones: [a, b]
//	    taints: [{key: nvidia.com/gpu, effect: NoSchedule}]
//
// and becomes the nodes gpu-0 to gpu-9, the even ones in zone a. [Parse] reads such a file,
// [Default] is what a cluster has without one, and [Reconcile] creates, updates and deletes
// nodes until they are what the pools say.
package nodepool
