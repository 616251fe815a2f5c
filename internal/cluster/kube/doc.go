// Package kube is how GPUs and shares of one are written on Kubernetes' nodes and pods.
//
// Whole devices are the extended resource nvidia.com/gpu, as device plugins have it. For
// shares, for models and for which device a pod is on, Kubernetes has no words; these are the
// ones of the openb trace's own tooling:
//
//	node  label        alibabacloud.com/gpu-card-model  the model of its devices
//	      allocatable  alibabacloud.com/gpu-count       how many devices it has
//	                   alibabacloud.com/gpu-milli       1000 for each device
//	pod   annotation   alibabacloud.com/gpu-count       how many devices it asks for
//	                   alibabacloud.com/gpu-milli       thousandths of each, 1 to 1000
//	                   alibabacloud.com/gpu-card-model  models that may serve it: A10|T4
//	                   alibabacloud.com/gpu-index       devices that it is on: 0-1; the scheduler's
//	      request      alibabacloud.com/gpu-milli       instead of the first two
//
// A pod that has nvidia.com/gpu and annotations must say the same in both. Whoever owns a pod may
// write its annotations at any time, so they are read with doubt: what contradicts the resources,
// or a device's room, does not count.
package kube
