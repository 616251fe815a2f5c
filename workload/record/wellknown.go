package record

import "strings"

// The kinds of objects.
const (
	KindNamespace     = "Namespace"
	KindPriorityClass = "PriorityClass"
	KindBudget        = "PodDisruptionBudget"
	KindJob           = "Job"
)

// wellKnown are the keys of labels and taints that an Anonymiser keeps, because schedulers and controllers depend on them. The list is
// closed: anyone may put the name of a team behind node-role.kubernetes.io.
var wellKnown = set(
	"kubernetes.io/arch", "kubernetes.io/os", "kubernetes.io/hostname", "kubernetes.io/metadata.name",
	"beta.kubernetes.io/arch", "beta.kubernetes.io/os", "beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type",
	"topology.kubernetes.io/zone", "topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/zone",
	"failure-domain.beta.kubernetes.io/region",
	"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master", "node.kubernetes.io/exclude-from-external-load-balancers",
	"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "node.kubernetes.io/unschedulable", "node.kubernetes.io/memory-pressure",
	"node.kubernetes.io/disk-pressure", "node.kubernetes.io/pid-pressure", "node.kubernetes.io/network-unavailable",
	"node.kubernetes.io/out-of-service",
	"node.cloudprovider.kubernetes.io/uninitialized", "node.cloudprovider.kubernetes.io/shutdown",
	"app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/component", "app.kubernetes.io/part-of",
	"app.kubernetes.io/version",
	"app.kubernetes.io/managed-by", "apps.kubernetes.io/pod-index", "statefulset.kubernetes.io/pod-name", "batch.kubernetes.io/job-name",
	"batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-completion-index", "job-name", "controller-uid", "app", "k8s-app",
	"pod-template-hash", "pod-template-generation", "controller-revision-hash",
	"karpenter.sh/nodepool", "karpenter.sh/capacity-type", "eks.amazonaws.com/nodegroup", "cloud.google.com/gke-nodepool",
	"kubernetes.azure.com/agentpool",
	"nvidia.com/gpu", "nvidia.com/gpu.product", "nvidia.com/gpu.count", "nvidia.com/gpu.memory", "alibabacloud.com/gpu-card-model",
	"kwok.x-k8s.io/node",
)

// openValues are the keys of labels whose values an Anonymiser keeps.
var openValues = set("kubernetes.io/arch", "kubernetes.io/os", "beta.kubernetes.io/arch", "beta.kubernetes.io/os",
	"karpenter.sh/capacity-type", "nvidia.com/gpu.count")

// openResources are the domains of resources that an Anonymiser keeps.
var openResources = set("nvidia.com", "amd.com", "intel.com", "gpu.intel.com", "habana.ai", "google.com", "aws.amazon.com",
	"alibabacloud.com", "vpc.amazonaws.com", "hugepages")

// openOwners are the kinds of owners that an Anonymiser keeps.
var openOwners = []string{"", "ReplicaSet", "Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob", "ReplicationController", "Node"}

func set(names ...string) map[string]bool {
	out := make(map[string]bool, len(names))
	for _, n := range names {
		out[n] = true
	}
	return out
}

// KeyOf returns the key of a label whose punctuation an exporter of metrics has replaced by underscores. It restores well-known keys only;
// others stay unchanged.
func KeyOf(exported string) string {
	if key, ok := exportedKeys[exported]; ok {
		return key
	}
	return exported
}

var exportedKeys = func() map[string]string {
	punctuation, out := strings.NewReplacer(".", "_", "/", "_", "-", "_"), map[string]string{}
	for key := range wellKnown {
		out[punctuation.Replace(key)] = key
	}
	return out
}()
