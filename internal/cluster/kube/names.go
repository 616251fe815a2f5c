package kube

// Names of resources, labels and annotations for GPUs. The package comment explains them.
const (
	// GPUResource counts whole GPUs, on nodes and in requests.
	GPUResource = "nvidia.com/gpu"
	// GPUCountResource counts the GPUs of a node.
	GPUCountResource = "alibabacloud.com/gpu-count"
	// GPUMilliResource counts thousandths of GPUs, on nodes and in requests.
	GPUMilliResource = "alibabacloud.com/gpu-milli"

	// GPUModelLabel is the label with the GPU model of a node.
	GPUModelLabel = "alibabacloud.com/gpu-card-model"

	// GPUCountAnnotation is the number of GPUs that a pod requests.
	GPUCountAnnotation = GPUCountResource
	// GPUMilliAnnotation holds the thousandths of each GPU that a pod requests.
	GPUMilliAnnotation = GPUMilliResource
	// GPUModelAnnotation lists the GPU models that a pod accepts, separated by |.
	GPUModelAnnotation = GPUModelLabel
	// GPUIndexAnnotation lists the devices that a pod runs on, separated by -.
	GPUIndexAnnotation = "alibabacloud.com/gpu-index"

	// HoldsAnnotation of a node says for which pods it is held; see package scheduler/plugin/nodereservation.
	HoldsAnnotation = "gnnsched.io/holds"
	// DefragAnnotation of a node begins with DefragMoving while pods are moved away from it.
	DefragAnnotation = "gnnsched.io/defrag"
	DefragMoving     = "moving"
)

// productLabel is the label in which NVIDIA's GPU feature discovery writes the model. A node
// without GPUModelLabel has this one's model.
const productLabel = "nvidia.com/gpu.product"
