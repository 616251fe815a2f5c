package usage

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"

	"gnnsched/internal/cluster/kube"
)

// listers implements objects by the scheduler's informers.
type listers struct {
	nodes corelisters.NodeLister
	pods  corelisters.PodLister
}

// directoryOf returns the directory of two listers.
func directoryOf(nodes corelisters.NodeLister, pods corelisters.PodLister) objects {
	return listers{nodes, pods}
}

// Nodes implements objects: nodes have their name, and their addresses unless two nodes share one.
func (l listers) Nodes() map[string]nodeInfo {
	nodes, err := l.nodes.List(labels.Everything())
	if err != nil {
		return nil // a lister of a cache does not fail
	}
	out, shared := make(map[string]nodeInfo, 2*len(nodes)), map[string]bool{}
	for _, n := range nodes {
		for _, a := range n.Status.Addresses {
			if before, taken := out[a.Address]; taken && before.Name != n.Name {
				shared[a.Address] = true
			}
			out[a.Address] = infoOf(n)
		}
	}
	for address := range shared {
		delete(out, address)
	}
	for _, n := range nodes {
		out[n.Name] = infoOf(n) // a name counts more than an address
	}
	return out
}

func infoOf(n *v1.Node) nodeInfo {
	model, _ := kube.Power(n) // the scheduler's mirror logs a faulty annotation
	return nodeInfo{Name: n.Name, Allocatable: kube.Node(n).Allocatable, Power: model}
}

// Workload implements objects.
func (l listers) Workload(namespace, pod string) (key string, known bool) {
	p, err := l.pods.Pods(namespace).Get(pod)
	if err != nil {
		return "", false
	}
	return workloadOf(p)
}
