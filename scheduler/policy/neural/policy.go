package neural

import (
	"gnnsched/gnn/infer"
	"gnnsched/internal/fragmentation"
	"gnnsched/scheduler/policy"
)

// Policy scores with a network. Score fails with infer.ErrDeadline or infer.ErrNaN; after ErrNaN or a
// panic the policy must not be used again.
type Policy interface {
	policy.DeviceChooser
	policy.Reader
	// Until makes every later Score fail with infer.ErrDeadline once expired returns true. nil means
	// never.
	Until(expired func() bool)
}

// New returns a policy with the given name that runs net for a workload with the given typical pods, which are nil if they are not known:
// a GPUPolicy of a network that values nodes, else a GraphPolicy. Only networks that read devices depend on the typical pods.
func New(name string, net *infer.Network, typical *fragmentation.Typical) Policy {
	if net.ValuesNodes() {
		return newGPU(name, net, typical)
	}
	return newGraph(name, net, typical)
}
