package neural

import (
	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/internal/cluster"
	"gnnsched/internal/fragmentation"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/supply"
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
// a supply.Policy of a network on the graph of kinds, a GPUPolicy of another that values nodes, else a GraphPolicy. Only networks that read
// devices depend on the typical pods.
func New(name string, net *infer.Network, typical *fragmentation.Typical) Policy {
	switch {
	case net.Architecture().Graph == checkpoint.KindsGraph:
		prices := newKindPrices(net)
		return kindPolicy{supply.New(name, prices), prices}
	case net.ValuesNodes():
		return newGPU(name, net, typical)
	}
	return newGraph(name, net, typical)
}

// kindPolicy scores with prices of a network on the graph of kinds. The devices are those that cluster.Node.ChooseDevices chooses.
type kindPolicy struct {
	*supply.Policy
	prices *kindPrices
}

// Devices implements policy.DeviceChooser.
func (kindPolicy) Devices(n *cluster.Node, pod *cluster.Pod) cluster.DeviceSet {
	return n.ChooseDevices(pod.Requests)
}

// Until implements Policy. The deadline is that of the network; what a placement takes from each kind is counted after it.
func (p kindPolicy) Until(expired func() bool) { p.prices.expired = expired }
