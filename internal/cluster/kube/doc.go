// Package kube translates between Kubernetes objects and the values of package cluster.
//
// Node, Pod, Running and Snapshot read objects. Capacity, ResourceList, GPUAnnotations, Taints and
// Tolerations write the fields of objects. Everything else that turns Kubernetes' pods and nodes into
// values, or values into pods, calls this package; kwok/nodepool writes its nodes itself.
//
// # GPUs
//
// Kubernetes counts whole GPUs as the extended resource nvidia.com/gpu, which device plugins publish. It has no standard names for shares
// of a GPU, for GPU models and for the devices that a pod runs on. This package uses the names of the openb trace's tools:
//
//	on a node
//	  label        alibabacloud.com/gpu-card-model  the model of its GPUs
//	  allocatable  alibabacloud.com/gpu-count       the number of its GPUs
//	               alibabacloud.com/gpu-milli       1000 for each GPU
//	on a pod
//	  annotation   alibabacloud.com/gpu-count       the number of GPUs it requests
//	               alibabacloud.com/gpu-milli       thousandths of each GPU, 1 to 1000
//	               alibabacloud.com/gpu-card-model  the models it accepts: A10|T4
//	               alibabacloud.com/gpu-index       the devices it runs on, set by the scheduler: 0-1
//	  request      alibabacloud.com/gpu-milli       can replace the first two annotations
//
// If a pod has both nvidia.com/gpu and annotations, they must request the same. The owner of a pod can change its annotations at any time.
// An annotation that contradicts the requested resources, or names a device without room, is therefore ignored. The scheduler uses the
// annotations as it first saw them; see package scheduler/plugin.
package kube
